// A request that a loop passes on by itself over a kept connection allocates nothing on the thread of that loop.

using System.Net.Sockets;
using Microsoft.Extensions.Logging.Abstractions;
using Millrace.Connector;
using Millrace.Handlers;
using Millrace.Listeners;
using Millrace.Observe;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Allocation;

[Collection(AloneCollection.Name)]
public sealed class RelayAllocationTests(ITestOutputHelper output) : IDisposable
{
    private const int Measured = 5_000;

    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Theory]
    [InlineData("fastcgi")]
    [InlineData("http")]
    public async Task What_a_loop_passes_on_allocates_nothing(string scheme)
    {
        string path = _folder.PathOf("app.sock");
        await using MillraceServer app = await MillraceServer.StartAsync("fastcgi://unix:" + path, static (request, response) =>
        {
            response.ContentType = "text/plain";
            response.AddHeader("Cache-Control", "no-store");
            response.WriteText("Hello, World!");
        });
        var routes = new NotedRoutes(new ThreadAllocation(warmUp: 3_000, Measured));
        using var pool = new ConnectionPool(new UnixDomainSocketEndPoint(path), ConnectionLimits.Default);
        using var relays = new FastCgiRelays(routes, [new RelayUpstream(SocketName.Write(path), path, pool, static _ => { }, static _ => { })], ConnectionLimits.Default);
        await using Engine router = Engine.Start(
            ListenAddress.ParseList(_folder.NewAddress(scheme)), new DelegateHandler(static (_, response) => response.StatusCode = 500), new MillraceOptions { Loops = 1 }, new Log(NullLogger.Instance), relays: relays);

        var watch = System.Diagnostics.Stopwatch.StartNew();
        using KeptConnection connection = KeptConnection.Open(router.Addresses[0].Url, "/items/42?x=1", ("User-Agent", "test/1.0"), ("Accept", "*/*"));
        for (int i = 0; i < routes.Allocation.Requests; i++)
        {
            Assert.Equal((200, "Hello, World!"), connection.Ask());
        }

        output.WriteLine($"{routes.Allocation.Bytes} bytes in {routes.Allocation.Counted} requests");
        Assert.InRange(routes.Allocation.Counted, Measured - 50, Measured);
        long dates = (long)watch.Elapsed.TotalSeconds + 2;      // those of the router and, as they come with its answers, of the application
        Assert.True(routes.Allocation.Allocating <= 2 * dates, $"{routes.Allocation.Allocating} requests allocated, {routes.Allocation.Bytes} bytes in all");
    }

    private sealed class NotedRoutes(ThreadAllocation allocation) : IRelayRoutes
    {
        private readonly RelayRoute _route = new(0, "", null);

        public ThreadAllocation Allocation => allocation;

        public RelayRoute? Find(ReadOnlySpan<char> host, ReadOnlySpan<char> path)
        {
            allocation.Note();
            return _route;
        }
    }
}
