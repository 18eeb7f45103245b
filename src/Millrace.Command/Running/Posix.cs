// The few system calls the command needs that neither .NET offers nor the server has (Platform/SystemCalls*.cs).

using System.Runtime.InteropServices;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Command.Running;

internal static partial class Posix
{
    public const int SigHup = 1;
    public const int SigInt = 2;
    public const int SigKill = 9;
    public const int SigUsr1 = 10;
    public const int SigUsr2 = 12;
    public const int SigTerm = 15;
    private const int WriteOk = 2;

    public static bool IsWritable(string path) => Access(path, WriteOk) == 0;

    /// <summary>Whether a descriptor is a listening socket.</summary>
    public static bool IsListening(int descriptor) => SystemCalls.GetSocketOption(descriptor, SystemCalls.SOL_SOCKET, SystemCalls.SO_ACCEPTCONN) == 1;

    /// <summary>The groups this process belongs to, its primary one included.</summary>
    public static IReadOnlySet<uint> Groups()
    {
        var groups = new HashSet<uint> { GetEffectiveGroup() };
        var list = new uint[1024];
        int count = GetGroups(list.Length, list);
        groups.UnionWith(list.AsSpan(0, Math.Max(count, 0)).ToArray());
        return groups;
    }

    [LibraryImport("libc", EntryPoint = "kill")]
    public static partial int Kill(int process, int signal);

    /// <summary>Makes a link in an open directory.</summary>
    [LibraryImport("libc", EntryPoint = "symlinkat", StringMarshalling = StringMarshalling.Utf8)]
    public static partial int LinkAt(string target, int directory, string name);

    /// <summary>Has an empty file share the bytes of another, where both lie in one file system that can (ioctl_ficlone(2)).</summary>
    public static int CloneFile(int to, int from) => Ioctl(to, 0x40049409, from);

    // Variadic in C; on x64 and arm64 Linux an integer argument travels like any other.
    [LibraryImport("libc", EntryPoint = "ioctl")]
    private static partial int Ioctl(int descriptor, nuint request, nint value);

    [LibraryImport("libc", EntryPoint = "getegid")]
    private static partial uint GetEffectiveGroup();

    [LibraryImport("libc", EntryPoint = "getgroups")]
    private static partial int GetGroups(int size, [Out] uint[] list);

    [LibraryImport("libc", EntryPoint = "access", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Access(string path, int mode);
}
