// The few system calls the command needs that neither .NET offers nor the server has (Platform/SystemCalls*.cs).

using System.Runtime.InteropServices;
using System.Text;
using Microsoft.Win32.SafeHandles;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Command.Running;

/// <summary>Whose rights to files count, which may be others than the process's own.</summary>
/// <param name="User">The user.</param>
/// <param name="Group">Its group.</param>
/// <param name="Groups">All others.</param>
internal readonly record struct FileRights(uint User, uint Group, uint[] Groups);

internal static partial class Posix
{
    public const int SigHup = 1;
    public const int SigInt = 2;
    public const int SigQuit = 3;
    public const int SigKill = 9;
    public const int SigUsr1 = 10;
    public const int SigUsr2 = 12;
    public const int SigTerm = 15;
    public const int SigStop = 19;
    private const int WriteOk = 2;
    private const short HungUp = 0x10;              // POLLHUP
    private const short HungUpReading = 0x2000;     // POLLRDHUP
    private const int GroupsMax = 65536;     // NGROUPS_MAX
    private const int PathMax = 4096;        // PATH_MAX
    private const uint Unchanged = uint.MaxValue;

    public static bool IsWritable(string path) => Access(path, WriteOk) == 0;

    /// <summary>From now on other processes of this user see neither the open files of this one nor its environment or memory (PR_SET_DUMPABLE; proc(5), ptrace(2)).</summary>
    public static void HideProcess() => _ = ControlProcess(4, 0, 0, 0, 0);

    /// <summary>Whether a descriptor is a listening socket.</summary>
    public static bool IsListening(int descriptor) => SystemCalls.GetSocketOption(descriptor, SystemCalls.SOL_SOCKET, SystemCalls.SO_ACCEPTCONN) == 1;

    /// <summary>Whether a descriptor has been shut down, or its reading has: a Unix socket still says that it listens (POLLHUP, POLLRDHUP; poll(2)).</summary>
    public static bool HasHungUp(int descriptor)
    {
        var entry = new PollEntry { Descriptor = descriptor, Asked = HungUpReading };
        return Poll(ref entry, 1, 0) > 0 && (entry.Ready & (HungUp | HungUpReading)) != 0;
    }

    /// <summary>The groups this process belongs to, its primary one included.</summary>
    public static IReadOnlySet<uint> Groups()
    {
        var groups = new HashSet<uint> { GetEffectiveGroup() };
        var list = new uint[1024];
        int count = GetGroups(list.Length, list);
        groups.UnionWith(list.AsSpan(0, Math.Max(count, 0)).ToArray());
        return groups;
    }

    /// <summary>The groups of a user by this name, with that of its account.</summary>
    public static uint[] GroupsOf(string user, uint group)
    {
        var list = new uint[GroupsMax];
        int count = list.Length;
        return GetGroupList(user, group, list, ref count) < 0 ? [group] : list[..count];
    }

    /// <summary>The rights to files that the calling thread has, and no other one (credentials(7)).</summary>
    public static FileRights RightsOfThread()
    {
        var list = new uint[Math.Max(GetGroups(0, []), 0)];
        int count = GetGroups(list.Length, list);
        return new FileRights((uint)SetFileUser(Unchanged), (uint)SetFileGroup(Unchanged), list[..Math.Max(count, 0)]);
    }

    /// <summary>Gives the calling thread these, unless it may not take them.</summary>
    public static unsafe bool TrySetRightsOfThread(FileRights rights)
    {
        fixed (uint* groups = rights.Groups)
        {
            if (SystemCall(SystemCalls.ArchitectureNumbers.Here.SYS_setgroups, rights.Groups.Length, (nint)groups) != 0)
            {
                return false;
            }
        }
        _ = SetFileGroup(rights.Group);
        _ = SetFileUser(rights.User);
        return SetFileUser(Unchanged) == (int)rights.User && SetFileGroup(Unchanged) == (int)rights.Group;
    }

    /// <summary>Makes this process another user's, all of its threads, without a way back.</summary>
    public static bool TryBecome(FileRights user) =>
        SetGroups(user.Groups.Length, user.Groups) == 0
        && SetAllGroups(user.Group, user.Group, user.Group) == 0
        && SetAllUsers(user.User, user.User, user.User) == 0
        && SetAllUsers(Unchanged, 0, Unchanged) != 0;

    /// <summary>Has no controlling terminal any more, unless it is there for this process, which leads its session.</summary>
    public static unsafe void LeaveTerminal()
    {
        if (Session() == Environment.ProcessId)
        {
            return;
        }
        fixed (byte* name = "/dev/tty\0"u8)
        {
            int terminal = SystemCalls.OpenAt(SystemCalls.AT_FDCWD, name, SystemCalls.O_RDWR | SystemCalls.O_NONBLOCK | SystemCalls.O_CLOEXEC);
            if (terminal >= 0)
            {
                _ = Ioctl(terminal, 0x5422, 0);     // TIOCNOTTY
                _ = SystemCalls.Close(terminal);
            }
        }
    }

    /// <summary>As long as these are not disposed of, SIGUSR1 and SIGUSR2, which somebody may send out of habit (to have logs opened again), do not end this process.</summary>
    public static PosixSignalRegistration[] IgnoreUserSignals() =>
        [.. new[] { SigUsr1, SigUsr2 }.Select(static signal => PosixSignalRegistration.Create((PosixSignal)signal, static context => context.Cancel = true))];

    /// <summary>Whether this process has a controlling terminal, and that has not gone.</summary>
    public static unsafe bool TerminalIsThere()
    {
        fixed (byte* name = "/dev/tty\0"u8)
        {
            int terminal = SystemCalls.OpenAt(SystemCalls.AT_FDCWD, name, SystemCalls.O_RDWR | SystemCalls.O_NONBLOCK | SystemCalls.O_CLOEXEC);
            return terminal >= 0 && SystemCalls.Close(terminal) == 0;
        }
    }

    /// <summary>Descriptors that a process may have at most which this one starts.</summary>
    public static unsafe long DescriptorsMost()
    {
        SystemCalls.ResourceLimit limit;
        return SystemCalls.GetResourceLimit(SystemCalls.RLIMIT_NOFILE, &limit) == 0 ? (long)Math.Min(limit.Hard, long.MaxValue) : long.MaxValue;
    }

    /// <summary>A path without a link in it (realpath(3)); null where nothing is there, or a folder on the way is closed.</summary>
    public static string? RealPath(string path)
    {
        byte[] real = new byte[PathMax];
        return FindRealPath(path, real) != 0 ? Encoding.UTF8.GetString(real, 0, Array.IndexOf(real, (byte)0)) : null;
    }

    [LibraryImport("libc", EntryPoint = "realpath", StringMarshalling = StringMarshalling.Utf8)]
    private static partial nint FindRealPath(string path, [Out] byte[] real);

    /// <summary>Whether a file has an extended attribute that says "1".</summary>
    public static bool HasAttribute(string path, string name)
    {
        var value = new byte[16];
        return GetAttribute(path, name, value, value.Length) == 1 && value[0] == (byte)'1';
    }

    [LibraryImport("libc", EntryPoint = "getxattr", StringMarshalling = StringMarshalling.Utf8)]
    private static partial nint GetAttribute(string path, string name, [Out] byte[] value, nint size);

    [StructLayout(LayoutKind.Sequential)]
    private struct PollEntry
    {
        public int Descriptor;
        public short Asked;
        public short Ready;
    }

    [LibraryImport("libc", EntryPoint = "poll")]
    private static partial int Poll(ref PollEntry entries, nuint count, int timeout);

    /// <summary>
    /// From now on this process, and what it starts, is in a session and a process group of its own, without a terminal: what signals its group signals nobody else (kill(2), of process 0). Where it
    /// leads a group already all is as it was.
    /// </summary>
    public static void BeginSession() => _ = SetSession();

    [LibraryImport("libc", EntryPoint = "setsid")]
    private static partial int SetSession();

    [LibraryImport("libc", EntryPoint = "getsid")]
    private static partial int GetSession(int process);

    /// <summary>The process that leads the session of this one; 0 where that cannot be seen from here.</summary>
    public static int Session() => GetSession(0);

    /// <summary>A file that lies in memory, and is gone when nobody has it open any more.</summary>
    /// <exception cref="IOException">There is no room for it.</exception>
    public static SafeFileHandle MemoryFile(string name)
    {
        const uint closeOnExec = 1;
        var file = new SafeFileHandle(CreateMemoryFile(name, closeOnExec), ownsHandle: true);
        return !file.IsInvalid ? file : throw new IOException(Marshal.GetLastPInvokeErrorMessage());
    }

    [LibraryImport("libc", EntryPoint = "memfd_create", StringMarshalling = StringMarshalling.Utf8, SetLastError = true)]
    private static partial int CreateMemoryFile(string name, uint flags);

    [LibraryImport("libc", EntryPoint = "kill")]
    public static partial int Kill(int process, int signal);

    // Variadic in C, as ioctl.
    [LibraryImport("libc", EntryPoint = "prctl")]
    private static partial int ControlProcess(int option, nuint a, nuint b, nuint c, nuint d);

    /// <summary>Locks an open file or directory for this process, unless another has done so (flock(2)).</summary>
    public static bool TryLock(int descriptor) => Lock(descriptor, 2 | 4) == 0;

    [LibraryImport("libc", EntryPoint = "flock")]
    private static partial int Lock(int descriptor, int operation);

    /// <summary>Makes a link in an open directory.</summary>
    [LibraryImport("libc", EntryPoint = "symlinkat", StringMarshalling = StringMarshalling.Utf8)]
    public static partial int LinkAt(string target, int directory, string name);

    /// <summary>Has an empty file share the bytes of another, where both lie in one file system that can (ioctl_ficlone(2)).</summary>
    public static int CloneFile(int to, int from) => Ioctl(to, 0x40049409, from);

    // Variadic in C; on x64 and arm64 Linux an integer argument travels like any other.
    [LibraryImport("libc", EntryPoint = "ioctl")]
    private static partial int Ioctl(int descriptor, nuint request, nint value);

    // Both answer what was before; and neither says whether it has done anything.
    [LibraryImport("libc", EntryPoint = "setfsuid")]
    private static partial int SetFileUser(uint user);

    [LibraryImport("libc", EntryPoint = "setfsgid")]
    private static partial int SetFileGroup(uint group);

    [LibraryImport("libc", EntryPoint = "setgroups")]
    private static partial int SetGroups(nint count, uint[] groups);

    [LibraryImport("libc", EntryPoint = "setresgid")]
    private static partial int SetAllGroups(uint real, uint effective, uint saved);

    [LibraryImport("libc", EntryPoint = "setresuid")]
    private static partial int SetAllUsers(uint real, uint effective, uint saved);

    [LibraryImport("libc", EntryPoint = "getgrouplist", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int GetGroupList(string user, uint group, [Out] uint[] list, ref int count);

    [LibraryImport("libc", EntryPoint = "syscall")]
    private static partial nint SystemCall(nint number, nint a, nint b);

    [LibraryImport("libc", EntryPoint = "syscall")]
    private static partial nint SystemCall(nint number, nint a, nint b, nint c, nint d);

    [LibraryImport("libc", EntryPoint = "getegid")]
    private static partial uint GetEffectiveGroup();

    [LibraryImport("libc", EntryPoint = "getgroups")]
    private static partial int GetGroups(int size, [Out] uint[] list);

    [LibraryImport("libc", EntryPoint = "access", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Access(string path, int mode);
}
