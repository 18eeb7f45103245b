// The answers that a loop passes on by itself, over the simulated kernel: however they come, as fast as they are read, and responders that end, or say what they should
// not, in every place.

using System.Text;
using Millrace.Connector;
using Millrace.Protocols.FastCgi;
using Millrace.Tests.Behaviour.Http1;
using Millrace.Tests.Command;

namespace Millrace.Tests.Connector;

public sealed class RelayAnswerTests
{
    private static readonly byte[] s_whole = [.. Stdout("Content-Type: text/x\r\n\r\nbo"), .. ScriptedResponder.Record(RecordType.Stderr, "a warning"), .. Stdout("dy"), .. ScriptedResponder.Record(RecordType.Stdout, ""), .. ScriptedResponder.End()];

    // ---- how the answer comes ----

    [Fact]
    public void An_answer_is_the_same_however_it_comes() => RelayBench.Run(bench =>
    {
        HttpPeer peer = bench.Connect();
        for (int cut = 0; cut <= s_whole.Length + 1; cut++)
        {
            bench.OnRequest = static _ => { };
            bench.Send(peer, RelayBench.Request());
            Deliver(bench, cut);

            HttpAnswer answer = peer.Answers[^1];
            Assert.Equal((cut + 1, 200, "body", "text/x"), (peer.Answers.Count, answer.Status, answer.BodyText, answer.Field("Content-Type")));
        }

        Assert.Single(bench.Responders);
        Assert.Equal("a warning", string.Concat(bench.Said)[^9..]);
        Assert.Empty(bench.Failures);
    });

    private static void Deliver(RelayBench bench, int cut)
    {
        SimulatedResponder responder = bench.Responders[^1];
        byte[][] pieces = cut > s_whole.Length ? [.. s_whole.Select(static b => new[] { b })] : [s_whole[..cut], s_whole[cut..]];
        foreach (byte[] piece in pieces)
        {
            responder.Send(piece);
            bench.Settle();
        }
    }

    [Fact]
    public void An_answer_that_ends_too_early_does_not_pass_for_a_whole_one_wherever_it_ends() => RelayBench.Run(bench =>
    {
        for (int length = 0; length < s_whole.Length; length++)
        {
            byte[] part = s_whole[..length];
            bench.OnRequest = responder => responder.SendAndClose(part);
            HttpPeer peer = bench.Connect();
            bench.Send(peer, RelayBench.Request());
            bench.Pass(TimeSpan.FromMilliseconds(300));

            Assert.True(peer.Answers is [{ Status: 502 }] || (peer.IsAtEnd && peer.Answers.Count == 0), $"{length} bytes: {peer.Answers.Count} answers, at the end: {peer.IsAtEnd}");
            Assert.Equal(length + 1, bench.Failures.Count);
            Assert.Equal(0, bench.Open);
        }

        bench.OthersAreServed();
    });

    public static TheoryData<string, byte[], int> Broken => new()
    {
        { "another version", [2, 6, 0, 1, 0, 0, 0, 0], 502 },
        { "HTTP", "HTTP/1.1 200 OK\r\n\r\n"u8.ToArray(), 502 },
        { "no head", [.. Stdout(""), .. ScriptedResponder.End()], 502 },
        { "END_REQUEST of 9 bytes", [.. Stdout("X: 1\r\n\r\n"), .. ScriptedResponder.Record(RecordType.EndRequest, new byte[9])], 502 },
        { "overloaded", ScriptedResponder.End(status: ProtocolStatus.Overloaded), 503 },
        { "more bytes than announced", [.. Stdout("Content-Length: 3\r\n\r\nbody"), .. ScriptedResponder.End()], 502 },
        { "a length and 204", [.. Stdout("Status: 204\r\nContent-Length: 3\r\n\r\n"), .. ScriptedResponder.End()], 502 },
        { "a head too large", [.. Enumerable.Range(0, 3).SelectMany(static _ => Stdout("X: " + new string('x', 30_000)))], 502 },
        { "a header that cannot be", [.. Stdout("X Y: 1\r\n\r\n"), .. ScriptedResponder.End()], 502 },
        { "a control character", [.. Stdout("X: a\u0001\r\n\r\n"), .. ScriptedResponder.End()], 502 },
    };

    [Theory]
    [MemberData(nameof(Broken))]
    public void What_is_no_answer_is_said_to_be_none_and_its_connection_is_not_used_again(string name, byte[] answer, int status) => RelayBench.Run(bench =>
    {
        Assert.NotNull(name);
        bench.OnRequest = responder => responder.Send(answer);
        HttpPeer peer = bench.Connect();

        HttpAnswer response = bench.Ask(peer);

        Assert.Equal((status, status == 503 ? "Not available at the moment\n" : "Bad gateway\n"), RelayBench.Of(response));
        Assert.Equal(status == 503 ? "5" : null, response.Field("Retry-After"));
        Assert.Single(bench.Failures);
        Assert.Equal(0, bench.Open);
        bench.OthersAreServed();
        Assert.Equal((200, "body"), RelayBench.Of(bench.Ask(peer)));
    });

    [Fact]
    public void Bytes_behind_the_end_of_an_answer_are_nobodys_and_end_the_connection() => RelayBench.Run(bench =>
    {
        bench.OnRequest = static responder => responder.Send([.. ScriptedResponder.Answer("X: 1\r\n\r\nbody"), .. Stdout("X: 2\r\n\r\nfor somebody else"), .. ScriptedResponder.End()]);
        Assert.Equal((200, "body"), RelayBench.Of(bench.Ask(bench.Connect())));
        Assert.Equal(0, bench.Open);

        bench.OthersAreServed();
    });

    [Fact]
    public void An_answer_that_nobody_has_asked_for_is_nobodys() => RelayBench.Run(bench =>
    {
        Assert.Equal((200, "body"), RelayBench.Of(bench.Ask(bench.Connect())));
        bench.Responders[0].Send([.. Stdout("X: 2\r\n\r\nfor somebody else"), .. ScriptedResponder.End()]);
        _ = bench.Responders[0].Socket.Deliver(int.MaxValue);      // the loop has not been told of it when the next request comes
        HttpPeer peer = bench.Connect();

        Assert.Equal((200, "body"), RelayBench.Of(bench.Ask(peer)));
        Assert.Equal(2, bench.Responders.Count);
        Assert.Equal(1, bench.Open);
    });

    // RFC 9110 §5.5: obs-text is whatever the two ends take it for.
    [Fact]
    public void Bytes_beyond_ASCII_in_a_field_go_on_as_they_are() => RelayBench.Run(bench =>
    {
        bench.OnRequest = static responder => responder.Send([.. Stdout("X: \u00C3\u00A4\r\nY: a\r\nY: \u0080\u00FF\r\ny: b\r\nSet-Cookie: a=\u00E9\r\nContent-Type: text/x\r\n\r\nbody"), .. ScriptedResponder.End()]);
        HttpPeer peer = bench.Connect();
        for (int i = 0; i < 2; i++)
        {
            HttpAnswer answer = bench.Ask(peer);
            Assert.Equal((200, "body"), RelayBench.Of(answer));
            Assert.Equal(("\u00C3\u00A4", "a\n\u0080\u00FF\nb", "a=\u00E9", "text/x"), (answer.Field("X"), answer.Field("Y"), answer.Field("Set-Cookie"), answer.Field("Content-Type")));
        }
        Assert.Equal(1, bench.Open);
        Assert.Empty(bench.Failures);
    });

    // ---- streaming ----

    [Fact]
    public void No_more_is_read_of_an_answer_than_its_client_takes() => RelayBench.Run(bench =>
    {
        const int Length = 3_000_000;
        bench.OnRequest = static responder =>
        {
            responder.Send(Stdout("X: 1\r\n\r\n"));
            for (int left = Length; left > 0; left -= 50_000)
            {
                responder.Send(Stdout(new string('x', 50_000)));
            }

            responder.Send(ScriptedResponder.End());
        };
        HttpPeer peer = bench.Connect();
        peer.Socket.ClientSend(Encoding.ASCII.GetBytes(RelayBench.Request()));
        bench.Settle(reads: client => client != peer);

        long taken = bench.Responders[0].Socket.TakenByServer;
        Assert.InRange(taken, 1, 1_000_000);

        bench.Settle();
        Assert.Equal(Length, Assert.Single(peer.Answers).Bytes.Length);
        Assert.Single(bench.Responders);
        Assert.Equal(1, bench.Open);
    });

    [Fact]
    public void Who_reads_an_answer_too_slowly_is_cut_and_somebody_else_has_the_connection_MinResponseBytesPerSecond() => RelayBench.Run(
        bench =>
        {
            bench.OnRequest = static responder =>
            {
                responder.Send(Stdout("X: 1\r\n\r\n"));
                for (int i = 0; i < 20; i++)
                {
                    responder.Send(Stdout(new string('x', 50_000)));
                }
            };
            HttpPeer[] slow = [bench.Connect(), bench.Connect()];
            foreach (HttpPeer peer in slow)
            {
                peer.Socket.ClientSend(Encoding.ASCII.GetBytes(RelayBench.Request()));
            }

            bench.Settle(reads: client => !slow.Contains(client));
            bench.Reads = false;
            for (int seconds = 0; seconds < 60 && bench.Open > 0; seconds++)
            {
                Array.ForEach(slow, static peer => _ = peer.Read(120));
                bench.Pass(TimeSpan.FromSeconds(1));
            }

            Assert.Equal((0, 2), (bench.Open, bench.Refused("response-too-slow")));
            bench.Reads = true;
            bench.OthersAreServed();
        },
        ConnectionLimits.Default with { ConnectionsMax = 2 });

    [Fact]
    public void What_has_come_of_an_answer_is_passed_on_before_the_rest_is_there() => RelayBench.Run(bench =>
    {
        bench.OnRequest = static responder => responder.Send(Stdout("X: 1\r\n\r\nfirst"));
        HttpPeer peer = bench.Connect();
        bench.Send(peer, RelayBench.Request());
        Assert.Equal("first", peer.Begun?.BodyText);

        bench.Responders[0].Send([.. Stdout(" second"), .. ScriptedResponder.End()]);
        bench.Settle();
        Assert.Equal("first second", Assert.Single(peer.Answers).BodyText);
    });

    [Theory]
    [InlineData("HEAD", "Content-Length: 4\r\n\r\nbody", 200)]
    [InlineData("GET", "Status: 204 No Content\r\n\r\n", 204)]
    [InlineData("GET", "Status: 304 Not Modified\r\nETag: \"1\"\r\n\r\n", 304)]
    public void Answers_that_have_no_body_have_none(string method, string output, int status) => RelayBench.Run(bench =>
    {
        bench.OnRequest = responder => responder.Answer(output);
        HttpPeer peer = bench.Connect();

        Assert.Equal((status, ""), RelayBench.Of(bench.Ask(peer, method)));
        Assert.Equal((status, ""), RelayBench.Of(bench.Ask(peer, method)));
        Assert.Single(bench.Responders);
    });

    [Fact]
    public void A_server_that_drains_waits_for_the_answers_that_are_under_way() => RelayBench.Run(bench =>
    {
        bench.OnRequest = static _ => { };
        HttpPeer peer = bench.Connect();
        bench.Send(peer, RelayBench.Request());
        bench.Drain();
        Assert.False(peer.Socket.ServerClosed);

        bench.Responders[0].Answer("X: 1\r\n\r\nlast");
        bench.Settle();

        Assert.Equal("last", Assert.Single(peer.Answers).BodyText);
    });

    private static byte[] Stdout(string text) => ScriptedResponder.Record(RecordType.Stdout, Encoding.Latin1.GetBytes(text));
}
