// The one seam between a loop and the operating system. Linux implements it with system calls (LinuxKernel), the tests
// with a simulated kernel whose every answer comes from a seed. A struct as generic argument, so that it costs nothing.

namespace Millrace.Platform;

/// <summary>What a descriptor is ready for; the numbers are those of epoll.</summary>
[Flags]
internal enum Readiness : uint
{
    None = 0,
    Read = 0x001,

    /// <summary>Something urgent lies among what the peer has sent (TCP, MSG_OOB): what is before it and what is behind it take a read each (recv(2)).</summary>
    Urgent = 0x002,

    Write = 0x004,
    Error = 0x008,
    HangUp = 0x010,

    /// <summary>The peer has shut down its sending side.</summary>
    PeerFinished = 0x2000,
}

/// <summary>When a thread that waits runs again.</summary>
internal enum Waking
{
    /// <summary>At once: whoever has woken it is stopped for it.</summary>
    AtOnce,

    /// <summary>When its turn comes: whoever has woken it finishes what it is at, and more has come until then.</summary>
    InTurn,

    /// <summary>The same, and the thread may stay as that needs it when it runs.</summary>
    InTurnLasting,
}

/// <summary>One event of a batch: which registration, and what it is ready for.</summary>
internal struct PollEvent
{
    public ulong Token;
    public Readiness Ready;
}

/// <summary>Results of the calls below: a count, or one of these.</summary>
internal static class KernelResult
{
    /// <summary>The call would have to wait (EAGAIN).</summary>
    public const int Again = -1;

    /// <summary>The connection is of no use any more (reset, broken pipe and the like).</summary>
    public const int Broken = -2;

    /// <summary>Descriptors or memory have run out (EMFILE, ENFILE, ENOBUFS, ENOMEM).</summary>
    public const int Exhausted = -3;

    /// <summary>It is the listening socket that the system gives nobody of, whoever connects; or the message that has no connection with it.</summary>
    public const int Refused = -4;
}

/// <summary>
/// The system calls a loop makes. None of them blocks but <see cref="Wait"/>, whatever another process does to a socket that it shares with this one; none is
/// interrupted (EINTR is retried).
/// </summary>
internal interface IKernel
{
    /// <summary>Milliseconds of a clock that never goes back.</summary>
    long NowMs { get; }

    /// <summary>Makes an event queue with a wake-up descriptor inside, whose events carry the token <see cref="WakeToken"/>.</summary>
    Poller OpenPoller();

    void ClosePoller(Poller poller);

    /// <summary>Waits up to <paramref name="timeoutMs"/> (-1: for ever) and fills <paramref name="events"/>; answers how many.</summary>
    int Wait(Poller poller, PollEvent[] events, int timeoutMs, Waking waking);

    /// <summary>Makes a <see cref="Wait"/> of another thread return.</summary>
    void Wake(Poller poller);

    /// <summary>Sends an event with the token <see cref="MarkToken"/> behind all that the queue would tell of by now: events come in the order in which they have become ready (epoll_wait(2): round robin).</summary>
    void Mark(Poller poller);

    /// <summary>Registers a connection, edge-triggered, for reading, and for writing where asked. False when the kernel has no room.</summary>
    bool Watch(Poller poller, int descriptor, ulong token, bool writing);

    /// <summary>Changes what a connection is registered for. What it is ready for at that moment brings an edge. Any thread.</summary>
    void Rewatch(Poller poller, int descriptor, ulong token, bool writing);

    /// <summary>Registers a listening descriptor, level-triggered; shared ones wake one loop only.</summary>
    bool WatchListener(Poller poller, int descriptor, ulong token, bool shared);

    void Unwatch(Poller poller, int descriptor);

    /// <summary>The number the next descriptor of the process would get.</summary>
    int NextDescriptor(Poller poller);

    /// <summary>A descriptor, or a <see cref="KernelResult"/>. <paramref name="isFirst"/>: of those that one event brings.</summary>
    int Accept(int listener, bool isFirst, Span<byte> peer, out int peerLength);

    /// <summary>
    /// Connects to a Unix socket: a descriptor, or a <see cref="KernelResult"/>: <see cref="KernelResult.Again"/> while its queue is full, and
    /// <see cref="KernelResult.Refused"/> where nobody listens there, or not for this process.
    /// </summary>
    /// <param name="address">As the kernel takes it: a sockaddr.</param>
    int Connect(ReadOnlySpan<byte> address);

    /// <summary>Bytes read, 0 at the end, or a <see cref="KernelResult"/>.</summary>
    int Receive(int descriptor, Span<byte> buffer);

    /// <summary>Bytes taken, or a <see cref="KernelResult"/>. <paramref name="more"/>: further bytes follow at once.</summary>
    int Send(int descriptor, ReadOnlySpan<byte> bytes, bool more);

    /// <summary>
    /// Lets a Unix socket take more than it would, 128 KiB and more where the system permits: its send buffer is doubled. One that is full takes no byte
    /// of a send, however small. Any thread.
    /// </summary>
    void MakeRoom(int descriptor);

    /// <summary>Bytes moved from the file, 0 at its end or where it cannot be read, or a <see cref="KernelResult"/>.</summary>
    int SendFile(int descriptor, int file, ref long offset, int count);

    /// <summary>Bytes read from the file, 0 at its end, or <see cref="KernelResult.Broken"/>.</summary>
    int ReadFile(int file, long offset, Span<byte> bytes);

    /// <summary>What has been sent and the peer's system has not taken: bytes on TCP; on a Unix socket the memory of pieces of up to 36 KiB, each
    /// until all of it has been read. Any thread.</summary>
    int Unsent(int descriptor);

    /// <summary>Bytes that have come and have not been read. Any thread.</summary>
    int Unread(int descriptor);

    /// <summary>Ends the sending side, or both.</summary>
    void Shutdown(int descriptor, bool both);

    /// <summary>Unix sockets: from now on the peer's sends fail (EPIPE). What it has sent can be read, and behind it the end; it is told nothing else. Any thread.</summary>
    void EndReceiving(int descriptor);

    /// <summary>Breaks a TCP connection off: the peer gets a reset instead of an end. The descriptor stays open. Any thread.</summary>
    void Reset(int descriptor);

    /// <summary>
    /// Gives a connection to whoever takes it out of the other end of a channel, with what he needs to know of it. It is open here too until
    /// <see cref="Leave"/>. Answers 0, or a <see cref="KernelResult"/>: <see cref="KernelResult.Again"/> while the channel is full.
    /// </summary>
    int Give(int channel, int descriptor, ReadOnlySpan<byte> knowledge);

    /// <summary>
    /// Takes a connection out of a channel: a descriptor, or a <see cref="KernelResult"/>; <see cref="KernelResult.Refused"/> for a message without one, and
    /// <see cref="KernelResult.Broken"/> when no more can come, or something else than a connection has.
    /// </summary>
    /// <param name="channel">From where.</param>
    /// <param name="knowledge">Of the connection.</param>
    /// <param name="length">Bytes of it.</param>
    /// <param name="strange">What is no connection: the caller has it closed.</param>
    int Take(int channel, Span<byte> knowledge, out int length, out int[] strange);

    /// <summary>Whether a connection that was taken is one over TCP, whatever has been said of it.</summary>
    bool IsTcp(int descriptor);

    /// <summary>Closes the descriptor of a connection that somebody else has: the peer sees nothing of it, nor does the event queue hear of it again.</summary>
    void Leave(Poller poller, int descriptor);

    /// <summary>Closes; with <paramref name="reset"/> the peer of a TCP connection gets a reset. <paramref name="mayLinger"/>: false for a Unix socket.</summary>
    void Close(int descriptor, bool reset, bool mayLinger = true);

    public const ulong WakeToken = ulong.MaxValue;

    /// <summary>The token of the event of <see cref="Mark"/>.</summary>
    public const ulong MarkToken = ulong.MaxValue - 1;
}

/// <summary>An event queue, the descriptor that wakes it, and that of its mark.</summary>
internal readonly record struct Poller(int Queue, int WakeUp, int Mark);
