// A request to a plain handler over a kept connection allocates nothing on the thread of its loop.

using Millrace.Tests.Stress;

namespace Millrace.Tests.Allocation;

public abstract class PlainHandlerAllocationTests(ITestOutputHelper output, string scheme) : IDisposable
{
    private static readonly byte[] s_small = new byte[13];
    private static readonly byte[] s_large = new byte[100_000];

    private readonly SocketFolder _folder = new();

    public void Dispose()
    {
        _folder.Dispose();
        GC.SuppressFinalize(this);
    }

    [Fact]
    public Task A_short_text_allocates_nothing() => AllocatesNothing(static (_, response) => response.WriteText("Hello, World!"));

    [Fact]
    public Task A_body_of_known_length_and_header_fields_allocate_nothing() => AllocatesNothing(static (_, response) =>
    {
        response.StatusCode = 201;
        response.ContentType = "application/octet-stream";
        response.ContentLength = 13;
        response.AddHeader("Cache-Control", "no-store");
        response.Write(s_small);
    });

    [Fact]
    public Task What_a_request_says_allocates_nothing_once_it_has_been_said() => AllocatesNothing(static (request, response) =>
    {
        bool whole = request is { Method: "GET", Target: "/items/42?x=1", Path: "/items/42", QueryString: "?x=1", Scheme: "http", Host: "example.com", Protocol: "HTTP/1.1" }
            && request.Header("User-Agent") == "test/1.0" && request.Header("Accept") == "*/*" && request.ContentLength is null;
        response.WriteText(whole ? "yes" : "no");
    }, expected: "yes");

    [Fact]
    public Task A_long_body_in_one_piece_allocates_nothing() => AllocatesNothing(static (_, response) =>
    {
        response.ContentLength = s_large.Length;
        response.Write(s_large);
    }, requests: 1_000);

    [Fact]
    public Task An_asynchronous_handler_that_ends_at_once_allocates_nothing() =>
        AllocatesNothing(static (_, _) => { }, later: static response => response.FlushAsync());

    private async Task AllocatesNothing(
        Action<Request, Response> handler, string? expected = null, int requests = 5_000, Func<Response, ValueTask>? later = null)
    {
        var allocation = new ThreadAllocation(warmUp: 3_000, measured: requests);
        var options = new MillraceOptions { Loops = 1, Dispatch = DispatchMode.Inline };
        await using MillraceServer server = later is null
            ? await MillraceServer.StartAsync(_folder.NewAddress(scheme), (request, response) =>
            {
                allocation.Note();
                handler(request, response);
            }, options)
            : await MillraceServer.StartAsync(_folder.NewAddress(scheme), (request, response) =>
            {
                allocation.Note();
                handler(request, response);
                return later(response);
            }, options);

        var watch = System.Diagnostics.Stopwatch.StartNew();
        using KeptConnection connection = KeptConnection.Open(server.Addresses[0], "/items/42?x=1", ("User-Agent", "test/1.0"), ("Accept", "*/*"));
        for (int i = 0; i < allocation.Requests; i++)
        {
            (int status, string text) = connection.Ask();
            Assert.True(status is 200 or 201 && (expected is null || text == expected), $"{status} {text}");
        }

        output.WriteLine($"{allocation.Bytes} bytes in {allocation.Counted} requests");
        Assert.InRange(allocation.Counted, requests - 50, requests);

        // A loop that was handed over during a collection goes on with the buffers of another thread: a few in thousands.
        Assert.True(allocation.Allocating * 100 < allocation.Counted, $"{allocation.Allocating} of {allocation.Counted} requests allocated, {allocation.Bytes} bytes in all");
        if (server.Engine.Loops[0].Counters.HandOvers == 0)
        {
            // The lines with the date are made once a second for all responses of an HTTP server.
            long dates = scheme == "http" ? (long)watch.Elapsed.TotalSeconds + 2 : 0;
            Assert.True(allocation.Allocating <= dates, $"{allocation.Allocating} requests allocated, {allocation.Bytes} bytes in all");
        }
    }
}

[Collection(AloneCollection.Name)]
public sealed class FastCgiPlainHandlerAllocationTests(ITestOutputHelper output) : PlainHandlerAllocationTests(output, "fastcgi");

[Collection(AloneCollection.Name)]
public sealed class HttpPlainHandlerAllocationTests(ITestOutputHelper output) : PlainHandlerAllocationTests(output, "http");
