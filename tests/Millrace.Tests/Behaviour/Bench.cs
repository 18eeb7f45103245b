// A server of one loop, where a test does not ask for more, over the simulated kernel for tests of behaviour: everything happens at once and in order, time passes
// only when a test says so, and whatever the server does wrong with a system call fails the test. What the clients speak is
// in FastCgiBench, HttpBench and SharedBench.

using System.Net;
using Millrace.Exchanges;
using Millrace.Handlers;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour;

internal abstract class Bench
{
    private readonly List<IClient> _clients = [];

    protected Bench(RequestHandler handler, MillraceOptions? options, string address)
    {
        options ??= new MillraceOptions { Loops = 1 };
        Simulation = new Simulation.Simulation(1, new SimulationSetup
        {
            Loops = options.Loops,
            IsTcp = !address.Contains("unix:", StringComparison.Ordinal),
            Address = address,
            Options = options.Validate(),
            Handler = _ => handler,
        });
    }

    public Simulation.Simulation Simulation { get; }

    /// <summary>Options for one loop, changed by the test.</summary>
    public static MillraceOptions Options(Action<MillraceOptions>? set)
    {
        var options = new MillraceOptions { Loops = 1 };
        set?.Invoke(options);
        return options;
    }

    /// <summary>Ends when the token is cancelled.</summary>
    public static Task Cancelled(CancellationToken token)
    {
        var source = new TaskCompletionSource();
        token.UnsafeRegister(static state => ((TaskCompletionSource)state!).TrySetResult(), source);
        return source.Task;
    }

    // ---- doing things ----

    protected T Connect<T>(Func<SimulatedSocket, T> make, IPAddress? from)
        where T : IClient
    {
        T client = ConnectOnly(make, from);
        Settle();
        return client;
    }

    /// <summary>Waits in the queue: the server has not been on.</summary>
    protected T ConnectOnly<T>(Func<SimulatedSocket, T> make, IPAddress? from)
        where T : IClient
    {
        T client = make(Simulation.World.Connect(Simulation.Listener, from));
        _clients.Add(client);
        return client;
    }

    /// <summary>Somebody whom the server has connected to.</summary>
    protected void Join(IClient responder) => _clients.Add(responder);

    public void Send(IClient client, ReadOnlySpan<byte> bytes)
    {
        client.Socket.ClientSend(bytes);
        Settle();
    }

    public void SendBytewise(IClient client, byte[] bytes)
    {
        foreach (byte b in bytes)
        {
            client.Socket.ClientSend([b]);
            client.Socket.Deliver(1);
            Simulation.Settle();
            _ = Reads ? client.Read() : 0;
        }

        Settle();
    }

    /// <summary>Cut in two at <paramref name="cut"/>; byte by byte when that lies behind the end.</summary>
    protected void SendCut(IClient client, byte[] bytes, int cut)
    {
        if (cut > bytes.Length)
        {
            SendBytewise(client, bytes);
            return;
        }

        Send(client, bytes.AsSpan(0, cut));
        Send(client, bytes.AsSpan(cut));
    }

    /// <summary>
    /// Bytes that are all there at once, and are taken in turns: whoever sends without end keeps the loop from nobody else. The
    /// receive buffer must have room for them.
    /// </summary>
    public void SendInTurns(IClient client, byte[] bytes)
    {
        const int ReadsPerTurn = 2 * 2;     // for its event, and for what it has put off until the others have been served
        const int ReadSize = 32 * 1024;
        SimulatedSocket socket = client.Socket;
        long end = socket.TakenByServer + bytes.Length;
        socket.ClientSend(bytes);
        Assert.Equal(bytes.Length, socket.Deliver(int.MaxValue));
        for (int idle = 0; socket.TakenByServer < end;)
        {
            long before = socket.TakenByServer;
            _ = Simulation.Loops[0].Turn(0);
            while (Simulation.PoolStep())
            {
            }

            long taken = socket.TakenByServer - before;
            Assert.InRange(taken, 0, ReadsPerTurn * ReadSize);
            idle = taken == 0 ? idle + 1 : 0;
            Assert.True(idle < 5, $"The server has stopped reading {end - socket.TakenByServer} bytes before the end.");
        }

        Settle();
    }

    /// <summary>Where to cut so many bytes: at every place, or at about 600 of a long one; and a place behind the end.</summary>
    protected static IEnumerable<int> Cuts(int length, int most = 600)
    {
        int stride = Math.Max(1, length / most);
        for (int cut = 0; cut < length; cut += stride)
        {
            yield return cut;
        }

        yield return length;
        yield return length + 1;
    }

    /// <summary>Whether clients read what comes back.</summary>
    public bool Reads { get; set; } = true;

    /// <summary>Everybody does what he can until nobody can do anything.</summary>
    public void Settle() => Settle(_ => Reads);

    /// <summary>The same where not all of them read.</summary>
    public void Settle(Predicate<IClient> reads)
    {
        for (bool busy = true; busy;)
        {
            busy = false;
            Simulation.Settle();
            foreach (IClient client in _clients.ToArray())      // who is connected to comes while others are served
            {
                while (client.Socket.CanDeliver)
                {
                    busy = true;
                    client.Socket.Deliver(int.MaxValue);
                    Simulation.Settle();
                }

                busy |= reads(client) && client.Read() > 0;
            }
        }

        Assert.Null(Simulation.Failure);
        Assert.All(_clients, static client => Assert.Null(client.Fault));
    }

    public void Pass(TimeSpan time)
    {
        for (long left = (long)time.TotalMilliseconds; left > 0; left -= 100)
        {
            Simulation.World.NowMs += Math.Min(100, left);
            Settle();
        }
    }

    public void Drain()
    {
        _ = Simulation.BeginDrain();
        Settle();
    }

    /// <summary>Lets time pass, and then has the loop look for connections that have been quiet, as the engine does again and again.</summary>
    public void PassInDrain(TimeSpan time)
    {
        Pass(time);
        Simulation.Post(static loop => loop.DrainConnections());
        Settle();
    }

    public void Cut()
    {
        Simulation.Post(static loop => loop.CutConnections());
        Settle();
    }

    // ---- asking ----

    public long Refused(string refusal) => Refusals.Where(pair => pair.Key == refusal).Sum(static pair => pair.Value);

    public long RefusedInAll => Refusals.Sum(static pair => pair.Value);

    private IEnumerable<KeyValuePair<string, long>> Refusals => Simulation.Loops[0].Loop.Counters.Refusals.Concat(Simulation.Services.OffLoop.Refusals);

    public int Connections => Simulation.Services.Connections;

    protected void ForEachClient(Action<IClient> act) => _clients.ForEach(act);

    /// <summary>The connection with nobody behind it any more is forgotten, so that many can follow one another in one test.</summary>
    public void Forget(IClient client) => _clients.Remove(client);

    /// <summary>Stops the server; nothing of it may stay open.</summary>
    protected void End()
    {
        Settle();
        Drain();
        for (int i = 0; i < 3; i++)
        {
            Pass(TimeSpan.FromMilliseconds(300));
            Cut();
        }

        Assert.Equal(0, Connections);
        Assert.Equal(0, Simulation.Handler.Running);
        Assert.Equal(Simulation.Loops.Length, Simulation.World.Open);     // the event queues
    }
}
