// epoll and sockets behind IKernel. No policy: what an answer means for a connection is decided by the connection.

using System.Runtime.CompilerServices;

namespace Millrace.Platform;

/// <summary>The Linux kernel.</summary>
internal readonly unsafe partial struct LinuxKernel : IKernel
{
    private const int EventsMax = 256;
    private const int RoomMin = 128 * 1024;     // twice a record of FastCGI
    private const int CopiedMax = 16 * 1024;

    // epoll_wait writes here: its records are 12 or 16 bytes by architecture, PollEvent is not. One per thread: a loop is driven by one at a time.
    [ThreadStatic]
    private static byte[]? t_events;

    public long NowMs => Environment.TickCount64;

    public Poller OpenPoller()
    {
        int queue = SystemCalls.EpollCreate(SystemCalls.EPOLL_CLOEXEC);
        int wakeUp = SystemCalls.EventFd(0, SystemCalls.EFD_NONBLOCK | SystemCalls.EFD_CLOEXEC);
        int mark = SystemCalls.EventFd(0, SystemCalls.EFD_NONBLOCK | SystemCalls.EFD_CLOEXEC);
        if (queue < 0 || wakeUp < 0 || mark < 0)
        {
            string cause = SystemCalls.Describe(SystemCalls.Errno);
            foreach (int opened in (ReadOnlySpan<int>)[queue, wakeUp, mark])
            {
                _ = opened >= 0 ? SystemCalls.Close(opened) : 0;
            }

            throw new MillraceStartException($"Cannot create an event queue ({cause}). Allow the process more descriptors (ulimit -n, LimitNOFILE), or set Loops lower.");
        }

        var poller = new Poller(queue, wakeUp, mark);
        Control(queue, SystemCalls.EPOLL_CTL_ADD, wakeUp, SystemCalls.EPOLLIN, IKernel.WakeToken);
        Control(queue, SystemCalls.EPOLL_CTL_ADD, mark, SystemCalls.EPOLLIN | SystemCalls.EPOLLET, IKernel.MarkToken);
        return poller;
    }

    public void ClosePoller(Poller poller)
    {
        _ = SystemCalls.Close(poller.Queue);
        _ = SystemCalls.Close(poller.WakeUp);
        _ = SystemCalls.Close(poller.Mark);
    }

    public int Wait(Poller poller, PollEvent[] events, int timeoutMs, Waking waking)
    {
        byte[] raw = t_events ??= GC.AllocateArray<byte>(EventsMax * 16, pinned: true);
        fixed (byte* at = raw)
        {
            int most = Math.Min(EventsMax, events.Length);
            if (waking == Waking.InTurnLasting)
            {
                BatchScheduling.Enter();
            }
            else
            {
                BatchScheduling.Leave();
            }

            int count = waking == Waking.InTurn && timeoutMs != 0
                ? WaitInTurn(poller.Queue, at, most, timeoutMs)
                : SystemCalls.EpollWait(poller.Queue, at, most, timeoutMs);
            if (count <= 0)
            {
                return 0;   // EINTR and time-outs alike: the loop looks at its work and comes back
            }

            for (int i = 0; i < count; i++)
            {
                ulong token = SystemCalls.EpollData(at, i);
                events[i].Token = token;
                events[i].Ready = (Readiness)SystemCalls.EpollEvents(at, i);
                if (token == IKernel.WakeToken)
                {
                    long value;
                    _ = SystemCalls.Read(poller.WakeUp, &value, 8);
                }
            }

            return count;
        }
    }

    public void Wake(Poller poller)
    {
        long one = 1;
        _ = SystemCalls.Write(poller.WakeUp, &one, 8);
    }

    // Edge-triggered: each write is an event, and nothing has to be read.
    public void Mark(Poller poller)
    {
        long one = 1;
        _ = SystemCalls.Write(poller.Mark, &one, 8);
    }

    public bool Watch(Poller poller, int descriptor, ulong token, bool writing) =>
        Control(poller.Queue, SystemCalls.EPOLL_CTL_ADD, descriptor, Interest(writing), token);

    public void Rewatch(Poller poller, int descriptor, ulong token, bool writing) =>
        Control(poller.Queue, SystemCalls.EPOLL_CTL_MOD, descriptor, Interest(writing), token);

    // Writability only while somebody waits for it: a Unix socket brings that edge each time its peer reads a response,
    // a wake-up per request for nothing (docs/decisions, write interest).
    private static uint Interest(bool writing) =>
        SystemCalls.EPOLLIN | SystemCalls.EPOLLPRI | SystemCalls.EPOLLRDHUP | SystemCalls.EPOLLET | (writing ? SystemCalls.EPOLLOUT : 0);

    // Where EPOLLEXCLUSIVE is not known a connection wakes every loop, and all but one find nobody: slower, and nothing worse.
    public bool WatchListener(Poller poller, int descriptor, ulong token, bool shared) =>
        (shared && Control(poller.Queue, SystemCalls.EPOLL_CTL_ADD, descriptor, SystemCalls.EPOLLIN | SystemCalls.EPOLLEXCLUSIVE, token))
        || ((!shared || SystemCalls.Errno == SystemCalls.EINVAL) && Control(poller.Queue, SystemCalls.EPOLL_CTL_ADD, descriptor, SystemCalls.EPOLLIN, token));

    public void Unwatch(Poller poller, int descriptor) => Control(poller.Queue, SystemCalls.EPOLL_CTL_DEL, descriptor, 0, 0);

    public int NextDescriptor(Poller poller)
    {
        int copy = SystemCalls.Fcntl(poller.Queue, SystemCalls.F_DUPFD_CLOEXEC, 0);
        if (copy < 0)
        {
            return int.MaxValue;
        }

        _ = SystemCalls.Close(copy);
        return copy;
    }

    // TCP_NODELAY is set on the listener: accepted sockets inherit it. So whether the call waits is no business of the calling process alone: the flag is one of the
    // open file description (fcntl(2)), which others may share, and nothing else says so to accept. It is set again ahead of the first that an event brings.
    public int Accept(int listener, bool isFirst, Span<byte> peer, out int peerLength)
    {
        if (isFirst)
        {
            EnsureNonBlocking(listener);
        }

        fixed (byte* address = peer)
        {
            while (true)
            {
                uint length = (uint)peer.Length;
                int descriptor = SystemCalls.Accept(listener, address, &length, SystemCalls.SOCK_NONBLOCK | SystemCalls.SOCK_CLOEXEC);
                peerLength = (int)length;
                if (descriptor >= 0)
                {
                    return descriptor;
                }

                switch (SystemCalls.Errno)
                {
                    case SystemCalls.EINTR:
                        continue;
                    case SystemCalls.EMFILE or SystemCalls.ENFILE or SystemCalls.ENOBUFS or SystemCalls.ENOMEM:
                        return KernelResult.Exhausted;
                    case SystemCalls.EINVAL or SystemCalls.EPERM or SystemCalls.EACCES or SystemCalls.ENOSYS or SystemCalls.EBADF or SystemCalls.ENOTSOCK:
                        return KernelResult.Refused;    // shut down by another process that has it too, or forbidden: the socket stays readable for ever
                    case SystemCalls.EAGAIN:
                        return KernelResult.Again;
                    default:
                        // ECONNABORTED, EPROTO and network errors belong to the one peer that failed: the next may be fine.
                        return KernelResult.Broken;
                }
            }
        }
    }

    // connect(2): a Unix socket connects at once or not at all, EAGAIN where its queue is full.
    public int Connect(ReadOnlySpan<byte> address)
    {
        int descriptor = UnixSocket.Open();
        if (descriptor < 0)
        {
            return KernelResult.Exhausted;
        }

        fixed (byte* at = address)
        {
            while (SystemCalls.Connect(descriptor, at, (uint)address.Length) < 0)
            {
                int errno = SystemCalls.Errno;
                if (errno != SystemCalls.EINTR)
                {
                    _ = SystemCalls.Close(descriptor);
                    return errno == SystemCalls.EAGAIN ? KernelResult.Again : KernelResult.Refused;
                }
            }
        }

        return descriptor;
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public int Receive(int descriptor, Span<byte> buffer)
    {
        fixed (byte* at = buffer)
        {
            while (true)
            {
                nint n = SystemCalls.Receive(descriptor, at, buffer.Length, SystemCalls.MSG_DONTWAIT);
                if (n >= 0)
                {
                    return (int)n;
                }

                int result = Failed();
                if (result != 0)
                {
                    return result;
                }
            }
        }
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public int Send(int descriptor, ReadOnlySpan<byte> bytes, bool more)
    {
        fixed (byte* at = bytes)
        {
            while (true)
            {
                nint n = SystemCalls.Send(descriptor, at, bytes.Length, SystemCalls.MSG_NOSIGNAL | SystemCalls.MSG_DONTWAIT | (more ? SystemCalls.MSG_MORE : 0));
                if (n >= 0)
                {
                    return (int)n;
                }

                int result = Failed();
                if (result != 0)
                {
                    return result;
                }
            }
        }
    }

    // socket(7): "The kernel doubles this value (to allow space for bookkeeping overhead) when it is set", and gives the doubled one when asked.
    // What goes beyond wmem_max becomes that: by default it is half of what comes out of here, 416 KiB.
    public void MakeRoom(int descriptor)
    {
        int size = SystemCalls.GetSocketOption(descriptor, SystemCalls.SOL_SOCKET, SystemCalls.SO_SNDBUF);
        if (size > 0)
        {
            _ = SystemCalls.SetSocketOption(descriptor, SystemCalls.SOL_SOCKET, SystemCalls.SO_SNDBUF, Math.Max(size, RoomMin));
        }
    }

    // The one way of sending that takes no flags.
    public int SendFile(int descriptor, int file, ref long offset, int count)
    {
        EnsureNonBlocking(descriptor);
        long at = offset;
        while (true)
        {
            nint n = SystemCalls.SendFile(descriptor, file, &at, count);
            if (n >= 0)
            {
                offset = at;
                return (int)n;
            }

            int result = Failed();
            if (result != 0)
            {
                return result == KernelResult.Broken ? SendCopied(descriptor, file, ref offset, count) : result;
            }
        }
    }

    // Whose fault it is sendfile(2) does not say: the peer's, the file's, or that of a file system whose files cannot be sent in this way (/proc/config.gz).
    private int SendCopied(int descriptor, int file, ref long offset, int count)
    {
        Span<byte> bytes = stackalloc byte[Math.Min(count, CopiedMax)];
        int read = ReadFile(file, offset, bytes);
        int sent = read > 0 ? Send(descriptor, bytes[..read], more: false) : 0;
        offset += Math.Max(sent, 0);
        return sent;
    }

    // Seldom called: where sendfile(2) has failed, and for the rest of one record of a response that is broken off.
    public int ReadFile(int file, long offset, Span<byte> bytes)
    {
        try
        {
            using var handle = new Microsoft.Win32.SafeHandles.SafeFileHandle(file, ownsHandle: false);
            return RandomAccess.Read(handle, bytes, offset);
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException or NotSupportedException)
        {
            return KernelResult.Broken;
        }
    }

    public int Unsent(int descriptor)
    {
        int count = 0;
        return SystemCalls.Ioctl(descriptor, SystemCalls.SIOCOUTQ, &count) < 0 ? 0 : count;
    }

    public int Unread(int descriptor)
    {
        int count = 0;
        return SystemCalls.Ioctl(descriptor, SystemCalls.SIOCINQ, &count) < 0 ? 0 : count;
    }

    public void Shutdown(int descriptor, bool both) =>
        _ = SystemCalls.Shutdown(descriptor, both ? SystemCalls.SHUT_RDWR : SystemCalls.SHUT_WR);

    public void EndReceiving(int descriptor) => _ = SystemCalls.Shutdown(descriptor, SystemCalls.SHUT_RD);

    // connect(2): "some protocol sockets (e.g., TCP) may dissolve the association by connecting to an address with sa_family AF_UNSPEC"
    public void Reset(int descriptor)
    {
        byte* nowhere = stackalloc byte[16];
        new Span<byte>(nowhere, 16).Clear();
        _ = SystemCalls.Connect(descriptor, nowhere, 16);
    }

    // socket(7), SO_LINGER: the last close of a TCP connection may wait, and for how long is inherited from the listening socket, or said by whoever had the
    // connection before, who may have it still. So it is said anew. Unix sockets know nothing of it.
    public void Close(int descriptor, bool reset, bool mayLinger = true)
    {
        if (mayLinger)
        {
            SetLinger(descriptor, reset);
        }

        _ = SystemCalls.Close(descriptor);
    }

    private static void SetLinger(int descriptor, bool reset)
    {
        var linger = new SystemCalls.Linger { On = reset ? 1 : 0, Seconds = 0 };
        _ = SystemCalls.SetSocketOption(descriptor, SystemCalls.SOL_SOCKET, SystemCalls.SO_LINGER, &linger, (uint)sizeof(SystemCalls.Linger));
    }

    // Only while it waits is the thread under SCHED_BATCH: no code that could start something runs under it. Three more system
    // calls, when there is nothing to do: one look, two changes.
    private static int WaitInTurn(int queue, byte* events, int most, int timeoutMs)
    {
        int count = SystemCalls.EpollWait(queue, events, most, 0);
        if (count != 0)
        {
            return count;
        }

        bool isChanged = BatchScheduling.TryChange();
        count = SystemCalls.EpollWait(queue, events, most, timeoutMs);
        if (isChanged)
        {
            BatchScheduling.Set(SystemCalls.SCHED_OTHER);
        }

        return count;
    }

    private static void EnsureNonBlocking(int descriptor)
    {
        int flags = SystemCalls.Fcntl(descriptor, SystemCalls.F_GETFL, 0);
        if (flags >= 0 && (flags & SystemCalls.O_NONBLOCK) == 0)
        {
            _ = SystemCalls.Fcntl(descriptor, SystemCalls.F_SETFL, flags | SystemCalls.O_NONBLOCK);
        }
    }

    // 0: try again at once.
    private static int Failed() => SystemCalls.Errno switch
    {
        SystemCalls.EINTR => 0,
        SystemCalls.EAGAIN => KernelResult.Again,
        _ => KernelResult.Broken,
    };

    private static bool Control(int queue, int operation, int descriptor, uint events, ulong token) =>
        SystemCalls.EpollControl(queue, operation, descriptor, events, token) == 0;
}
