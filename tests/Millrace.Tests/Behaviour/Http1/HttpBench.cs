// The bench with clients that speak HTTP/1.1, for what only HTTP has. Behaviour that FastCGI has as well is in Shared/.

using System.Net;
using System.Text;
using Microsoft.AspNetCore.Http;
using Millrace.Exchanges;
using Millrace.Handlers;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Http1;

internal sealed class HttpBench : Bench
{
    private HttpBench(RequestHandler handler, MillraceOptions? options, string? address = null)
        : base(handler, options, address ?? "http://127.0.0.1:9000")
    {
    }

    // ---- making one ----

    public static void Run(Func<Request, Response, ValueTask> handler, Action<HttpBench> test, Action<MillraceOptions>? options = null, string? address = null) =>
        Run(() => new DelegateHandler(handler), test, options, address);

    /// <summary>With the handler that says what it was asked.</summary>
    public static void Run(Action<HttpBench> test, Action<MillraceOptions>? options = null) => Run(PlainCall.Echo, test, options);

    /// <summary>With an ASP.NET Core application of one delegate.</summary>
    public static void RunHosted(Func<HttpContext, Task> handler, Action<HttpBench> test, Action<MillraceOptions>? options = null) =>
        Run(() => HandlerFaces.Hosted(handler), test, options);

    private static void Run(Func<RequestHandler> handler, Action<HttpBench> test, Action<MillraceOptions>? options, string? address = null) => SimulationThread.Run(() =>
    {
        var bench = new HttpBench(handler(), Options(options), address);
        test(bench);
        bench.End();
    });

    /// <summary>
    /// The same bytes whole, cut in two at every place (at about <paramref name="most"/> of a long one), and one by one, each time on
    /// a connection of its own: the outcome must be the same, and another connection of the same server must never notice.
    /// </summary>
    public static void HoweverCut(
        byte[] bytes, Action<HttpBench, HttpPeer> check, Func<Request, Response, ValueTask>? handler = null, Action<MillraceOptions>? options = null, int most = 600) =>
        Run(
            handler ?? PlainCall.Echo,
            bench =>
            {
                HttpPeer other = bench.Connect();
                foreach (int cut in Cuts(bytes.Length, most))
                {
                    HttpPeer peer = bench.Connect();
                    bench.SendCut(peer, bytes, cut);
                    check(bench, peer);
                    bench.Leave(peer);
                    bench.StillServes(other);
                }
            },
            options);

    // ---- doing things ----

    public HttpPeer Connect(IPAddress? from = null) => Connect(static socket => new HttpPeer(socket), from);

    public void Send(HttpPeer peer, string text) => Send(peer, Encoding.Latin1.GetBytes(text));

    /// <summary>Sends one request on a connection and gives its response.</summary>
    public HttpAnswer Ask(HttpPeer peer, string request)
    {
        int before = peer.Answers.Count;
        Send(peer, request);
        Assert.Equal(before + 1, peer.Answers.Count);
        return peer.Answers[^1];
    }

    public HttpAnswer Ask(string request) => Ask(Connect(), request);

    /// <summary>The client closes its connection, and so must the server.</summary>
    public void Leave(HttpPeer peer)
    {
        int before = Connections;
        bool wasOpen = !peer.Socket.ServerClosed;
        peer.Socket.ClientClose();
        Settle();
        Assert.Equal(wasOpen ? before - 1 : before, Connections);
        Forget(peer);
    }

    /// <summary>The connection is as good as new: a request on it is served.</summary>
    public void StillServes(HttpPeer peer)
    {
        HttpAnswer answer = Ask(peer, "GET /still HTTP/1.1\r\nHost: a\r\n\r\n");
        Assert.Equal((200, false), (answer.Status, answer.Closes));
    }

    public void OthersAreServed() => StillServes(Connect());
}
