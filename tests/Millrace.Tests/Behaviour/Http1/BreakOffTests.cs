// Responses over HTTP/1.1 that end in the middle while the client does not read, or at the application's wish: wherever the socket took no
// more, nothing of them can be taken for the end of the response, and answers to earlier requests come first. RFC 9112 §7.1, §8, §9.3.2.
// H2O takes an end between two chunks for the end of the response, and one within the head of a chunk.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Http1;

public sealed class BreakOffTests
{
    private const string Unix = "http://unix:/run/simulated.sock";

    private static string Get(string path) => $"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n";

    private static async ValueTask Answer(Request request, Response response, HttpBench bench, CutShort cut)
    {
        response.AddHeader("X-Pad", new string('x', int.Parse(request.QueryString.AsSpan(1), System.Globalization.CultureInfo.InvariantCulture)));
        switch (request.Path)
        {
            case "/ended":
                await response.FlushAsync();
                response.Write(Plan.Bytes("part", 0, CutShort.Size));
                return;
            case "/file":
                response.WriteText("");
                bench.Simulation.World.Files[CutShort.File] = Plan.Bytes("part", 0, CutShort.Size);
                await bench.Simulation.Handler.Current!.SendSimulatedFileAsync(CutShort.File, 65_535);
                await bench.Simulation.Handler.Current!.SendSimulatedFileAsync(CutShort.File, CutShort.Size);
                return;
        }

        await cut.Answer(request, response);
    }

    [Theory]
    [InlineData("/ended", CutBy.Timeout)]
    [InlineData("/ended", CutBy.Drain)]
    [InlineData("/waits", CutBy.Timeout)]
    [InlineData("/waits", CutBy.Drain)]
    [InlineData("/file", CutBy.Timeout)]
    [InlineData("/file", CutBy.Drain)]
    [InlineData("/aborts", CutBy.Abort)]
    public void Over_a_Unix_socket_a_chunked_response_that_nobody_takes_ends_within_the_data_of_a_chunk_RFC9112_8(string path, CutBy cause)
    {
        var cut = new CutShort();
        HttpBench? current = null;
        HttpBench.Run(
            (request, response) => Answer(request, response, current!, cut),
            bench =>
            {
                current = bench;
                bench.Reads = false;
                List<HttpPeer> peers = [];

                // The socket takes so many bytes. The first chunk of 65,535 ends a little earlier, there, and a little later.
                bench.Simulation.World.SendCapacityMax = 65_536 + 200;
                for (int pad = 1; pad <= 100; pad++)
                {
                    HttpPeer peer = bench.Connect();
                    bench.Send(peer, Get($"{path}?{pad}"));
                    peers.Add(peer);
                }

                cut.Happens(cause, bench, peers.Count);
                Assert.All(peers, static peer =>
                {
                    Assert.True(peer.IsAtEnd);
                    Assert.Empty(peer.Answers);
                    byte[] body = peer.Begun!.Body;
                    Assert.True(body.Length < peer.Begun.Chunks.Sum(), $"The connection ended outside a chunk, behind {body.Length} bytes of data.");
                });

                // The first chunk was whole to some of them, not to others, and for some it was in the middle of what is no data.
                Assert.True(path == "/file" || peers.Exists(static peer => peer.Begun!.Chunks.Count == 1));
                Assert.Contains(peers, static peer => peer.Begun!.Chunks[^1] == 1);
            },
            CutShort.SetTimeout,
            Unix);
    }

    // ---- Abort, and answers to earlier requests ----

    private static async ValueTask Pipelined(Request request, Response response, Task? later)
    {
        if (request.Path == "/whole")
        {
            response.WriteText("whole");
            return;
        }

        if (request.Path.StartsWith("/begun", StringComparison.Ordinal))
        {
            await response.WriteAsync("part"u8.ToArray());
            await response.FlushAsync();
        }

        await (later ?? Task.CompletedTask);
        response.Abort();
        await response.WriteAsync("never"u8.ToArray());
    }

    [Theory]
    [InlineData("/aborts", null, false)]
    [InlineData("/aborts", null, true)]
    [InlineData("/aborts", Unix, false)]
    [InlineData("/aborts", Unix, true)]
    [InlineData("/begun", null, false)]
    [InlineData("/begun", null, true)]
    [InlineData("/begun", Unix, false)]
    [InlineData("/begun", Unix, true)]
    public void Pipelined_answers_before_an_aborted_one_arrive_RFC9112_9_3_2(string path, string? address, bool later)
    {
        TaskCompletionSource? gate = later ? new() : null;
        HttpBench.Run(
            (request, response) => Pipelined(request, response, gate?.Task),
            bench =>
            {
                HttpPeer peer = bench.Connect();
                bench.Reads = false;
                bench.Send(peer, Get("/whole") + Get("/whole") + Get(path) + Get("/whole"));
                gate?.SetResult();
                bench.Settle();
                bench.Reads = true;
                bench.Pass(TimeSpan.FromMilliseconds(400));
                Assert.Equal(["whole", "whole"], peer.Answers.Select(static answer => answer.BodyText));
                Assert.True(peer.IsAtEnd);
                Assert.Equal(address is null, peer.Socket.WasReset);
                Assert.Equal(0, bench.Connections);
                bool hasBegun = path == "/begun" && later;      // otherwise its head was never sent
                Assert.True(address is null || hasBegun == (peer.Begun is not null));
                Assert.True(address is null || !hasBegun || peer.Begun!.Body.Length < peer.Begun.Chunks.Sum());
            },
            address: address);
    }

    [Theory]
    [InlineData(null, false)]
    [InlineData(null, true)]
    [InlineData(Unix, false)]
    [InlineData(Unix, true)]
    public void Answers_that_wait_for_their_client_to_read_go_before_the_end_of_an_aborted_one_RFC9112_9_3_2(string? address, bool atOnce)
    {
        var ending = new TaskCompletionSource();
        var gate = new TaskCompletionSource();
        HttpBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/whole")
                {
                    response.Write(Plan.Bytes("whole", 0, 30_000));
                    return;
                }

                await (atOnce ? Task.CompletedTask : gate.Task);
                response.Abort();
                await Bench.Cancelled(request.Aborted);
                await ending.Task;
            },
            bench =>
            {
                bench.Simulation.World.SendCapacityMax = 8_000;
                HttpPeer peer = bench.Connect();
                bench.Reads = false;
                bench.Send(peer, Get("/whole") + Get("/aborts"));
                gate.SetResult();
                bench.Pass(TimeSpan.FromSeconds(atOnce ? 0 : 5));
                Assert.Empty(peer.Answers);
                bench.Reads = true;
                bench.Settle();
                Assert.Single(peer.Answers);        // as it reads, and not as time passes
                ending.SetResult();
                bench.Pass(TimeSpan.FromSeconds(5));
                Assert.Equal(Plan.Bytes("whole", 0, 30_000), Assert.Single(peer.Answers).Body);
                Assert.True(peer.IsAtEnd);
                Assert.Equal((0, 0, true), (bench.Connections, bench.Simulation.Handler.Running, peer.Socket.ServerClosed));
            },
            CutShort.SetTimeout,
            address);
    }
}
