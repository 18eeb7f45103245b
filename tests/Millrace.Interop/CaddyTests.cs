// The end-to-end list behind Caddy, one class per combination. Caddy never keeps a FastCGI connection.
using System.Diagnostics;
using Millrace.Interop.Apps;
using Millrace.Interop.Client;
using Millrace.Interop.FrontEnds;
using static Millrace.Interop.FrontEnds.AppProtocol;
using static Millrace.Interop.FrontEnds.Transport;
using static Millrace.Interop.FrontEnds.UpstreamConnections;

namespace Millrace.Interop;

public abstract class CaddyRig(AppProtocol protocol, Transport transport, UpstreamConnections connections)
    : EndToEndRig(new CaddyProgram(), new Combination(protocol, transport, connections));

public sealed class CaddyFastCgiTcpRig() : CaddyRig(FastCgi, Tcp, ClosedAfterEachRequest);

public sealed class CaddyFastCgiUnixRig() : CaddyRig(FastCgi, Unix, ClosedAfterEachRequest);

public sealed class CaddyHttpTcpRig() : CaddyRig(Http, Tcp, ClosedAfterEachRequest);

public sealed class CaddyHttpTcpKeptAliveRig() : CaddyRig(Http, Tcp, KeptAlive);

public sealed class CaddyHttpUnixKeptAliveRig() : CaddyRig(Http, Unix, KeptAlive);

/// <summary>What Caddy does otherwise over both protocols.</summary>
public abstract class CaddyList(EndToEndRig rig) : EndToEndList(rig)
{
    private const string EndedAsIfWhole =
        "Caddy 2.6 ends a response of unknown length as if it were whole when the application breaks it off; one with a Content-Length is cut.";

    [Deviation(EndedAsIfWhole)]
    public override async Task Handler_that_throws_after_the_first_byte_cuts_the_response(string length)
    {
        if (length == "known")
        {
            await base.Handler_that_throws_after_the_first_byte_cuts_the_response(length);
            return;
        }

        ExpectInErrorLog(Complaint.ResponseCut);
        ExpectInErrorLog(ExceptionInErrorLog);
        string tag = NewTag();
        using WireClient client = await ConnectStreamingAsync();
        await client.WriteHeadAsync("GET", $"/throw/after?tag={tag}&length={length}");
        App.Signals.Raise($"{tag} read");
        WireResponse response = await client.ReadResponseAsync();
        Assert.Equal((200, 1_000), (response.Status, response.Body.Length));
        await AssertStillServesAsync();
    }

    [Deviation(EndedAsIfWhole)]
    public override async Task Handler_that_throws_after_the_first_byte_never_looks_finished_when_collected(string length)
    {
        if (length == "known")
        {
            await base.Handler_that_throws_after_the_first_byte_never_looks_finished_when_collected(length);
            return;
        }

        ExpectInErrorLog(Complaint.ResponseCut);
        ExpectInErrorLog(ExceptionInErrorLog);
        string tag = NewTag();
        App.Signals.Raise($"{tag} read");
        WireResponse response = await GetAsync($"/throw/after?tag={tag}&length={length}");
        Assert.Equal((200, 1_000), (response.Status, response.Body.Length));
        await AssertStillServesAsync();
    }

    [Deviation(EndedAsIfWhole)]
    public override async Task What_was_sent_before_a_handler_throws_arrives_and_the_response_is_cut(string length, int bytes)
    {
        foreach (bool streamed in (bool[])[false, true])
        {
            Assert.Equal((200, bytes, length == "known"), await GetBrokenAsync(length, bytes, streamed));
        }

        await AssertStillServesAsync();
    }
}

/// <summary>What it does otherwise over FastCGI.</summary>
public abstract class CaddyFastCgiList(EndToEndRig rig) : CaddyList(rig)
{
    // Of the template's read_timeout, which has begun before: five seconds.
    private static readonly TimeSpan s_late = TimeSpan.FromSeconds(2.5);
    private const string Late =
        "Caddy 2.6 tells the application of a client that goes away only when `read_timeout` is over (without one: never), or where the response is being written.";

    [Deviation("A request without a body arrives with Content-Length: 0.")]
    public override async Task Request_headers_arrive_with_their_values()
    {
        EnvironmentReport seen = await AssertHeadersArriveAsync();
        Assert.Equal("0", seen.Header("Content-Length"));
        Assert.Null(seen.Header("Content-Type"));
    }

    [Deviation("Caddy 2.6 does not write what comes on STDERR to its log, although capture_stderr asks for it; the application's own log has the exception.")]
    public override async Task Exception_of_a_handler_is_one_line_in_the_log_of_the_web_server_over_FastCgi_3_STDERR()
    {
        Assert.Equal(500, (await GetAsync("/throw/before")).Status);
        await Task.Delay(300);
        Assert.DoesNotContain(Rig.FrontEnd.ErrorLog(), static line => line.Contains(ExceptionInErrorLog, StringComparison.Ordinal));
        Assert.Contains(App.Log.Entries, static entry => entry.Contains("thrown before the first byte", StringComparison.Ordinal));
    }

    [Deviation("Caddy 2.6 does not say at which of its addresses it was asked: Connection.LocalIpAddress is null.")]
    public override async Task Host_scheme_protocol_and_addresses_are_those_of_the_client()
    {
        EnvironmentReport seen = await AssertHostSchemeAndClientAsync();
        Assert.Null(seen.LocalAddress);
    }

    [Deviation("A request body is passed on in blocks of 65,500 bytes.")]
    public override async Task Request_body_is_read_while_the_client_still_sends_it()
    {
        const int Part = 140_000;
        string tag = NewTag();
        using WireClient client = await ConnectStreamingAsync();
        await client.WriteHeadAsync("POST", $"/hash?tag={tag}", "Transfer-Encoding: chunked");
        byte[] body = DeterministicBytes.Create(5 * Part);
        for (int part = 0; part < 5; part++)
        {
            await client.WriteChunkAsync(body.AsMemory(part * Part, Part));
            await App.Signals.WaitAsync($"{tag} read");
        }

        await client.WriteChunkAsync(ReadOnlyMemory<byte>.Empty);
        WireResponse response = await client.ReadResponseAsync();
        Assert.Equal($"{5 * Part} {DeterministicBytes.Hash(5 * Part)}", response.Text);
    }

    [Deviation("The application hears of the request when the first 65,500 bytes of its body are there; from then on as everywhere.")]
    public override async Task Client_that_goes_away_in_its_body_ends_the_read_with_a_failure()
    {
        ExpectInErrorLog(Complaint.ClientGone);
        string tag = NewTag();
        using (WireClient client = await ConnectStreamingAsync())
        {
            await client.WriteHeadAsync("POST", $"/abort/reading?tag={tag}", "Content-Length: 1000000");
            await client.WriteAsync(DeterministicBytes.Create(140_000));
            await App.Signals.WaitAsync($"{tag} started");
        }

        await App.Signals.WaitAsync($"{tag} ended");
        Assert.Equal(0, App.Signals.Count($"{tag} body taken for whole"));
        await AssertStillServesAsync();
    }

    [Deviation(Late)]
    public override async Task Client_that_goes_away_cancels_RequestAborted_once(string path, bool streaming)
    {
        TimeSpan noticed = await TimeUntilAbortIsNoticedAsync(path, streaming);
        Assert.True(path == "/abort/streaming" || noticed > s_late, $"It was noticed after {noticed} already.");
    }

    [Deviation(Late)]
    public override async Task Many_clients_that_go_away_at_once_are_all_noticed()
    {
        long started = Stopwatch.GetTimestamp();
        await base.Many_clients_that_go_away_at_once_are_all_noticed();
        Assert.True(Stopwatch.GetElapsedTime(started) > s_late);
    }
}

/// <summary>What it does otherwise over HTTP.</summary>
public abstract class CaddyHttpList(EndToEndRig rig) : CaddyList(rig)
{
    // The template buffers requests where responses are collected, and not where they are streamed.
    [Deviation("The answer to a request with a Content-Length may be cut, and end as if it were whole, if it begins before Caddy has looked for the end of that request. With `buffer_requests` (2.6) it never is; 2.7 has `enable_full_duplex` for it.")]
    public override async Task Body_and_its_type_go_both_ways(int size)
    {
        byte[] body = DeterministicBytes.Create(size);
        using WireClient collected = await ConnectAsync();
        AssertEchoed(body, await collected.SendAsync("POST", "/echo", body, EchoType));

        // Caddy's own connection has seen the end of a chunked body when the application sees it.
        using WireClient chunked = await ConnectStreamingAsync();
        await chunked.WriteHeadAsync("POST", "/echo", EchoType, "Transfer-Encoding: chunked");
        await WriteChunksAsync(chunked, size);
        AssertEchoed(body, await chunked.ReadResponseAsync());

        ExpectInErrorLog(Complaint.ResponseCut);
        using WireClient streamed = await ConnectStreamingAsync();
        WireResponse early = await streamed.SendAsync("POST", "/echo", body, EchoType);
        AssertEchoed(body[..Math.Min(size, early.Body.Length)], early);
    }

    [Deviation("Nothing is refused: WebSockets work.")]
    public override Task Upgrade_to_websocket_is_refused_cleanly() => AssertWebSocketIsOpenedAndClosedAsync();
}

public sealed class Caddy_FastCgi_Tcp(CaddyFastCgiTcpRig rig)
    : CaddyFastCgiList(rig), IClassFixture<CaddyFastCgiTcpRig>;

public sealed class Caddy_FastCgi_Unix(CaddyFastCgiUnixRig rig)
    : CaddyFastCgiList(rig), IClassFixture<CaddyFastCgiUnixRig>;

public sealed class Caddy_Http_Tcp(CaddyHttpTcpRig rig)
    : CaddyHttpList(rig), IClassFixture<CaddyHttpTcpRig>;

public sealed class Caddy_Http_Tcp_kept_alive(CaddyHttpTcpKeptAliveRig rig)
    : CaddyHttpList(rig), IClassFixture<CaddyHttpTcpKeptAliveRig>;

public sealed class Caddy_Http_Unix_kept_alive(CaddyHttpUnixKeptAliveRig rig)
    : CaddyHttpList(rig), IClassFixture<CaddyHttpUnixKeptAliveRig>;
