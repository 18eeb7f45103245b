// A running server: its loops, their listeners and the threads that drive them. MillraceServer (plain handlers) and
// AspNetCore/HostedServer are two faces of it.

using Microsoft.Extensions.Logging.Abstractions;
using Millrace.Connections;
using Millrace.Exchanges;
using Millrace.Handlers;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Platform;

namespace Millrace;

internal sealed partial class Engine : IAsyncDisposable
{
    private const int LoopPatienceMs = 5_000;
    private const int CutPatienceMs = 5_000;     // of all rounds: where handlers spin, each may wait seconds for a thread

    private readonly MillraceOptions _options;
    private readonly LoopServices _services;
    private readonly EventLoop<LinuxKernel>[] _loops;
    private readonly List<ListenSocket> _sockets = [];
    private readonly ServerMeter _meter;
    private readonly Lock _stopLock = new();
    private Task? _stopped;
    private int _successor = -1;

    private Engine(MillraceOptions options, RequestHandler handler, Log log, Action<DriverThread>? startThread, RelayMaker? relays)
    {
        _options = options;
        _services = new LoopServices(options, handler, log, startThread: startThread);
        _loops = OpenLoops(options.EffectiveLoops, _services);
        Array.ForEach(_loops, loop => loop.Relay = relays?.Make(loop));
        _meter = new ServerMeter(_loops, _services);
    }

    // Each takes three descriptors, and there may be as many of them as the machine has processors.
    private static EventLoop<LinuxKernel>[] OpenLoops(int count, LoopServices services)
    {
        var loops = new List<EventLoop<LinuxKernel>>(count);
        try
        {
            while (loops.Count < count)
            {
                loops.Add(new EventLoop<LinuxKernel>(loops.Count, services, default, ConnectionFactory.Create));
            }
        }
        catch
        {
            loops.ForEach(static loop => loop.Release());
            services.Leave();
            throw;
        }

        return [.. loops];
    }

    /// <summary>What is listened on, with real ports.</summary>
    public IReadOnlyList<ListenAddress> Addresses { get; private set; } = [];

    public LoopServices Services => _services;

    public IReadOnlyList<EventLoop> Loops => _loops;

    /// <exception cref="PlatformNotSupportedException">This is not Linux on x64 or arm64.</exception>
    /// <exception cref="MillraceStartException">An address cannot be listened on, or the system has no descriptor or thread for a loop. Nothing of the server is left then.</exception>
    /// <param name="addresses">What to listen on.</param>
    /// <param name="handler">What requests are given to.</param>
    /// <param name="options">Checked here.</param>
    /// <param name="log">Null: nobody reads what happens.</param>
    /// <param name="startThread">For tests: a system that refuses threads.</param>
    /// <param name="relays">Passes on what needs no handler; null: nothing is.</param>
    public static Engine Start(
        IReadOnlyList<ListenAddress> addresses, RequestHandler handler, MillraceOptions options, Log? log = null, Action<DriverThread>? startThread = null, RelayMaker? relays = null)
    {
        SupportedPlatform.Require();
        var engine = new Engine(options.Validate(), handler, log ?? new Log(NullLogger.Instance), startThread, relays);
        try
        {
            engine.Open(addresses);
            engine.Run();
        }
        catch
        {
            engine.Close();
            engine._services.Leave();
            Array.ForEach(engine._loops, static loop => loop.Release());
            throw;
        }

        return engine;
    }

    private void Open(IReadOnlyList<ListenAddress> addresses)
    {
        TypeInitialisers.Run(hosted: false);
        _services.Prepare();
        long descriptors = RaiseDescriptorLimit();
        long reserve = Math.Min(_options.ReservedDescriptors, descriptors / 4);
        _services.DescriptorCeiling = (int)Math.Min(int.MaxValue, descriptors - reserve);
        _services.ReservePart = (int)(reserve / 2);
        foreach (ListenSocket socket in OpenSockets(addresses))
        {
            Array.ForEach(LoopsOf(socket), loop => loop.AddListener(socket));
        }

        Say(0);
    }

    // All of them, or none.
    private List<ListenSocket> OpenSockets(IReadOnlyList<ListenAddress> addresses)
    {
        var opened = new List<ListenAddress>(Addresses);
        int before = _sockets.Count;
        try
        {
            foreach (ListenAddress address in addresses)
            {
                RefuseTwice(address, opened);
                IReadOnlyList<ListenSocket> sockets = ListenSockets.Open(address, _loops.Length, _options.Backlog);
                _sockets.AddRange(sockets);
                opened.Add(sockets[0].Address);
                SayWhoMayConnect(sockets[0]);
            }
        }
        catch
        {
            _sockets.Skip(before).ToList().ForEach(static socket => socket.Dispose());
            _sockets.RemoveRange(before, _sockets.Count - before);
            throw;
        }

        Addresses = opened;
        return _sockets[before..];
    }

    private EventLoop<LinuxKernel>[] LoopsOf(ListenSocket socket) => socket.IsShared ? _loops : [_loops[socket.Loop]];

    private void Say(int first)
    {
        foreach (ListenAddress address in Addresses.Skip(first))
        {
            _services.Log.Listening(address.Url, _loops.Length);
        }
    }

    /// <summary>Listens on further addresses while the server runs. The task ends when all loops accept there.</summary>
    /// <exception cref="MillraceStartException">One of them cannot be listened on, and none of them is then; or the server has been told to stop.</exception>
    public async Task ListenAsync(IReadOnlyList<ListenAddress> addresses)
    {
        List<Task> watched = [];
        int before;
        lock (_stopLock)
        {
            if (_stopped is not null)
            {
                throw new MillraceStartException("The server is stopping, and listens nowhere any more.");
            }

            before = Addresses.Count;
            foreach (ListenSocket socket in OpenSockets(addresses))
            {
                watched.AddRange(LoopsOf(socket).Select(loop => AddListenerAsync(loop, socket)));
            }
        }

        await Task.WhenAll(watched).ConfigureAwait(false);
        Say(before);
    }

    // Whoever drives the loop adds it: in the order of what is posted, and so ahead of the end.
    private static Task AddListenerAsync(EventLoop<LinuxKernel> loop, ListenSocket socket)
    {
        var added = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        loop.Post(new Action<EventLoop<LinuxKernel>>(its =>
        {
            try
            {
                its.AddListener(socket);
                added.SetResult();
            }
            catch (MillraceStartException error)
            {
                added.SetException(error);
            }
        }));
        return added.Task;
    }

    // Ports and paths refuse a second listener themselves. A descriptor would be watched, and closed, twice.
    private static void RefuseTwice(ListenAddress address, List<ListenAddress> opened)
    {
        if (address.Kind == EndPointKind.Inherited && opened.Exists(other => other.InheritedDescriptor == address.InheritedDescriptor))
        {
            throw new MillraceStartException($"{address.Url} is a descriptor that is given twice; leave one out: a socket speaks one protocol.");
        }
    }

    // Where somebody else has opened the socket, nobody has said here who may connect.
    private void SayWhoMayConnect(ListenSocket socket)
    {
        ListenAddress address = socket.Address;
        if (!address.IsLocal)
        {
            _services.Log.WideAddress(address.Url);
        }
        else if (address is { Kind: EndPointKind.Inherited, Protocol: ListenProtocol.FastCgi, IsAbstract: false, Path: string path } && SocketReach.IsOpenToAll(path))
        {
            _services.Log.OpenSocket(address.Url, path);
        }
    }

    // No loop is driven before there is a thread for each: a server that cannot have them all has served nobody.
    private void Run()
    {
        Array.ForEach(_loops, loop => loop.Siblings = _loops);
        IStandbyDriver[] drivers = _services.ReserveDrivers(_loops.Length);
        try
        {
            _services.Monitor.Start(_loops);
        }
        catch (Exception error) when (error is OutOfMemoryException or ThreadStartException)
        {
            Array.ForEach(drivers, _services.Standby.Release);
            throw LoopServices.NoThread("the monitor", error);
        }

        for (int i = 0; i < drivers.Length; i++)
        {
            _services.Start(_loops[i], drivers[i]);
        }
    }

    // A server of many connections needs many descriptors: as many as the administrator allows.
    private static unsafe long RaiseDescriptorLimit()
    {
        SystemCalls.ResourceLimit limit;
        if (SystemCalls.GetResourceLimit(SystemCalls.RLIMIT_NOFILE, &limit) != 0)
        {
            return long.MaxValue;
        }

        SystemCalls.ResourceLimit raised = limit;
        raised.Soft = limit.Hard;
        bool isRaised = limit.Soft < limit.Hard && SystemCalls.SetResourceLimit(SystemCalls.RLIMIT_NOFILE, &raised) == 0;
        return (long)Math.Min(long.MaxValue, (ulong)(isRaised ? limit.Hard : limit.Soft));
    }

    /// <summary>Stops listening, lets requests in progress end, then cuts what is left when the drain time, or the token, is over.</summary>
    /// <remarks>The first call decides; each further one, and disposing, waits for its end. Any thread, any number of times.</remarks>
    public Task StopAsync(CancellationToken cancellationToken)
    {
        TaskCompletionSource<Task> beginning;
        lock (_stopLock)
        {
            if (_stopped is not null)
            {
                return _stopped;
            }

            beginning = new TaskCompletionSource<Task>();
            _stopped = beginning.Task.Unwrap();
        }

        beginning.SetResult(DrainAndStop(cancellationToken));       // what it calls may stop the server too: a logger, a handler's token
        return _stopped;
    }

    private async Task DrainAndStop(CancellationToken cancellationToken)
    {
        long begun = Environment.TickCount64;
        Task listening = new ListenerShutdown<LinuxKernel>(
            _loops, _sockets, _options.Backlog, static socket => socket.Refuse(), static socket => socket.HoldOff(), static socket => socket.Dispose()).Begin();
        long deadline = begun + (long)_options.DrainTimeout.TotalMilliseconds;
        while ((_services.Connections > 0 || !listening.IsCompleted)
            && Environment.TickCount64 < deadline && !cancellationToken.IsCancellationRequested)
        {
            await Task.Delay(20, CancellationToken.None).ConfigureAwait(false);
            Broadcast(static loop => loop.DrainConnections());
        }

        if (_services.Connections is > 0 and int left)
        {
            _services.Log.DrainCut(left, Math.Round((Environment.TickCount64 - begun) / 1000.0, 1));
            Broadcast(static loop => loop.CutConnections());
            long giveUpAt = Environment.TickCount64 + CutPatienceMs;
            for (int i = 0; i < 50 && _services.Connections > 0 && Environment.TickCount64 < giveUpAt; i++)
            {
                await Task.Delay(20, CancellationToken.None).ConfigureAwait(false);
                Broadcast(static loop => loop.CutConnections());
            }
        }

        Broadcast(static loop => loop.Stop());
        _services.Leave();
        await WaitForLoops().ConfigureAwait(false);
        _services.Log.Drained(
            Math.Round((Environment.TickCount64 - begun) / 1000.0, 1),
            Volatile.Read(ref _services.OffLoop.EndedInDrain),
            _loops.Sum(static loop => Volatile.Read(ref loop.Counters.CutInDrain)));
        Close();
        await _services.Log.FlushAsync(TimeSpan.FromSeconds(1)).ConfigureAwait(false);
    }

    private void Broadcast(Action<EventLoop<LinuxKernel>> action) => Array.ForEach(_loops, loop => loop.Post(action));

    // Handlers that outlive the server keep their loops: those end by themselves, when the last of these handlers has ended. One
    // that blocks where no thread is left to take its loop over keeps it from hearing of the end at all.
    private async Task WaitForLoops()
    {
        long giveUpAt = Environment.TickCount64 + LoopPatienceMs;
        while (!_services.Over.IsCompleted && !AreOutlived() && Environment.TickCount64 < giveUpAt)
        {
            await Task.WhenAny(_services.Over, Task.Delay(10, CancellationToken.None)).ConfigureAwait(false);
        }
    }

    private bool AreOutlived() =>
        Array.TrueForAll(_loops, static loop => loop.HasEnded || loop.IsOutlived) && Array.Exists(_loops, static loop => !loop.HasEnded);

    private void Close()
    {
        _meter.Dispose();
        if (_successor < 0)
        {
            _sockets.ForEach(static socket => socket.Dispose());
            return;
        }

        _sockets.ForEach(static socket => socket.Leave());
        _ = _services.CloseBehindLoopsAsync(_successor);
    }

    public ValueTask DisposeAsync() => new(StopAsync(CancellationToken.None));
}
