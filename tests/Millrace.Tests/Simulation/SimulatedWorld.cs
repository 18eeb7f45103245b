// The simulated kernel as one process has it: descriptors, listening sockets, connections and event queues, in one thread and from one
// seed. The lowest free descriptor number is given out again at once, as in Linux, so that whoever uses a number too long
// meets a stranger. What the server does wrong with a descriptor is reported, not forgiven. What a process shares with others is in SimulatedMachine;
// a process that has ended has no descriptor, and its calls have no effect.

using System.Net;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Simulation;

/// <summary>Who watches the system calls and says what happens meanwhile.</summary>
internal interface IKernelObserver
{
    /// <summary>Before each system call: other processes may do something at this point, and the process may end there.</summary>
    void OnSystemCall(string call)
    {
    }

    /// <summary>Before a call that only the loop's driver may make.</summary>
    void OnLoopCall(string call, SimulatedSocket? socket);

    /// <summary>A loop is about to sleep: other things happen until something wakes it.</summary>
    void OnSleep(SimulatedPoller poller, int timeoutMs);

    /// <summary>Other threads may do something at this point.</summary>
    void Interleave();

    void Violated(string what);

    void Trace(string what, long a, long b);
}

internal sealed partial class SimulatedWorld(SeededRandom random, SimulatedMachine machine)
{
    private const int FirstDescriptor = 3;

    private readonly List<object?> _descriptors = [null, null, null];

    /// <summary>The only process of a machine.</summary>
    public SimulatedWorld(SeededRandom random)
        : this(random, new SimulatedMachine(random))
    {
    }

    public SimulatedMachine Machine => machine;

    public IKernelObserver Observer { get; set; } = null!;

    public long NowMs { get => machine.NowMs; set => machine.NowMs = value; }

    /// <summary>Descriptors the process may have in all.</summary>
    public int DescriptorsMax { get; set; } = int.MaxValue;

    public int ReceiveCapacityMax { get => machine.ReceiveCapacityMax; set => machine.ReceiveCapacityMax = value; }

    public int SendCapacityMax { get => machine.SendCapacityMax; set => machine.SendCapacityMax = value; }

    /// <summary>What the system of a TCP client takes of it before the client reads; null: half.</summary>
    public int? PeerCapacityMax { get => machine.PeerCapacityMax; set => machine.PeerCapacityMax = value; }

    /// <summary>In steps of so many bytes a sender learns what its peer has taken.</summary>
    public int UnsentStep { get => machine.UnsentStep; set => machine.UnsentStep = value; }

    public int Open { get; private set; }

    public SocketFaults Faults => machine.Faults;

    /// <summary>What is in the files; null: reading them fails.</summary>
    public Dictionary<int, byte[]?> Files => machine.Files;

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
        if (thing is IOpenFile file)
        {
            file.References++;
        }

        return number;
    }

    public SimulatedListener Listen(bool isTcp)
    {
        var listener = new SimulatedListener(isTcp, random);
        listener.Descriptor = Add(listener);
        return listener;
    }

    public SimulatedSocket Connect(SimulatedListener listener, IPAddress? from = null) => machine.Connect(listener, from);

    /// <summary>Closes a listening socket: who waits in its queue is reset.</summary>
    public void Close(SimulatedListener listener)
    {
        if (listener.IsClosed)
        {
            Observer.Violated("a listening socket is closed twice");
        }

        Close(listener.Descriptor);
    }

    // ---- what the server calls ----

    public Poller OpenPoller()
    {
        LastPoller = new SimulatedPoller(random) { Process = this };
        return new Poller(Add(LastPoller), -1, -1);
    }

    /// <summary>What a client does in the very moment before the server ends its receiving, or closes.</summary>
    public Action<SimulatedSocket>? BeforeEnd { get; set; }

    /// <summary>The event queue opened last.</summary>
    public SimulatedPoller? LastPoller { get; private set; }

    public void ClosePoller(Poller poller) => Close(poller.Queue);

    public SimulatedPoller Of(Poller poller) => (SimulatedPoller)_descriptors[poller.Queue]!;

    /// <summary>What happens, once, before the process goes on that has just been told of events; null: nothing does.</summary>
    public Action? BehindWait { get; set; }

    public int Wait(Poller poller, PollEvent[] events, int timeoutMs)
    {
        if (!Enters("wait"))
        {
            return 0;
        }

        SimulatedPoller queue = Of(poller);
        Observer.OnLoopCall("wait", null);
        if (timeoutMs != 0 && !queue.HasReady)
        {
            queue.SleepMs = timeoutMs;
            Observer.OnSleep(queue, timeoutMs);
            if (HasEnded)
            {
                return 0;
            }
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
            Action? behind = BehindWait;
            BehindWait = null;
            behind?.Invoke();
        }

        return count;
    }

    public void Wake(Poller poller)
    {
        if (!HasEnded)
        {
            Of(poller).WakePending = true;
        }
    }

    public void Mark(Poller poller)
    {
        if (!HasEnded)
        {
            Of(poller).Mark();
        }
    }

    /// <summary>What happens while the kernel is told whether room is waited for; null: nothing does.</summary>
    public Action? InRewatch { get; set; }

    public void Rewatch(Poller poller, int descriptor, bool writing)
    {
        InRewatch?.Invoke();
        if (Find(descriptor, "epoll_ctl")?.RegistrationAt(Of(poller), descriptor) is { } registration)
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
        if (socket.RegistrationAt(Of(poller), descriptor) is not null)
        {
            Observer.Violated($"connection {socket.Number} is registered twice");
            return false;
        }

        if (Faults.FailedWatch > 0 && random.Chance(Faults.FailedWatch))
        {
            return false;
        }

        InWatch?.Invoke();
        var registration = new Registration(Of(poller), token, isLevel: false, () => socket.State) { Writing = writing, Descriptor = descriptor };
        socket.Add(registration);
        if (registration.State != Readiness.None)
        {
            registration.Raise();
        }

        return true;
    }

    public bool WatchListener(Poller poller, int descriptor, ulong token, bool shared)
    {
        if (Enters("epoll_ctl"))
        {
            QueueAt(descriptor).Watch(Of(poller), token, isExclusive: shared);
        }

        return true;
    }

    public void Unwatch(Poller poller, int descriptor)
    {
        if (Enters("epoll_ctl"))
        {
            QueueAt(descriptor).Unwatch(Of(poller));
        }
    }

    private IWatchedQueue QueueAt(int descriptor) => _descriptors[descriptor] is ChannelEnd end ? end.Channel : (IWatchedQueue)_descriptors[descriptor]!;

    public int Accept(int descriptor, Span<byte> peer, out int peerLength)
    {
        peerLength = 0;
        if (!Enters("accept"))
        {
            return KernelResult.Again;
        }

        Observer.OnLoopCall("accept", null);
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
        socket.Owner = this;
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

        SimulatedSocket socket = machine.MakeSocket(isTcp: false);
        int result = Responders?.Invoke(SocketName.Read(address)?.Path ?? "", socket) ?? KernelResult.Refused;
        if (result >= 0)
        {
            result = socket.Descriptor = Add(socket);
            socket.Owner = this;
        }

        Observer.Trace("connect", result, socket.Number);
        Observer.Interleave();
        return result;
    }

    /// <summary>What happens as the kernel gives bytes; null: nothing does.</summary>
    public Action? InReceive { get; set; }

    public int Receive(int descriptor, Span<byte> buffer)
    {
        InReceive?.Invoke();
        if (Find(descriptor, "recv") is not { } socket)
        {
            return KernelResult.Broken;
        }

        Observer.OnLoopCall("recv", socket);
        int count = socket.Receive(buffer);
        socket.NoteTaker(this, count);
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

    public bool IsTcp(int descriptor) => Find(descriptor, "getsockopt")?.IsTcp ?? false;

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
        if (socket.Owner != this && socket.IsWatchedBy(this))
        {
            Observer.Violated($"connection {socket.Number}, which another process has, stays registered here");
        }

        socket.ClosedAtMs = NowMs;
        socket.ResetsAtEnd = reset;
        Close(descriptor);
        Observer.Interleave();
    }

    // After a give the connection is whoever's who takes it: what is left to do here is to be rid of it.
    private SimulatedSocket? Find(int descriptor, string call)
    {
        if (!Enters(call))
        {
            return null;
        }

        if (descriptor < _descriptors.Count && _descriptors[descriptor] is SimulatedSocket socket)
        {
            socket.CountCall();
            if (socket.Owner != this && call is not ("close" or "leave"))
            {
                Observer.Violated($"{call} on connection {socket.Number}, which has been given away");
            }

            return socket;
        }

        Observer.Violated($"{call} on descriptor {descriptor}, which is not an open connection");
        return null;
    }

    private void Close(int descriptor)
    {
        object? entry = _descriptors[descriptor];
        _descriptors[descriptor] = null;
        Open--;
        if (entry is SimulatedPoller poller)
        {
            poller.End();
        }
        else if (entry is IOpenFile file)
        {
            SimulatedMachine.Release(file);
        }
    }
}

/// <summary>A listening socket: connections wait in it, and one of the loops that watch it is woken for each.</summary>
internal sealed class SimulatedListener(bool isTcp, SeededRandom random) : IWatchedQueue, IOpenFile
{
    private readonly Queue<(SimulatedSocket Socket, IPAddress From)> _pending = new();
    private readonly List<Registration> _watchers = [];

    /// <summary>Where it was made; other processes have numbers of their own for it.</summary>
    public int Descriptor { get; set; }

    public int References { get; set; }

    public bool IsTcp => isTcp;

    public int Pending => _pending.Count;

    /// <summary>Nobody can connect any more.</summary>
    public bool Refuses { get; set; }

    public bool IsClosed { get; private set; }

    public void End()
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
        _ = _watchers.RemoveAll(static watcher => watcher.Poller.HasEnded);
        if (_watchers.Count > 0)
        {
            WakeFrom(random.Below(_watchers.Count));
        }
    }

    // EPOLLEXCLUSIVE: each is told up to the first who waits, in an order that nobody knows. Loops of one process come back to what they were told, whatever they are at.
    private void WakeFrom(int first)
    {
        for (int i = 0; i < _watchers.Count; i++)
        {
            Registration watcher = _watchers[(first + i) % _watchers.Count];
            watcher.Raise();
            if (References <= 1 || watcher.Poller.Loop is not DrivenLoop { IsBusy: true })
            {
                return;
            }
        }
    }

    public (SimulatedSocket Socket, IPAddress From) Dequeue() => _pending.Dequeue();

    public void Watch(SimulatedPoller poller, ulong token, bool isExclusive)
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
