// A server of one loop over the simulated kernel for tests of behaviour: everything happens at once and in order, time passes
// only when a test says so, and whatever the server does wrong with a system call fails the test.

using System.Globalization;
using System.Net;
using System.Text;
using Millrace.Handlers;
using Millrace.Observe;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour;

internal sealed class Bench
{
    private readonly List<FrontEnd> _clients = [];

    private Bench(RequestHandler handler, MillraceOptions options, string? address)
    {
        Simulation = new Simulation.Simulation(1, new SimulationSetup
        {
            Loops = 1,
            IsTcp = true,
            Address = address,
            Options = options.Validate(),
            Handler = _ => handler,
        });
    }

    public Simulation.Simulation Simulation { get; }

    public IReadOnlyList<FrontEnd> Clients => _clients;

    // ---- making one ----

    public static void Run(Func<Request, Response, ValueTask> handler, Action<Bench> test, MillraceOptions? options = null, string? address = null) =>
        Run(() => new DelegateHandler(handler), test, options, address);

    /// <summary>With the handler that says what it was asked.</summary>
    public static void Run(Action<Bench> test, MillraceOptions? options = null) => Run(Echo, test, options);

    public static void Run(Func<RequestHandler> handler, Action<Bench> test, MillraceOptions? options = null, string? address = null) => SimulationThread.Run(() =>
    {
        var bench = new Bench(handler(), options ?? new MillraceOptions { Loops = 1 }, address);
        test(bench);
        bench.End();
    });

    /// <summary>The same bytes whole, cut in two at every place, and one by one: the outcome must be the same.</summary>
    public static void HoweverCut(byte[] bytes, Action<Bench, FrontEnd> check, Func<Request, Response, ValueTask>? handler = null, MillraceOptions? options = null) =>
        SimulationThread.Run(() =>
        {
            int stride = Math.Max(1, bytes.Length / 600);
            for (int cut = 0; cut <= bytes.Length + 1; cut += cut > bytes.Length - stride && cut < bytes.Length ? 1 : stride)
            {
                var bench = new Bench(new DelegateHandler(handler ?? Echo), options ?? new MillraceOptions { Loops = 1 }, null);
                FrontEnd front = bench.Connect();
                if (cut > bytes.Length)
                {
                    bench.SendBytewise(front, bytes);
                }
                else
                {
                    bench.Send(front, bytes[..cut]);
                    bench.Send(front, bytes[cut..]);
                }

                check(bench, front);
                bench.End();
            }
        });

    /// <summary>Reads the whole body and says what it was asked: one line per thing.</summary>
    public static async ValueTask Echo(Request request, Response response)
    {
        long length = 0;
        uint sum = 0;
        byte[] buffer = new byte[8 * 1024];
        for (int count; (count = await request.ReadAsync(buffer)) > 0; length += count)
        {
            foreach (byte b in buffer.AsSpan(0, count))
            {
                sum = (sum * 31) + b;
            }
        }

        var text = new StringBuilder();
        text.Append(CultureInfo.InvariantCulture, $"{request.Method} {request.Target}\npath {request.Path}\nquery {request.QueryString}\nscheme {request.Scheme}\nhost {request.Host}\nbody {length} {sum}\nremote {request.RemoteAddress} {request.RemotePort}\n");
        foreach ((string name, Microsoft.Extensions.Primitives.StringValues values) in request.Headers)
        {
            text.Append(CultureInfo.InvariantCulture, $"{name}: {values}\n");
        }

        response.WriteText(text.ToString());
    }

    // ---- doing things ----

    public FrontEnd Connect(IPAddress? from = null)
    {
        FrontEnd front = ConnectOnly(from);
        Settle();
        return front;
    }

    /// <summary>Waits in the queue: the server has not been on.</summary>
    public FrontEnd ConnectOnly(IPAddress? from = null)
    {
        var front = new FrontEnd(Simulation.World.Connect(Simulation.Listener, from));
        _clients.Add(front);
        return front;
    }

    public void Send(FrontEnd front, byte[] bytes)
    {
        front.Send(bytes);
        Settle();
    }

    public void SendBytewise(FrontEnd front, byte[] bytes)
    {
        foreach (byte b in bytes)
        {
            front.Send([b]);
            front.Socket.Deliver(1);
            Simulation.Settle();
        }

        Settle();
    }

    /// <summary>Whether clients read what comes back.</summary>
    public bool Reads { get; set; } = true;

    /// <summary>Everybody does what he can until nobody can do anything.</summary>
    public void Settle()
    {
        for (bool busy = true; busy;)
        {
            busy = false;
            Simulation.Settle();
            foreach (FrontEnd client in _clients)
            {
                while (client.Socket.CanDeliver)
                {
                    busy = true;
                    client.Socket.Deliver(int.MaxValue);
                    Simulation.Settle();
                }

                busy |= Reads && client.Read() > 0;
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

    /// <summary>Sends one request on a connection and gives its response.</summary>
    public ReceivedResponse Ask(FrontEnd front, byte[] request)
    {
        int before = front.Ended.Count;
        Send(front, request);
        Assert.Equal(before + 1, front.Ended.Count);
        return front.Ended[^1];
    }

    public ReceivedResponse Ask(byte[] request) => Ask(Connect(), request);

    /// <summary>The connection is as good as new: a request on it is served.</summary>
    public void StillServes(FrontEnd front, int id = 1)
    {
        ReceivedResponse response = Ask(front, Wire.Request("/still", id: id));
        Assert.Equal(200, response.Status);
        Assert.Contains("GET /still", response.BodyText, StringComparison.Ordinal);
    }

    public void OthersAreServed() => StillServes(Connect());

    // ---- asking ----

    public long Refused(string refusal) => Simulation.Loops[0].Loop.Counters.Refusals.Concat(Simulation.Services.Detached.Refusals)
        .Where(pair => pair.Key == refusal).Sum(static pair => pair.Value);

    public int Connections => Simulation.Services.Connections;

    private void End()
    {
        Settle();
        _ = Simulation.BeginDrain();
        Settle();
        for (int i = 0; i < 3; i++)
        {
            Pass(TimeSpan.FromMilliseconds(300));
            Simulation.Post(static loop => loop.Cut());
            Settle();
        }

        Assert.Equal(0, Connections);
        Assert.Equal(0, Simulation.Handler.Running);
        Assert.Equal(1, Simulation.World.Open);     // the event queue
    }
}
