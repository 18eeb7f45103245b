// What .NET has no word for: a child whose descriptors 0, 1 and 2 are ours to choose, and what becomes of it. No decisions here.

using System.Globalization;
using System.Runtime.InteropServices;
using System.Text;

namespace Millrace.Workers.Processes;

internal static partial class Posix
{
    /// <summary>The HResult of an <see cref="IOException"/> of this class where what is asked for is not there (ENOENT).</summary>
    public const int IsNotThere = 2;

    public const int SigKill = 9;
    public const int SigTerm = 15;

    private const int StructureMax = 1024;          // posix_spawnattr_t 336, posix_spawn_file_actions_t 80, sigset_t 128: x64 and arm64, glibc and musl
    private const int SetGroup = 0x02;              // POSIX_SPAWN_SETPGROUP
    private const int SetDefault = 0x04;            // POSIX_SPAWN_SETSIGDEF
    private const int SetMask = 0x08;               // POSIX_SPAWN_SETSIGMASK
    private const int UnixFamily = 1;               // AF_UNIX
    private const int Stream = 1;                   // SOCK_STREAM
    private const int SocketLevel = 1;              // SOL_SOCKET
    private const int PassRights = 83;              // SO_PASSRIGHTS
    private const int CloseOnExecute = 0x80000;     // SOCK_CLOEXEC, EFD_CLOEXEC
    private const int AddressSize = 110;            // sizeof(struct sockaddr_un)
    private const uint OwnSocket = 0x180;           // 0600
    private const uint OwnFolder = 0x1C0;           // 0700
    private const int IsThere = 17;                 // EEXIST
    private const int SharedLock = 1;               // LOCK_SH
    private const int DoNotBlockLock = 4;           // LOCK_NB
    private const int NothingBehind = 6;            // ENXIO
    private const int NoSuchProcess = 3;            // ESRCH
    private const int DoNotBlock = 0x800;           // O_NONBLOCK
    private const int ThisFolder = -100;            // AT_FDCWD
    private const int PathOnly = 0x200000;          // O_PATH
    private const int OpenProcessNumber = 434;      // pidfd_open(2): the same on x64 and arm64
    private const int SendSignalNumber = 424;       // pidfd_send_signal(2)
    private const int DoNotWait = 1;                // WNOHANG
    private const int Readable = 1;                 // POLLIN

    // These two are exchanged on arm64.
    private static readonly int s_folderOnly = RuntimeInformation.ProcessArchitecture == Architecture.Arm64 ? 0x4000 : 0x10000;      // O_DIRECTORY
    private static readonly int s_noLink = RuntimeInformation.ProcessArchitecture == Architecture.Arm64 ? 0x8000 : 0x20000;          // O_NOFOLLOW

    /// <summary>Starts a program in a process group of its own, with no signal blocked and every one at its default.</summary>
    /// <param name="command">A path, or a name that is looked for in PATH.</param>
    /// <param name="arguments">The name first.</param>
    /// <param name="environment">NAME=value.</param>
    /// <param name="folder">Where it begins; null: here.</param>
    /// <param name="input">Becomes its descriptor 0.</param>
    /// <param name="output">Becomes its descriptors 1 and 2.</param>
    /// <returns>Its number.</returns>
    /// <exception cref="IOException">It cannot be started.</exception>
    public static unsafe int Spawn(string command, IReadOnlyList<string> arguments, IReadOnlyList<string> environment, string? folder, int input, int output)
    {
        byte* actions = stackalloc byte[StructureMax];
        byte* attributes = stackalloc byte[StructureMax];
        byte* signals = stackalloc byte[StructureMax];
        using var names = new NativeStrings(arguments);
        using var variables = new NativeStrings(environment);
        using var strings = new NativeStrings(folder is null ? [command] : [command, folder]);
        _ = InitActions(actions);
        _ = InitAttributes(attributes);
        try
        {
            Check(command, AddDup(actions, input, 0));
            Check(command, AddDup(actions, output, 1));
            Check(command, AddDup(actions, output, 2));
            if (folder is not null)
            {
                Check(command, AddFolder(actions, strings.Pointer[1]));
            }
            _ = EmptySet(signals);
            Check(command, SetSignalMask(attributes, signals));
            _ = FillSet(signals);
            Check(command, SetSignalDefaults(attributes, signals));
            Check(command, SetProcessGroup(attributes, 0));
            Check(command, SetFlags(attributes, SetGroup | SetDefault | SetMask));
            Check(command, Spawn(out int child, strings.Pointer[0], actions, attributes, names.Pointer, variables.Pointer));
            return child;
        }
        finally
        {
            _ = EndActions(actions);
            _ = EndAttributes(attributes);
        }
    }

    private static void Check(string command, int error)
    {
        if (error != 0)
        {
            throw new IOException($"{command} cannot be started: {Marshal.GetPInvokeErrorMessage(error)}.");
        }
    }

    /// <summary>Two connected Unix sockets, which no other child inherits.</summary>
    /// <exception cref="IOException">There are no descriptors left.</exception>
    public static unsafe (int Ours, int Theirs) Pair()
    {
        int* pair = stackalloc int[2];
        if (SocketPair(UnixFamily, Stream | CloseOnExecute, 0, pair) != 0)
        {
            throw Failure("A pair of sockets cannot be made");
        }
        RefuseDescriptors(pair[0]);
        return (pair[0], pair[1]);
    }

    /// <summary>
    /// Has the kernel refuse descriptors that come along with bytes (SCM_RIGHTS; from Linux 6.16 on): it would close them on the thread that receives the bytes, which may wait for as
    /// long as their sender likes (SO_LINGER).
    /// </summary>
    public static unsafe void RefuseDescriptors(int socket)
    {
        int no = 0;
        _ = SetOption(socket, SocketLevel, PassRights, &no, sizeof(int));
    }

    /// <summary>A descriptor that stands for one process and for no other that gets its number later; can be read from when the process has ended.</summary>
    /// <exception cref="IOException">There is no such process, or no descriptor left.</exception>
    public static int OpenProcess(int process) =>
        (int)SystemCall(OpenProcessNumber, process, 0) is >= 0 and var descriptor ? descriptor : throw Failure("A process cannot be watched");

    public static void Send(int processDescriptor, int signal) => _ = SystemCall(SendSignalNumber, processDescriptor, signal, 0, 0);

    /// <summary>Whether it has ended, and somebody has taken its end.</summary>
    public static bool IsTaken(int processDescriptor) => SystemCall(SendSignalNumber, processDescriptor, 0, 0, 0) < 0 && Marshal.GetLastPInvokeError() == NoSuchProcess;

    /// <summary>Takes the end of a child.</summary>
    /// <returns>Its exit code, or 128 and the signal; null: the system does not say.</returns>
    public static int? TakeEnd(int child)
    {
        int status = 0;
        if (WaitForProcess(child, ref status, DoNotWait) != child)
        {
            return null;
        }
        int signal = status & 0x7F;
        return signal == 0 ? (status >> 8) & 0xFF : 128 + signal;
    }

    /// <summary>Kills a child that nobody waits for, and waits for it.</summary>
    public static void KillChild(int child)
    {
        int status = 0;
        _ = Kill(child, SigKill);
        _ = WaitForProcess(child, ref status, 0);
    }

    /// <summary>A counter that can be waited for.</summary>
    /// <exception cref="IOException">There is no descriptor left.</exception>
    public static int OpenEvent() => NewEvent(0, CloseOnExecute) is >= 0 and var descriptor ? descriptor : throw Failure("An event cannot be made");

    public static unsafe void SetEvent(int descriptor)
    {
        ulong one = 1;
        _ = Write(descriptor, &one, sizeof(ulong));
    }

    public static unsafe void ClearEvent(int descriptor)
    {
        ulong count;
        _ = Read(descriptor, &count, sizeof(ulong));
    }

    public static void Close(int descriptor) => _ = CloseDescriptor(descriptor);

    /// <summary>Waits until one of them can be read from.</summary>
    public static unsafe void Wait(Span<PollEntry> entries)
    {
        fixed (PollEntry* at = entries)
        {
            _ = Poll(at, (nuint)entries.Length, -1);
        }
    }

    /// <summary>A new folder for temporary files that is closed to others, under a name that nobody can know before.</summary>
    /// <returns>Its path.</returns>
    /// <exception cref="IOException">It cannot be made.</exception>
    public static unsafe string MakeFolder(string prefix)
    {
        byte[] path = Encoding.UTF8.GetBytes(Path.Join(Path.GetTempPath(), prefix + "XXXXXX\0"));
        fixed (byte* at = path)
        {
            if (MakeTemporaryFolder(at) is null)
            {
                throw Failure($"A folder in {Path.GetTempPath()} cannot be made");
            }
        }
        return Encoding.UTF8.GetString(path.AsSpan(0, path.Length - 1));
    }

    /// <summary>Makes a folder in another one that is closed to others, unless something is there.</summary>
    /// <exception cref="IOException">It cannot be made.</exception>
    public static void MakeOwnFolder(string parent, string name)
    {
        int folder = OpenFolder(parent);
        IOException? failure = MakeFolder(folder, name, OwnFolder) == 0 || Marshal.GetLastPInvokeError() == IsThere ? null : Failure($"The folder {name} in {parent} cannot be made");
        Close(folder);
        if (failure is not null)
        {
            throw failure;
        }
    }

    /// <summary>Whether an entry of a folder is a socket: one cannot be opened, as nothing else here cannot (open(2), ENXIO).</summary>
    public static bool IsSocket(int folder, string name)
    {
        int descriptor = OpenAt(folder, name, DoNotBlock | s_noLink | CloseOnExecute);
        if (descriptor >= 0)
        {
            Close(descriptor);
            return false;
        }
        return Marshal.GetLastPInvokeError() == NothingBehind;
    }

    /// <summary>The user whose rights this process has.</summary>
    public static uint User => EffectiveUser();

    /// <summary>A descriptor that stands for a folder, wherever it is moved to, and for none that takes its place.</summary>
    /// <exception cref="IOException">There is none, or it is a link.</exception>
    public static int OpenFolder(string path) => OpenAt(ThisFolder, path, PathOnly | s_folderOnly | s_noLink | CloseOnExecute) is >= 0 and var descriptor ? descriptor : throw Failure($"The folder {path} cannot be opened");

    /// <summary>The same, locked: whoever tidies up leaves such a one alone (systemd-tmpfiles(8)).</summary>
    /// <exception cref="IOException">There is none, or it is a link.</exception>
    public static int LockFolder(string path)
    {
        int descriptor = OpenAt(ThisFolder, path, s_folderOnly | s_noLink | CloseOnExecute);
        if (descriptor < 0)
        {
            throw Failure($"The folder {path} cannot be opened");
        }
        _ = Lock(descriptor, SharedLock | DoNotBlockLock);
        return descriptor;
    }

    /// <summary>The path of an entry of a folder that is open, for this process alone: it leads there, whoever may have exchanged what the folder's own path leads to.</summary>
    public static string PathIn(int folder, string name) => string.Create(CultureInfo.InvariantCulture, $"/proc/self/fd/{folder}/{name}");

    /// <summary>Removes an entry of a folder.</summary>
    public static void Remove(int folder, string name) => _ = UnlinkAt(folder, name, 0);

    /// <summary>A Unix socket that listens, which no child inherits and nobody but its user can connect to.</summary>
    /// <param name="path">Where to; nothing is there.</param>
    /// <param name="backlog">Connections that may wait.</param>
    /// <exception cref="IOException">It cannot be made.</exception>
    public static unsafe int Listen(string path, int backlog)
    {
        byte* address = stackalloc byte[AddressSize];
        var bytes = new Span<byte>(address, AddressSize);
        bytes.Clear();
        bytes[0] = UnixFamily;      // sun_family, in the order of both processors
        if (Encoding.UTF8.GetByteCount(path) > AddressSize - 3)
        {
            throw new IOException($"The path {path} is too long for a socket.");
        }
        _ = Encoding.UTF8.GetBytes(path, bytes[2..]);
        int socket = NewSocket(UnixFamily, Stream | CloseOnExecute, 0);
        if (socket < 0)
        {
            throw Failure("A socket cannot be made");
        }
        RefuseDescriptors(socket);
        _ = ChangeMode(socket, OwnSocket);      // the file that bind makes has what the socket has, less the umask
        if (Bind(socket, address, AddressSize) != 0 || Listen(socket, backlog) != 0)
        {
            IOException failure = Failure($"The socket {path} cannot be made");
            Close(socket);
            throw failure;
        }
        return socket;
    }

    private static IOException Failure(string what) => new($"{what}: {Marshal.GetLastPInvokeErrorMessage()}.", Marshal.GetLastPInvokeError());

    /// <summary>struct pollfd.</summary>
    [StructLayout(LayoutKind.Sequential)]
    public struct PollEntry(int descriptor)
    {
        public int Descriptor = descriptor;
        public short Wanted = Readable;
        public short Seen;
    }

    // ---- the C library ----

    [LibraryImport("libc", EntryPoint = "posix_spawnp")]
    private static unsafe partial int Spawn(out int child, byte* command, byte* actions, byte* attributes, byte** arguments, byte** environment);

    [LibraryImport("libc", EntryPoint = "posix_spawn_file_actions_init")]
    private static unsafe partial int InitActions(byte* actions);

    [LibraryImport("libc", EntryPoint = "posix_spawn_file_actions_destroy")]
    private static unsafe partial int EndActions(byte* actions);

    [LibraryImport("libc", EntryPoint = "posix_spawn_file_actions_adddup2")]
    private static unsafe partial int AddDup(byte* actions, int from, int to);

    [LibraryImport("libc", EntryPoint = "posix_spawn_file_actions_addchdir_np")]
    private static unsafe partial int AddFolder(byte* actions, byte* folder);

    [LibraryImport("libc", EntryPoint = "posix_spawnattr_init")]
    private static unsafe partial int InitAttributes(byte* attributes);

    [LibraryImport("libc", EntryPoint = "posix_spawnattr_destroy")]
    private static unsafe partial int EndAttributes(byte* attributes);

    [LibraryImport("libc", EntryPoint = "posix_spawnattr_setflags")]
    private static unsafe partial int SetFlags(byte* attributes, short flags);

    [LibraryImport("libc", EntryPoint = "posix_spawnattr_setpgroup")]
    private static unsafe partial int SetProcessGroup(byte* attributes, int group);

    [LibraryImport("libc", EntryPoint = "posix_spawnattr_setsigmask")]
    private static unsafe partial int SetSignalMask(byte* attributes, byte* signals);

    [LibraryImport("libc", EntryPoint = "posix_spawnattr_setsigdefault")]
    private static unsafe partial int SetSignalDefaults(byte* attributes, byte* signals);

    [LibraryImport("libc", EntryPoint = "sigemptyset")]
    private static unsafe partial int EmptySet(byte* signals);

    [LibraryImport("libc", EntryPoint = "sigfillset")]
    private static unsafe partial int FillSet(byte* signals);

    [LibraryImport("libc", EntryPoint = "socketpair", SetLastError = true)]
    private static unsafe partial int SocketPair(int family, int type, int protocol, int* pair);

    [LibraryImport("libc", EntryPoint = "setsockopt")]
    private static unsafe partial int SetOption(int socket, int level, int name, void* value, uint size);

    [LibraryImport("libc", EntryPoint = "mkdtemp", SetLastError = true)]
    private static unsafe partial byte* MakeTemporaryFolder(byte* template);

    [LibraryImport("libc", EntryPoint = "mkdirat", SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    private static partial int MakeFolder(int folder, string name, uint mode);

    [LibraryImport("libc", EntryPoint = "flock")]
    private static partial int Lock(int descriptor, int how);

    [LibraryImport("libc", EntryPoint = "fchmod")]
    private static partial int ChangeMode(int descriptor, uint mode);

    [LibraryImport("libc", EntryPoint = "geteuid")]
    private static partial uint EffectiveUser();

    [LibraryImport("libc", EntryPoint = "openat", SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    private static partial int OpenAt(int folder, string path, int flags);

    [LibraryImport("libc", EntryPoint = "unlinkat", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int UnlinkAt(int folder, string name, int flags);

    [LibraryImport("libc", EntryPoint = "socket", SetLastError = true)]
    private static partial int NewSocket(int family, int type, int protocol);

    [LibraryImport("libc", EntryPoint = "bind", SetLastError = true)]
    private static unsafe partial int Bind(int socket, byte* address, int size);

    [LibraryImport("libc", EntryPoint = "listen", SetLastError = true)]
    private static partial int Listen(int socket, int backlog);

    [LibraryImport("libc", EntryPoint = "syscall", SetLastError = true)]
    private static partial long SystemCall(long number, int process, int flags);

    [LibraryImport("libc", EntryPoint = "syscall", SetLastError = true)]
    private static partial long SystemCall(long number, int descriptor, int signal, nint info, int flags);

    [LibraryImport("libc", EntryPoint = "kill")]
    private static partial int Kill(int process, int signal);

    [LibraryImport("libc", EntryPoint = "waitpid")]
    private static partial int WaitForProcess(int process, ref int status, int options);

    [LibraryImport("libc", EntryPoint = "eventfd", SetLastError = true)]
    private static partial int NewEvent(uint count, int flags);

    [LibraryImport("libc", EntryPoint = "poll")]
    private static unsafe partial int Poll(PollEntry* entries, nuint count, int timeout);

    [LibraryImport("libc", EntryPoint = "read")]
    private static unsafe partial nint Read(int descriptor, void* buffer, nuint length);

    [LibraryImport("libc", EntryPoint = "write")]
    private static unsafe partial nint Write(int descriptor, void* buffer, nuint length);

    [LibraryImport("libc", EntryPoint = "close")]
    private static partial int CloseDescriptor(int descriptor);
}
