// The end-to-end list behind HAProxy, one class per combination.
using System.Diagnostics;
using System.Net.Sockets;
using Millrace.Interop.Apps;
using Millrace.Interop.Client;
using Millrace.Interop.FrontEnds;
using static Millrace.Interop.FrontEnds.AppProtocol;
using static Millrace.Interop.FrontEnds.Transport;
using static Millrace.Interop.FrontEnds.UpstreamConnections;

namespace Millrace.Interop;

public abstract class HaproxyRig(AppProtocol protocol, Transport transport, UpstreamConnections connections, bool multiplexes = false)
    : EndToEndRig(new HaproxyProgram(multiplexes), new Combination(protocol, transport, connections));

public sealed class HaproxyFastCgiTcpRig() : HaproxyRig(FastCgi, Tcp, ClosedAfterEachRequest);

public sealed class HaproxyFastCgiTcpMultiplexRig() : HaproxyRig(FastCgi, Tcp, KeptAlive, multiplexes: true);

public sealed class HaproxyFastCgiUnixKeptAliveRig() : HaproxyRig(FastCgi, Unix, KeptAlive);

public sealed class HaproxyHttpTcpRig() : HaproxyRig(Http, Tcp, ClosedAfterEachRequest);

public sealed class HaproxyHttpTcpKeptAliveRig() : HaproxyRig(Http, Tcp, KeptAlive);

public sealed class HaproxyHttpUnixRig() : HaproxyRig(Http, Unix, ClosedAfterEachRequest);

public sealed class HaproxyHttpUnixKeptAliveRig() : HaproxyRig(Http, Unix, KeptAlive);

/// <summary>What HAProxy does otherwise over FastCGI.</summary>
public abstract class HaproxyFastCgiList(EndToEndRig rig) : EndToEndList(rig)
{
    // HAProxy collects a chunked body in one buffer of 16 KiB, of which it keeps a part for itself.
    private const int CollectedMax = 15_000;
    private const string LengthNeeded =
        "FastCGI gets a Content-Length, so a chunked body is collected in one buffer first: beyond tune.bufsize (16 KiB) the answer is 400, and an empty chunked body ends in 504.";

    [Deviation("A request without a body arrives with Content-Length: 0.")]
    public override async Task Request_headers_arrive_with_their_values()
    {
        EnvironmentReport seen = await AssertHeadersArriveAsync();
        Assert.Equal("0", seen.Header("Content-Length"));
        Assert.Null(seen.Header("Content-Type"));
    }

    [Deviation(LengthNeeded)]
    public override Task Chunked_request_body_arrives_whole_when_streamed(int size) => size is > 0 and <= CollectedMax
        ? base.Chunked_request_body_arrives_whole_when_streamed(size)
        : AssertChunkedBodyIsRefusedAsync(size);

    [Deviation(LengthNeeded)]
    public override Task Chunked_request_body_arrives_whole_when_collected(int size) => size is > 0 and <= CollectedMax
        ? base.Chunked_request_body_arrives_whole_when_collected(size)
        : AssertChunkedBodyIsRefusedAsync(size);

    [Deviation("The application always learns a length: HAProxy has collected a chunked body by the time it passes it on.")]
    public override async Task Announced_length_is_known_and_missing_length_is_unknown(int size)
    {
        string tag = NewTag();
        using WireClient client = await ConnectStreamingAsync();
        WireResponse known = await client.SendAsync("POST", $"/size?tag={tag}", DeterministicBytes.Create(size));
        Assert.Equal($"{size} announced {size}", known.Text);

        int collected = Math.Clamp(size, 1, CollectedMax);
        await client.WriteHeadAsync("POST", $"/size?tag={tag}", "Transfer-Encoding: chunked");
        await WriteChunksAsync(client, collected);
        WireResponse chunked = await client.ReadResponseAsync();
        Assert.Equal($"{collected} announced {collected}", chunked.Text);
    }

    [Deviation("A body is passed on while it comes only if its length is announced, and in pieces of a buffer (tune.bufsize, 16 KiB).")]
    public override async Task Request_body_is_read_while_the_client_still_sends_it()
    {
        const int Size = 200_000;
        const int Part = 40_000;
        string tag = NewTag();
        using WireClient client = await ConnectStreamingAsync();
        await client.WriteHeadAsync("POST", $"/hash?tag={tag}", $"Content-Length: {Size}");
        byte[] body = DeterministicBytes.Create(Size);
        for (int offset = 0; offset < Size; offset += Part)
        {
            await client.WriteAsync(body.AsMemory(offset, Part));
            await App.Signals.WaitAsync($"{tag} read");
        }

        WireResponse response = await client.ReadResponseAsync();
        Assert.Equal($"{Size} {DeterministicBytes.Hash(Size)}", response.Text);
    }

    [Deviation("The application hears of the request when a buffer of its body (tune.bufsize, 16 KiB) is full; from then on as everywhere.")]
    public override async Task Client_that_goes_away_in_its_body_ends_the_read_with_a_failure()
    {
        string tag = NewTag();
        using (WireClient client = await ConnectStreamingAsync())
        {
            await client.WriteHeadAsync("POST", $"/abort/reading?tag={tag}", "Content-Length: 100000");
            await client.WriteAsync(DeterministicBytes.Create(40_000));
            await App.Signals.WaitAsync($"{tag} started");
        }

        await App.Signals.WaitAsync($"{tag} ended");
        Assert.Equal(0, App.Signals.Count($"{tag} body taken for whole"));
        await AssertStillServesAsync();
    }

    [Deviation("The rest of an upload that is answered before it is over is not read. A client that reads while it writes has the answer at once; one that writes first waits for `timeout server`, and may see the reset instead.")]
    public override async Task Body_that_the_handler_never_reads_does_no_harm(int size)
    {
        if (size == 1)
        {
            await base.Body_that_the_handler_never_reads_does_no_harm(size);
            return;
        }

        for (int i = 0; i < 3; i++)
        {
            using WireClient client = await ConnectAsync();
            await client.WriteHeadAsync("POST", "/ignore", $"Content-Length: {size}");
            Task writing = client.WriteAsync(DeterministicBytes.Create(size));
            WireResponse response = await client.ReadResponseAsync();
            Assert.Equal((200, "ignored"), (response.Status, response.Text));
            try
            {
                await writing;
                if (!response.Head.ClosesConnection)
                {
                    Assert.Equal("Hello, World!", (await client.GetAsync("/hello")).Text);
                }
            }
            catch (Exception closed) when (closed is SocketException or CutResponseException)
            {
                // It stood still until `timeout server`.
                break;
            }
        }

        await AssertStillServesAsync();
    }

    private async Task AssertChunkedBodyIsRefusedAsync(int size)
    {
        using WireClient client = await ConnectStreamingAsync();
        try
        {
            await client.WriteHeadAsync("POST", "/hash", "Transfer-Encoding: chunked");
            await WriteChunksAsync(client, size);
            Assert.Equal(size == 0 ? 504 : 400, (await client.ReadResponseAsync()).Status);
        }
        catch (Exception closed) when (size > CollectedMax && closed is SocketException or CutResponseException)
        {
            // HAProxy has answered and closed while some of the body was still to come: the reset may overtake the answer.
        }

        await AssertStillServesAsync();
    }
}

/// <summary>What it does otherwise where it keeps its FastCGI connections.</summary>
public abstract class HaproxyFastCgiKeptList(EndToEndRig rig) : HaproxyFastCgiList(rig)
{
    // The template's `timeout server`, and time for a busy machine.
    private static readonly TimeSpan s_late = TimeSpan.FromSeconds(2 + 3);
    private const string Late =
        "With keep-conn HAProxy tells the application of a client that goes away when `timeout server` is over, or when it gives the connection to another request or drops it; without it, or where the response is being written, at once.";

    // It takes its idle connections in turn, those of earlier requests at the same time among them.
    protected override int KeptConnectionsMax => 64;

    [Deviation(Late)]
    public override async Task Client_that_goes_away_cancels_RequestAborted_once(string path, bool streaming) =>
        Assert.InRange(await TimeUntilAbortIsNoticedAsync(path, streaming), TimeSpan.Zero, s_late);

    [Deviation(Late)]
    public override async Task Many_clients_that_go_away_at_once_are_all_noticed()
    {
        long started = Stopwatch.GetTimestamp();
        await base.Many_clients_that_go_away_at_once_are_all_noticed();
        Assert.InRange(Stopwatch.GetElapsedTime(started), TimeSpan.Zero, 2 * s_late);
    }
}

/// <summary>What it does otherwise over HTTP.</summary>
public abstract class HaproxyHttpList(EndToEndRig rig) : EndToEndList(rig)
{
    // It takes its idle connections in turn.
    protected override int KeptConnectionsMax => 64;

    [Deviation("Nothing is refused: WebSockets work.")]
    public override Task Upgrade_to_websocket_is_refused_cleanly() => AssertWebSocketIsOpenedAndClosedAsync();
}

public sealed class Haproxy_FastCgi_Tcp(HaproxyFastCgiTcpRig rig)
    : HaproxyFastCgiList(rig), IClassFixture<HaproxyFastCgiTcpRig>;

/// <summary>With mpxs-conns: HAProxy would put several requests on one connection, if Millrace did not say that it cannot.</summary>
public sealed class Haproxy_FastCgi_Tcp_multiplex(HaproxyFastCgiTcpMultiplexRig rig)
    : HaproxyFastCgiKeptList(rig), IClassFixture<HaproxyFastCgiTcpMultiplexRig>;

public sealed class Haproxy_FastCgi_Unix_kept_alive(HaproxyFastCgiUnixKeptAliveRig rig)
    : HaproxyFastCgiKeptList(rig), IClassFixture<HaproxyFastCgiUnixKeptAliveRig>;

public sealed class Haproxy_Http_Tcp(HaproxyHttpTcpRig rig)
    : HaproxyHttpList(rig), IClassFixture<HaproxyHttpTcpRig>;

public sealed class Haproxy_Http_Tcp_kept_alive(HaproxyHttpTcpKeptAliveRig rig)
    : HaproxyHttpList(rig), IClassFixture<HaproxyHttpTcpKeptAliveRig>;

public sealed class Haproxy_Http_Unix(HaproxyHttpUnixRig rig)
    : HaproxyHttpList(rig), IClassFixture<HaproxyHttpUnixRig>;

public sealed class Haproxy_Http_Unix_kept_alive(HaproxyHttpUnixKeptAliveRig rig)
    : HaproxyHttpList(rig), IClassFixture<HaproxyHttpUnixKeptAliveRig>;
