// The bench with front servers that speak FastCGI, for what only FastCGI has. Behaviour that HTTP has as well is in Shared/.

using System.Net;
using Microsoft.AspNetCore.Http;
using Millrace.Exchanges;
using Millrace.Handlers;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

internal sealed class FastCgiBench : Bench
{
    private FastCgiBench(RequestHandler handler, MillraceOptions? options, string? address)
        : base(handler, options, address ?? "fastcgi://127.0.0.1:9000")
    {
    }

    // ---- making one ----

    public static void Run(Func<Request, Response, ValueTask> handler, Action<FastCgiBench> test, MillraceOptions? options = null, string? address = null) =>
        Run(() => new DelegateHandler(handler), test, options, address);

    public static void RunHosted(Func<HttpContext, Task> handler, Action<FastCgiBench> test, MillraceOptions? options = null) =>
        Run(() => HandlerFaces.Hosted(handler), test, options, null);

    private static void Run(Func<RequestHandler> handler, Action<FastCgiBench> test, MillraceOptions? options, string? address) => SimulationThread.Run(() =>
    {
        var bench = new FastCgiBench(handler(), options, address);
        test(bench);
        bench.End();
    });

    /// <summary>With the handler that says what it was asked.</summary>
    public static void Run(Action<FastCgiBench> test, MillraceOptions? options = null) => Run(PlainCall.Echo, test, options);

    /// <summary>The same bytes whole, cut in two at every place, and one by one: the outcome must be the same.</summary>
    public static void HoweverCut(
        byte[] bytes, Action<FastCgiBench, FrontEnd> check, Func<Request, Response, ValueTask>? handler = null, MillraceOptions? options = null) =>
        SimulationThread.Run(() =>
        {
            foreach (int cut in Cuts(bytes.Length))
            {
                var bench = new FastCgiBench(new DelegateHandler(handler ?? PlainCall.Echo), options, null);
                FrontEnd front = bench.Connect();
                bench.SendCut(front, bytes, cut);
                check(bench, front);
                bench.End();
            }
        });

    // ---- doing things ----

    public FrontEnd Connect(IPAddress? from = null) => Connect(static socket => new FrontEnd(socket), from);

    /// <summary>Waits in the queue: the server has not been on.</summary>
    public FrontEnd ConnectOnly(IPAddress? from = null) => ConnectOnly(static socket => new FrontEnd(socket), from);

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
}
