// Chunked request bodies, their extensions and trailers, as handlers see them. RFC 9112 §7.1, RFC 9110 §6.5.

using System.Text;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Protocols.Http1;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Http1;

public sealed class ChunkedBodyTests
{
    private const string Head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

    [Fact]
    public void Chunks_with_extensions_and_trailers_are_one_body_however_they_are_cut_RFC9112_7_1() =>
        HttpBench.HoweverCut(
            Encoding.ASCII.GetBytes(Head + "5;a=b\r\nhello\r\n0001 ; c=\"d;\\\"e\"\r\n \r\nA\r\n0123456789\r\n0;last\r\nX-Sum: 1\r\nX-Other:\r\n\r\n"),
            static (bench, peer) =>
            {
                string text = Assert.Single(peer.Answers).BodyText;
                Assert.Contains($"\nbody 16 {Call.Sum("hello 0123456789"u8)}\n", text, StringComparison.Ordinal);
                Assert.DoesNotContain("X-Sum", text, StringComparison.Ordinal);
                bench.StillServes(peer);
            });

    [Fact]
    public void Trailers_are_given_when_the_body_has_been_read_and_never_as_headers_RFC9110_6_5() => HttpBench.RunHosted(
        static async context =>
        {
            var feature = context.Features.GetRequiredFeature<IHttpRequestTrailersFeature>();
            string before = feature.Available ? "early" : "not yet";
            byte[] buffer = new byte[100];
            while (await context.Request.Body.ReadAsync(buffer) > 0)
            {
            }

            string trailers = string.Join(' ', feature.Trailers.Select(static field => $"{field.Key}={field.Value}"));
            await context.Response.WriteAsync($"{before}, {feature.Available}: {trailers}, {context.Request.Headers.ContainsKey("X-Sum")}");
        },
        static bench =>
        {
            const string Trailers = "0\r\nX-Sum: 1\r\nx-sum:\t2 \r\nX-Empty:\r\n\r\n";
            HttpPeer peer = bench.Connect();
            bench.Send(peer, Head + "3\r\nabc\r\n");
            Assert.Equal("not yet, True: X-Sum=1,2 X-Empty=, False", bench.Ask(peer, Trailers).BodyText);
            bench.Send(peer, Head + "3\r\nabc\r\n");
            bench.SendBytewise(peer, Encoding.ASCII.GetBytes(Trailers));
            Assert.Equal("not yet, True: X-Sum=1,2 X-Empty=, False", peer.Answers[^1].BodyText);
            Assert.Equal("early, True: , False", bench.Ask(peer, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").BodyText);
        });

    [Fact]
    public void A_body_whose_first_chunk_is_malformed_and_came_with_the_head_is_refused_before_any_handler_runs_RFC9112_7_1() => HttpBench.Run(
        static (_, _) => default,
        static bench =>
        {
            Assert.Equal(400, bench.Ask(bench.Connect(), Head + "x\r\n").Status);
            Assert.Equal(0, bench.Simulation.Handler.Started);
        });

    /// <summary>A chunk of so many bytes of data behind so many bytes of extension, its semicolon among them.</summary>
    private static string Chunk(int data, int extension) => $"{data:x};{new string('x', extension - 1)}\r\n{new string('.', data)}\r\n";

    private static void IsRuled(string chunks, int over) => HttpBench.Run(bench =>
    {
        HttpPeer peer = bench.Connect();
        HttpAnswer answer = bench.Ask(peer, Head + chunks);
        Assert.Equal(over == 0 ? 200 : 413, answer.Status);
        Assert.Equal(over == 1, peer.IsAtEnd);
        Assert.Equal(over, bench.Refused("http-chunk-extension-too-long"));
        bench.OthersAreServed();
    });

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    public void The_extensions_of_a_chunk_may_be_so_long_and_no_longer_RFC9112_7_1_1(int over) =>
        IsRuled(Chunk(1, 2) + Chunk(1, ChunkedReader.ExtensionBytesPerChunkMax + over) + "0\r\n\r\n", over);

    [Theory]
    [InlineData(1, 0)]
    [InlineData(1, 1)]
    [InlineData(100, 0)]
    [InlineData(100, 1)]
    public void All_extensions_together_may_be_so_long_for_the_data_before_them_and_no_longer_RFC9112_7_1_1(int data, int over)
    {
        // What needs no data in chunks of 256 bytes of extension, and what the data so far allows on the last chunk.
        const int Each = 256;
        const int Chunks = ChunkedReader.ExtensionBytesFree / Each;
        int rest = (Chunks * data / ChunkedReader.DataBytesPerExtensionByte) + over;
        IsRuled(string.Concat(Enumerable.Repeat(Chunk(data, Each), Chunks)) + $"0;{new string('y', rest - 1)}\r\n\r\n", over);
    }

    // 420 chunks of 64 KiB, each with a signature, as an upload that is signed chunk by chunk has them.
    [Fact]
    public void An_upload_that_is_signed_chunk_by_chunk_arrives_whole_RFC9112_7_1_1() => HttpBench.Run(static bench =>
    {
        const int Chunks = 420;
        byte[] data = new byte[64 * 1024];
        Array.Fill(data, (byte)'d');
        HttpPeer peer = bench.Connect();
        bench.Send(peer, Head);
        for (int i = 0; i < Chunks; i++)
        {
            bench.Send(peer, $"10000;chunk-signature={new string('a', 64)}\r\n");
            bench.Send(peer, data);
            bench.Send(peer, "\r\n");
        }

        HttpAnswer answer = bench.Ask(peer, $"0;chunk-signature={new string('a', 64)}\r\n\r\n");
        Assert.Contains($"\nbody {Chunks * data.Length} ", answer.BodyText, StringComparison.Ordinal);
        bench.StillServes(peer);
    });

    // What is announced allows nothing: only data that has come does.
    [Theory]
    [InlineData("1;{0}\r\n.\r\n")]
    [InlineData("1 ; {0}\r\n.\r\n")]
    [InlineData("0000000000000001;a=\"{0}\"\r\n.\r\n")]
    public void Small_chunks_with_long_extensions_come_to_an_end_RFC9112_7_1_1(string chunk) => HttpBench.Run(
        bench =>
        {
            string bytes = string.Format(System.Globalization.CultureInfo.InvariantCulture, chunk, new string('x', 100));
            HttpPeer peer = bench.Connect();
            bench.Send(peer, Head);
            int sent = 0;
            for (; sent < 1_000 && peer.Answers.Count == 0; sent++)
            {
                bench.Send(peer, bytes);
            }

            Assert.InRange(sent, 100, 200);
            Assert.Equal(413, Assert.Single(peer.Answers).Status);
            Assert.Equal(1, bench.Refused("http-chunk-extension-too-long"));
        },
        static options => options.MaxRequestBodySize = null);

    [Fact]
    public void A_trailer_that_may_not_be_one_is_discarded_and_the_others_are_given_RFC9110_6_5_1() => HttpBench.RunHosted(
        static async context =>
        {
            await context.Request.Body.CopyToAsync(Stream.Null);
            IHeaderDictionary trailers = context.Features.GetRequiredFeature<IHttpRequestTrailersFeature>().Trailers;
            await context.Response.WriteAsync($"{string.Join(' ', trailers.Select(static field => $"{field.Key}={field.Value}"))}; {context.Request.ContentType}; {context.Request.Headers.CacheControl}");
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            const string Trailers = "X-Sum: 1\r\ncontent-type: text/html\r\nCache-Control: no-store\r\nRange: bytes=0-1\r\nX-Last: 2\r\n";
            Assert.Equal("X-Sum=1 X-Last=2; ; ", bench.Ask(peer, $"{Head}3\r\nabc\r\n0\r\n{Trailers}\r\n").BodyText);
            Assert.Equal("; ; ", bench.Ask(peer, $"{Head}3\r\nabc\r\n0\r\nTE: trailers\r\n\r\n").BodyText);
            Assert.Equal(0, bench.RefusedInAll);
        });

    // A web server passes them on (HAProxy), has sent all of the request then and has its answer: the next request on the connection is somebody else's.
    [Theory]
    [InlineData("Content-Length: 5")]
    [InlineData("Transfer-Encoding: chunked")]
    [InlineData("Connection: close")]
    [InlineData("Host: b")]
    [InlineData("Cookie: a=1")]
    public void A_trailer_behind_a_body_that_nobody_reads_does_not_end_the_connection_RFC9110_6_5_1(string trailer) => HttpBench.Run(
        static (request, response) =>
        {
            response.WriteText(request.Path);
            return default;
        },
        bench =>
        {
            HttpPeer peer = bench.Connect();
            Assert.False(bench.Ask(peer, Head + "5\r\nhello\r\n").Closes);
            bench.SendBytewise(peer, Encoding.ASCII.GetBytes($"0\r\nX-Sum: 1\r\n{trailer}\r\n\r\n"));
            Assert.Equal("/next", bench.Ask(peer, "GET /next HTTP/1.1\r\nHost: a\r\n\r\n").BodyText);
            Assert.Equal(0, bench.RefusedInAll);
        });

    [Fact]
    public void A_fault_in_a_chunked_body_reaches_the_handler_that_reads_it_and_ends_the_connection_RFC9112_7_1()
    {
        Exception? seen = null;
        HttpBench.Run(
            async (request, response) =>
            {
                seen = await Record.ExceptionAsync(() => PlainCall.Echo(request, response).AsTask());
                response.StatusCode = 422;
            },
            bench =>
            {
                HttpPeer peer = bench.Connect();
                bench.Send(peer, Head + "3\r\nabc\r\n");
                HttpAnswer answer = bench.Ask(peer, "zz\r\n");
                Assert.Equal(400, Assert.IsType<BadHttpRequestException>(seen).StatusCode);
                Assert.Equal((422, true), (answer.Status, answer.Closes));
                Assert.Equal(1, bench.Refused("http-chunk-size"));
            });
    }

    [Fact]
    public void A_fault_in_a_chunked_body_that_nobody_reads_ends_the_connection_behind_the_answer_RFC9112_7_1() => HttpBench.Run(
        static (request, response) => default,
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            Assert.Equal(200, bench.Ask(peer, Head + "3\r\nabc\r\n").Status);
            bench.Send(peer, "zz\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
            Assert.True(peer.IsAtEnd);
            Assert.Single(peer.Answers);
            Assert.Equal(1, bench.Refused("http-chunk-size"));
            Assert.Equal(1, bench.Simulation.Handler.Started);
        });

    [Fact]
    public void A_chunk_that_announces_more_than_the_limit_is_refused_before_its_bytes_come_RFC9110_15_5_14() => HttpBench.Run(
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            HttpAnswer answer = bench.Ask(peer, Head + "3\r\nabc\r\nfffffff\r\n");
            Assert.Equal((413, true), (answer.Status, answer.Closes));
        },
        static options => options.MaxRequestBodySize = 1_000);

    // All of it comes at once to a handler that waits for it: what the head of the answer says of the connection, and what becomes of that, is one thing.
    [Fact]
    public void A_body_over_the_limit_whose_end_comes_with_it_is_refused_by_an_answer_that_tells_what_becomes_of_the_connection_RFC9112_9_6() => HttpBench.Run(
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            bench.Send(peer, Head);
            bench.Send(peer, $"{1_001:x}\r\n{new string('x', 1_001)}\r\n0\r\n\r\n");
            Assert.Equal((413, true), (Assert.Single(peer.Answers).Status, peer.Answers[0].Closes));
            Assert.True(peer.IsAtEnd);
        },
        static options => options.MaxRequestBodySize = 1_000);

    [Fact]
    public void A_body_that_looks_like_a_request_is_a_body_RFC9112_6_3()
    {
        const string Smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
        HttpBench.HoweverCut(Encoding.ASCII.GetBytes($"{Head}{Smuggled.Length:x}\r\n{Smuggled}\r\n0\r\n\r\n"), static (bench, peer) =>
        {
            Assert.StartsWith("POST /\n", Assert.Single(peer.Answers).BodyText, StringComparison.Ordinal);
            bench.StillServes(peer);
        });
    }

    [Fact]
    public void A_million_chunks_of_one_byte_are_one_body_RFC9112_7_1() => HttpBench.Run(static bench =>
    {
        const int Count = 1_000_000;
        byte[] chunks = new byte[Count * 6];
        for (int i = 0; i < Count; i++)
        {
            "1\r\nx\r\n"u8.CopyTo(chunks.AsSpan(i * 6));
        }

        HttpPeer peer = bench.Connect();
        bench.Send(peer, Head);
        bench.Send(peer, chunks);
        Assert.Contains("\nbody 1000000 ", bench.Ask(peer, "0\r\n\r\n").BodyText, StringComparison.Ordinal);
        bench.StillServes(peer);
    });
}
