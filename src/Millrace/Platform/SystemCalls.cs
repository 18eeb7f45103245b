// The one place for system calls: Linux on x64 and arm64, through libc, with blittable signatures only.
// No policy here: nothing retries, nothing throws. A call that fails answers -1; the caller reads Errno right after it.
// The numbers these calls take and give are in SystemCalls.Constants.cs and SystemCalls.Errors.cs, their structs in SystemCalls.Structs.cs,
// what differs by architecture in SystemCalls.Architecture.cs; calls on files are in SystemCalls.Files.cs. A test compiles all of it against the C headers
// (tests/Millrace.Tests/Loops/CHeaderTests.cs).

using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace Millrace.Platform;

internal static unsafe partial class SystemCalls
{
    /// <summary>The error number of the call just made on this thread. Only meaningful right after a call that answered -1.</summary>
    public static int Errno
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        get => Marshal.GetLastSystemError();
    }

    // ---- readiness ----

    [LibraryImport("libc", EntryPoint = "epoll_create1")]
    public static partial int EpollCreate(int flags);

    /// <summary><paramref name="epollEvent"/> points at <see cref="EpollEventSize"/> bytes; <see cref="EpollControl"/> writes them for the caller.</summary>
    [LibraryImport("libc", EntryPoint = "epoll_ctl")]
    public static partial int EpollCtl(int epoll, int operation, int descriptor, byte* epollEvent);

    /// <summary><paramref name="events"/> points at <paramref name="count"/> times <see cref="EpollEventSize"/> bytes. A timeout of -1 waits for ever.</summary>
    [LibraryImport("libc", EntryPoint = "epoll_wait")]
    public static partial int EpollWait(int epoll, byte* events, int count, int timeoutMs);

    [LibraryImport("libc", EntryPoint = "eventfd")]
    public static partial int EventFd(uint initial, int flags);

    // ---- time ----

    [LibraryImport("libc", EntryPoint = "nanosleep")]
    private static partial int NanoSleep(TimeSpecification* request, TimeSpecification* remaining);

    /// <summary>Sleeps about this long: less than a second. Half the cost of the runtime's own sleep.</summary>
    public static void SleepMs(int milliseconds)
    {
        var time = new TimeSpecification { Nanoseconds = milliseconds * 1_000_000L };
        _ = NanoSleep(&time, null);
    }

    // ---- bytes ----

    [LibraryImport("libc", EntryPoint = "read")]
    public static partial nint Read(int descriptor, void* buffer, nint size);

    [LibraryImport("libc", EntryPoint = "write")]
    public static partial nint Write(int descriptor, void* buffer, nint size);

    [LibraryImport("libc", EntryPoint = "writev")]
    public static partial nint WriteV(int descriptor, IoVector* vectors, int count);

    [LibraryImport("libc", EntryPoint = "recv")]
    public static partial nint Receive(int socket, void* buffer, nint size, int flags);

    [LibraryImport("libc", EntryPoint = "send")]
    public static partial nint Send(int socket, void* buffer, nint size, int flags);

    [LibraryImport("libc", EntryPoint = "sendmsg")]
    public static partial nint SendMessage(int socket, MessageHeader* message, int flags);

    [LibraryImport("libc", EntryPoint = "recvmsg")]
    public static partial nint ReceiveMessage(int socket, MessageHeader* message, int flags);

    /// <summary><paramref name="offset"/> is advanced by what was sent; null sends from the file's own position and moves that.</summary>
    [LibraryImport("libc", EntryPoint = "sendfile")]
    public static partial nint SendFile(int socket, int file, long* offset, nint size);

    // ---- sockets ----

    [LibraryImport("libc", EntryPoint = "socket")]
    public static partial int Socket(int family, int type, int protocol);

    /// <summary><paramref name="pair"/> points at two ints.</summary>
    [LibraryImport("libc", EntryPoint = "socketpair")]
    public static partial int SocketPair(int family, int type, int protocol, int* pair);

    [LibraryImport("libc", EntryPoint = "bind")]
    public static partial int Bind(int socket, byte* address, uint addressLength);

    [LibraryImport("libc", EntryPoint = "listen")]
    public static partial int Listen(int socket, int backlog);

    [LibraryImport("libc", EntryPoint = "connect")]
    public static partial int Connect(int socket, byte* address, uint addressLength);

    /// <summary>Both pointers may be null; otherwise <paramref name="addressLength"/> holds the room on entry and the true length on return.</summary>
    [LibraryImport("libc", EntryPoint = "accept4")]
    public static partial int Accept(int socket, byte* address, uint* addressLength, int flags);

    [LibraryImport("libc", EntryPoint = "shutdown")]
    public static partial int Shutdown(int socket, int how);

    [LibraryImport("libc", EntryPoint = "setsockopt")]
    public static partial int SetSocketOption(int socket, int level, int name, void* value, uint length);

    [LibraryImport("libc", EntryPoint = "getsockopt")]
    public static partial int GetSocketOption(int socket, int level, int name, void* value, uint* length);

    [LibraryImport("libc", EntryPoint = "getsockname")]
    public static partial int GetSocketName(int socket, byte* address, uint* addressLength);

    [LibraryImport("libc", EntryPoint = "getpeername")]
    public static partial int GetPeerName(int socket, byte* address, uint* addressLength);

    // ---- descriptors ----

    /// <summary>On Linux the number is free again even when this answers -1 (EINTR, EIO): never call it twice.</summary>
    [LibraryImport("libc", EntryPoint = "close")]
    public static partial int Close(int descriptor);

    /// <summary>Variadic in C; on x64 and arm64 Linux an integer argument travels like any other.</summary>
    [LibraryImport("libc", EntryPoint = "fcntl")]
    public static partial int Fcntl(int descriptor, int command, nint argument);

    /// <summary>Variadic in C as well; <paramref name="value"/> points at an int.</summary>
    [LibraryImport("libc", EntryPoint = "ioctl")]
    public static partial int Ioctl(int descriptor, nuint request, int* value);

    [LibraryImport("libc", EntryPoint = "dup3")]
    public static partial int Dup3(int from, int to, int flags);

    [LibraryImport("libc", EntryPoint = "getrlimit")]
    public static partial int GetResourceLimit(int resource, ResourceLimit* limit);

    [LibraryImport("libc", EntryPoint = "setrlimit")]
    public static partial int SetResourceLimit(int resource, ResourceLimit* limit);

    // ---- threads: these answer an error number themselves ----

    [LibraryImport("libc", EntryPoint = "pthread_self")]
    public static partial nint CurrentThread();

    /// <summary><paramref name="priority"/> points at the int of a sched_param: 0 for SCHED_BATCH.</summary>
    [LibraryImport("libc", EntryPoint = "pthread_setschedparam")]
    public static partial int SetScheduling(nint thread, int policy, int* priority);

    /// <summary>The policy, and the int of a sched_param. Answered from memory, after the first time.</summary>
    [LibraryImport("libc", EntryPoint = "pthread_getschedparam")]
    public static partial int GetScheduling(nint thread, int* policy, int* priority);

    // ---- threads of this process by the system's numbers ----

    /// <summary>The number of the calling thread.</summary>
    public static int ThreadNumber() => (int)SystemCall(ArchitectureNumbers.Here.SYS_gettid, 0, 0, 0, 0, 0);

    /// <summary>The scheduling policy of a thread; -1 when it has ended.</summary>
    public static int PolicyOf(int thread) => (int)SystemCall(ArchitectureNumbers.Here.SYS_sched_getscheduler, thread, 0, 0, 0, 0);

    /// <summary>Gives a thread SCHED_OTHER or SCHED_BATCH; one that has ended needs none.</summary>
    public static void SetPolicyOf(int thread, int policy)
    {
        int priority = 0;
        _ = SystemCall(ArchitectureNumbers.Here.SYS_sched_setscheduler, thread, policy, (nint)(&priority), 0, 0);
    }

    // ---- users and groups: these answer an error number themselves, and result is null when there is no such name ----

    [LibraryImport("libc", EntryPoint = "getgrnam_r")]
    public static partial int GetGroupByName(byte* name, GroupEntry* entry, byte* buffer, nint size, GroupEntry** result);

    [LibraryImport("libc", EntryPoint = "getpwnam_r")]
    public static partial int GetUserByName(byte* name, UserEntry* entry, byte* buffer, nint size, UserEntry** result);

    [LibraryImport("libc", EntryPoint = "geteuid")]
    public static partial uint GetEffectiveUser();

    // ---- short forms that hide a pointer and nothing else ----

    /// <summary>epoll_ctl with the event built on the stack.</summary>
    public static int EpollControl(int epoll, int operation, int descriptor, uint events, ulong data)
    {
        byte* buffer = stackalloc byte[16];
        *(uint*)buffer = events;
        Unsafe.WriteUnaligned(buffer + EpollDataOffset, data);
        return EpollCtl(epoll, operation, descriptor, buffer);
    }

    public static int SetSocketOption(int socket, int level, int name, int value) =>
        SetSocketOption(socket, level, name, &value, sizeof(int));

    /// <summary>An integer socket option, or -1 with <see cref="Errno"/> set.</summary>
    public static int GetSocketOption(int socket, int level, int name)
    {
        int value = 0;
        uint length = sizeof(int);
        return GetSocketOption(socket, level, name, &value, &length) < 0 ? -1 : value;
    }
}
