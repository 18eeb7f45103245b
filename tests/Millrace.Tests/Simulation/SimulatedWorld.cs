// The simulated kernel: descriptors, listening sockets, connections, event queues and a clock, in one thread and from one
// seed. The lowest free descriptor number is given out again at once, as in Linux, so that whoever uses a number too long
// meets a stranger. What the server does wrong with a descriptor is reported, not forgiven.

using System.Net;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Simulation;

/// <summary>Who watches the system calls and says what happens meanwhile.</summary>
internal interface IKernelObserver
{
    /// <summary>Before a call that only the loop's driver may make.</summary>
    void OnLoopCall(string call, SimulatedSocket? socket);

    /// <summary>A loop is about to sleep: other things happen until something wakes it.</summary>
    void OnSleep(SimulatedPoller poller, int timeoutMs);

    /// <summary>Other threads may do something at this point.</summary>
    void Interleave();

    void Violated(string what);

    void Trace(string what, long a, long b);
}

internal sealed class SimulatedWorld(SeededRandom random)
{
    private const int FirstDescriptor = 3;

    private readonly List<object?> _descriptors = [null, null, null];
    private int _sockets;

    public IKernelObserver Observer { get; set; } = null!;

    public long NowMs { get; set; } = 1_000_000;

    /// <summary>Descriptors the process may have in all.</summary>
    public int DescriptorsMax { get; set; } = int.MaxValue;

    public int ReceiveCapacityMax { get; set; } = 256 * 1024;

    public int SendCapacityMax { get; set; } = 256 * 1024;

    /// <summary>What the system of a TCP client takes of it before the client reads; null: half.</summary>
    public int? PeerCapacityMax { get; set; }

    /// <summary>In steps of so many bytes a sender learns what its peer has taken.</summary>
    public int UnsentStep { get; set; } = 1;

    public int Open { get; private set; }

    public SocketFaults Faults { get; } = new();

    /// <summary>What is in the files; null: reading them fails.</summary>
    public Dictionary<int, byte[]?> Files { get; } = [];

    // ---- what the tests do ----

    public int NextDescriptor => _descriptors.FindIndex(FirstDescriptor, static entry => entry is null) is >= 0 and int free ? free : _descriptors.Count;

    public int Add(object thing)
    {
        int number = _descriptors.FindIndex(FirstDescriptor, static entry => entry is null);
        if (number < 0)
        {
            number = _descriptors.Count;
            _descriptors.Add(null);
        }

        _descriptors[number] = thing;
        Open++;
        return number;
    }

    public SimulatedListener Listen(bool isTcp)
    {
        var listener = new SimulatedListener(isTcp, random);
        listener.Descriptor = Add(listener);
        return listener;
    }

    public SimulatedSocket Connect(SimulatedListener listener, IPAddress? from = null)
    {
        if (listener.Refuses)
        {
            throw new InvalidOperationException("Connection refused.");
        }

        var socket = new SimulatedSocket(++_sockets, listener.IsTcp, ReceiveCapacityMax, SendCapacityMax, random, Faults)
        {
            PeerCapacity = listener.IsTcp ? PeerCapacityMax ?? SendCapacityMax / 2 : 0,
        };
        listener.Enqueue(socket, from ?? IPAddress.Loopback);
        return socket;
    }

    /// <summary>Closes a listening socket: who waits in its queue is reset.</summary>
    public void Close(SimulatedListener listener)
    {
        if (listener.IsClosed)
        {
            Observer.Violated("a listening socket is closed twice");
        }

        listener.Close();
        Free(listener.Descriptor);
    }

    // ---- what the server calls ----

    public Poller OpenPoller()
    {
        LastPoller = new SimulatedPoller(random);
        return new Poller(Add(LastPoller), -1);
    }

    /// <summary>What a client does in the very moment before the server ends its receiving, or closes.</summary>
    public Action<SimulatedSocket>? BeforeEnd { get; set; }

    /// <summary>The event queue opened last.</summary>
    public SimulatedPoller? LastPoller { get; private set; }

    public void ClosePoller(Poller poller) => Free(poller.Queue);

    public SimulatedPoller Of(Poller poller) => (SimulatedPoller)_descriptors[poller.Queue]!;

    public int Wait(Poller poller, PollEvent[] events, int timeoutMs)
    {
        SimulatedPoller queue = Of(poller);
        Observer.OnLoopCall("wait", null);
        if (timeoutMs != 0 && !queue.HasReady)
        {
            queue.SleepMs = timeoutMs;
            Observer.OnSleep(queue, timeoutMs);
        }

        if (Faults.WaitsBrokenOff > 0)
        {
            Faults.WaitsBrokenOff--;
            return 0;
        }

        int count = queue.Collect(events, Faults.EventsMax);
        if (count > 0)
        {
            Observer.Trace("wait", poller.Queue, count);
        }

        return count;
    }

    public void Wake(Poller poller) => Of(poller).WakePending = true;

    /// <summary>What happens while the kernel is told whether room is waited for; null: nothing does.</summary>
    public Action? InRewatch { get; set; }

    public void Rewatch(int descriptor, bool writing)
    {
        InRewatch?.Invoke();
        if (Find(descriptor, "epoll_ctl")?.Registration is { } registration)
        {
            registration.Writing = writing;
            if (registration.State != Readiness.None)
            {
                registration.Raise();
            }
        }
    }

    /// <summary>What happens while a connection is being registered; null: nothing does.</summary>
    public Action? InWatch { get; set; }

    public bool Watch(Poller poller, int descriptor, ulong token, bool writing)
    {
        if (Find(descriptor, "epoll_ctl") is not { } socket)
        {
            return false;
        }

        Observer.OnLoopCall("epoll_ctl", socket);
        if (socket.Registration is not null)
        {
            Observer.Violated($"connection {socket.Number} is registered twice");
            return false;
        }

        if (Faults.FailedWatch > 0 && random.Chance(Faults.FailedWatch))
        {
            return false;
        }

        InWatch?.Invoke();
        socket.Registration = new Registration(Of(poller), token, isLevel: false, () => socket.State) { Writing = writing };
        if (socket.Registration.State != Readiness.None)
        {
            socket.Registration.Raise();
        }

        return true;
    }

    public bool WatchListener(Poller poller, int descriptor, ulong token)
    {
        ((IWatchedQueue)_descriptors[descriptor]!).Watch(Of(poller), token);
        return true;
    }

    public void Unwatch(Poller poller, int descriptor) => ((IWatchedQueue)_descriptors[descriptor]!).Unwatch(Of(poller));

    // ---- connections that move ----

    private bool _hasChannel;

    /// <summary>Both ends in one: what is given can be taken.</summary>
    public SimulatedChannel OpenChannel(int capacity)
    {
        _hasChannel = true;
        var channel = new SimulatedChannel { Capacity = capacity };
        channel.Descriptor = Add(channel);
        return channel;
    }

    public void Close(SimulatedChannel channel) => Free(channel.Descriptor);

    public int Give(int channel, int descriptor, ReadOnlySpan<byte> knowledge)
    {
        if (Find(descriptor, "sendmsg") is not { } socket)
        {
            return KernelResult.Broken;
        }

        Observer.OnLoopCall("sendmsg", socket);
        int result = KernelResult.Broken;       // who takes has closed its end
        if (_descriptors[channel] is SimulatedChannel { HasEnded: false } to)
        {
            result = to.IsFull ? KernelResult.Again : 0;
            if (result == 0)
            {
                to.Enqueue(socket, knowledge.ToArray());
            }
        }

        Observer.Trace("give", descriptor, result);
        return result;
    }

    public int Take(int channel, Span<byte> knowledge, out int length)
    {
        Observer.OnLoopCall("recvmsg", null);
        length = 0;
        var from = (SimulatedChannel)_descriptors[channel]!;
        if (!from.TryDequeue(out SimulatedSocket? socket, out byte[]? known))
        {
            return from.HasEnded ? KernelResult.Broken : KernelResult.Again;
        }

        if (Open >= DescriptorsMax)
        {
            Observer.Violated($"connection {socket.Number} is lost: there is no descriptor for it");
            return KernelResult.Again;
        }

        known.CopyTo(knowledge);
        length = known.Length;
        socket.Reader = null;
        socket.Descriptor = Add(socket);
        Observer.Trace("take", socket.Descriptor, socket.Number);
        Observer.Interleave();
        return socket.Descriptor;
    }

    public void Leave(int descriptor)
    {
        if (Find(descriptor, "close") is { } socket)
        {
            Observer.Trace("leave", descriptor, socket.Number);
            socket.Registration?.Remove();
            socket.Registration = null;
            Free(descriptor);
            socket.Descriptor = socket.Descriptor == descriptor ? -1 : socket.Descriptor;
        }
    }

    public int Accept(int descriptor, Span<byte> peer, out int peerLength)
    {
        Observer.OnLoopCall("accept", null);
        peerLength = 0;
        if (_hasChannel && _descriptors[descriptor] is not SimulatedListener)
        {
            return KernelResult.Again;      // a server that gives has a descriptor of its own, and knows when it has closed that
        }

        var listener = (SimulatedListener)_descriptors[descriptor]!;
        if (listener.Pending == 0)
        {
            return KernelResult.Again;
        }

        if (Open >= DescriptorsMax || (Faults.FailedAccept > 0 && random.Chance(Faults.FailedAccept)))
        {
            return KernelResult.Exhausted;
        }

        (SimulatedSocket socket, IPAddress from) = listener.Dequeue();
        if (socket.IsReset)
        {
            return KernelResult.Broken;      // ECONNABORTED: gone before it was accepted
        }

        if (listener.IsTcp)
        {
            byte[] name = SocketName.Write(from, 40_000);
            name.CopyTo(peer);
            peerLength = name.Length;
        }

        socket.Descriptor = Add(socket);
        Observer.Trace("accept", socket.Descriptor, socket.Number);
        Observer.Interleave();
        return socket.Descriptor;
    }

    /// <summary>Who listens on Unix sockets of others: what he makes of a connection, or a <see cref="KernelResult"/>. His end of it is that of a client.</summary>
    public Func<string, SimulatedSocket, int>? Responders { get; set; }

    public int ConnectTo(ReadOnlySpan<byte> address)
    {
        Observer.OnLoopCall("connect", null);
        if (Open >= DescriptorsMax)
        {
            return KernelResult.Exhausted;
        }

        var socket = new SimulatedSocket(++_sockets, isTcp: false, ReceiveCapacityMax, SendCapacityMax, random, Faults);
        int result = Responders?.Invoke(SocketName.Read(address)?.Path ?? "", socket) ?? KernelResult.Refused;
        if (result >= 0)
        {
            result = socket.Descriptor = Add(socket);
        }

        Observer.Trace("connect", result, socket.Number);
        Observer.Interleave();
        return result;
    }

    public int Receive(int descriptor, Span<byte> buffer)
    {
        if (Find(descriptor, "recv") is not { } socket)
        {
            return KernelResult.Broken;
        }

        Observer.OnLoopCall("recv", socket);
        int count = socket.Receive(buffer);
        Observer.Trace("recv", descriptor, count);
        Observer.Interleave();
        return count;
    }

    /// <summary>What happens while the kernel takes bytes; null: nothing does.</summary>
    public Action? InSend { get; set; }

    public int Send(int descriptor, ReadOnlySpan<byte> bytes)
    {
        InSend?.Invoke();
        int count = Find(descriptor, "send") is { } socket ? socket.Send(bytes) : KernelResult.Broken;
        Observer.Trace("send", descriptor, count);
        return count;
    }

    /// <summary>What happens while the kernel reads a file that it sends; null: nothing does.</summary>
    public Action? InFile { get; set; }

    public int SendFile(int descriptor, int file, ref long offset, int count)
    {
        try
        {
            InFile?.Invoke();
        }
        catch (Exception error)
        {
            Observer.Violated(error.ToString());    // to whoever sends the file it would be a failure of that
        }

        if (Find(descriptor, "sendfile") is not { } socket)
        {
            return KernelResult.Broken;
        }

        if (Files[file] is not { } bytes)
        {
            return 0;      // EIO
        }

        int left = (int)Math.Min(count, bytes.Length - offset);
        int sent = left <= 0 ? 0 : socket.Send(bytes.AsSpan((int)offset, left));
        offset += Math.Max(sent, 0);
        Observer.Trace("sendfile", descriptor, sent);
        return sent;
    }

    public int ReadFile(int file, long offset, Span<byte> bytes)
    {
        if (Files[file] is not { } content)
        {
            return KernelResult.Broken;
        }

        int count = (int)Math.Clamp(content.Length - offset, 0, bytes.Length);
        content.AsSpan((int)Math.Min(offset, content.Length), count).CopyTo(bytes);
        return count;
    }

    public void MakeRoom(int descriptor)
    {
        Observer.Trace("setsockopt", descriptor, 0);
        Find(descriptor, "setsockopt")?.MakeRoom();
    }

    public int Unread(int descriptor) => Find(descriptor, "ioctl")?.UnreadByServer ?? 0;

    public int Unsent(int descriptor)
    {
        int unsent = Find(descriptor, "ioctl")?.Unsent(UnsentStep) ?? 0;
        Observer.Trace("ioctl", descriptor, unsent);
        return unsent;
    }

    public void Shutdown(int descriptor, bool both)
    {
        Observer.Trace("shutdown", descriptor, both ? 2 : 1);
        if (Find(descriptor, "shutdown") is { } socket)
        {
            socket.ShutAtMs = socket.ShutAtMs == 0 ? NowMs : socket.ShutAtMs;
            socket.Shutdown(both);
        }
    }

    public void EndReceiving(int descriptor)
    {
        Observer.Trace("end receiving", descriptor, 0);
        if (Find(descriptor, "shutdown") is { } socket)
        {
            BeforeEnd?.Invoke(socket);
            socket.EndReceiving();
        }
    }

    public void Reset(int descriptor)
    {
        Observer.Trace("reset", descriptor, 0);
        Find(descriptor, "reset")?.ResetByServer();
    }

    public void Close(int descriptor, bool reset)
    {
        if (Find(descriptor, "close") is not { } socket)
        {
            return;
        }

        Observer.OnLoopCall("close", socket);
        Observer.Trace("close", descriptor, reset ? 1 : 0);
        BeforeEnd?.Invoke(socket);
        socket.ClosedAtMs = NowMs;
        socket.Close(reset);
        Free(descriptor);
        Observer.Interleave();
    }

    private SimulatedSocket? Find(int descriptor, string call)
    {
        if (descriptor < _descriptors.Count && _descriptors[descriptor] is SimulatedSocket socket)
        {
            socket.CountCall();
            return socket;
        }

        Observer.Violated($"{call} on descriptor {descriptor}, which is not an open connection");
        return null;
    }

    private void Free(int descriptor)
    {
        _descriptors[descriptor] = null;
        Open--;
    }
}

/// <summary>A listening socket: connections wait in it, and one of the loops that watch it is woken for each.</summary>
internal sealed class SimulatedListener(bool isTcp, SeededRandom random) : IWatchedQueue
{
    private readonly Queue<(SimulatedSocket Socket, IPAddress From)> _pending = new();
    private readonly List<Registration> _watchers = [];

    public int Descriptor { get; set; }

    public bool IsTcp => isTcp;

    public int Pending => _pending.Count;

    /// <summary>Nobody can connect any more.</summary>
    public bool Refuses { get; set; }

    public bool IsClosed { get; private set; }

    public void Close()
    {
        Refuses = IsClosed = true;
        while (_pending.TryDequeue(out (SimulatedSocket Socket, IPAddress From) waiting))
        {
            waiting.Socket.Close(reset: true);
        }
    }

    public void Enqueue(SimulatedSocket socket, IPAddress from)
    {
        _pending.Enqueue((socket, from));
        if (_watchers.Count > 0)
        {
            _watchers[random.Below(_watchers.Count)].Raise();
        }
    }

    public (SimulatedSocket Socket, IPAddress From) Dequeue() => _pending.Dequeue();

    public void Watch(SimulatedPoller poller, ulong token)
    {
        var registration = new Registration(poller, token, isLevel: true, () => _pending.Count > 0 ? Readiness.Read : Readiness.None);
        _watchers.Add(registration);
        if (_pending.Count > 0)
        {
            registration.Raise();
        }
    }

    public void Unwatch(SimulatedPoller poller)
    {
        Registration? registration = _watchers.Find(each => each.Poller == poller);
        registration?.Remove();
        _watchers.Remove(registration!);
    }
}
