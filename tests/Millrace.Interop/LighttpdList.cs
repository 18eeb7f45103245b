// The end-to-end list as it is behind lighttpd: each override is a deviation and asserts what happens instead.
using Millrace.Interop.Apps;
using Millrace.Interop.Client;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop;

/// <summary>What lighttpd does whatever it speaks to the application.</summary>
public abstract class LighttpdList(EndToEndRig rig) : EndToEndList(rig)
{
    private const string SeesClientsOnlyWhenItWrites =
        "lighttpd takes a client that is gone for one that only finished sending, until it has bytes for it: a handler that writes is aborted, a silent one runs to its end.";

    [Deviation(SeesClientsOnlyWhenItWrites)]
    public override Task Client_that_goes_away_cancels_RequestAborted_once(string path, bool streaming) =>
        path == "/abort/streaming"
            ? base.Client_that_goes_away_cancels_RequestAborted_once(path, streaming)
            : AssertClientsThatGoAwayAreNotNoticedAsync(path, streaming);

    [Deviation(SeesClientsOnlyWhenItWrites)]
    public override Task Many_clients_that_go_away_at_once_are_all_noticed() =>
        AssertClientsThatGoAwayAreNotNoticedAsync("/abort/silent", streaming: false, clients: 30);

    // "disable-time" of a server, by default 1 s, by clocks of whole seconds that are looked at once a second.
    protected override TimeSpan RefusalMemory => TimeSpan.FromSeconds(3.5);

    [Deviation("lighttpd takes what the application does not read yet into temporary files, or lets the client wait, as it comes; server.max-request-size limits it.")]
    public override Task Client_waits_for_a_handler_that_does_not_read() => AssertBodyThatIsReadLateArrivesAsync(8 * OneMebibyte);
}

/// <summary>What lighttpd does over FastCGI.</summary>
public abstract class LighttpdFastCgiList(EndToEndRig rig) : LighttpdList(rig)
{
    private const string WantsALength =
        "lighttpd answers 411 to a chunked body that it should pass on as it comes (server.stream-request-body above 0), since it must tell the application a length first; collected, as by default, it arrives.";

    [Deviation(WantsALength)]
    public override Task Chunked_request_body_arrives_whole_when_streamed(int size) => AssertChunkedIsRefusedAsync();

    [Deviation(WantsALength)]
    public override async Task Announced_length_is_known_and_missing_length_is_unknown(int size)
    {
        await AssertChunkedIsRefusedAsync();
        using WireClient client = await ConnectAsync();
        WireResponse known = await client.SendAsync("POST", $"/size?tag={NewTag()}", DeterministicBytes.Create(size));
        Assert.Equal($"{size} announced {size}", known.Text);
        await AssertCollectedLengthIsKnownAsync(client, size);
    }

    [Deviation(WantsALength)]
    public override async Task Request_body_is_read_while_the_client_still_sends_it()
    {
        await AssertChunkedIsRefusedAsync();

        string tag = NewTag();
        using WireClient client = await ConnectStreamingAsync();
        await client.WriteHeadAsync("POST", $"/hash?tag={tag}", "Content-Length: 5000");
        byte[] body = DeterministicBytes.Create(5_000);
        for (int part = 0; part < 5; part++)
        {
            await client.WriteAsync(body.AsMemory(part * 1_000, 1_000));
            await App.Signals.WaitAsync($"{tag} read");
        }

        WireResponse response = await client.ReadResponseAsync();
        Assert.Equal($"5000 {DeterministicBytes.Hash(5_000)}", response.Text);
    }

    [Deviation("lighttpd says a length of 0 for requests without a body: Request.ContentLength is 0, not null.")]
    public override async Task Request_headers_arrive_with_their_values()
    {
        EnvironmentReport seen = await AssertHeadersArriveAsync();
        Assert.Equal("0", seen.Header("Content-Length"));
        Assert.Null(seen.Header("Content-Type"));
    }

    // The chunks are kept back: where all of them are there already, lighttpd knows the length.
    private async Task AssertChunkedIsRefusedAsync()
    {
        using WireClient client = await ConnectStreamingAsync();
        await client.WriteHeadAsync("POST", "/hash", "Transfer-Encoding: chunked");
        Assert.Equal(411, (await client.ReadHeadAsync()).Status);
    }
}

/// <summary>What lighttpd does as an HTTP proxy.</summary>
public abstract class LighttpdHttpList(EndToEndRig rig) : LighttpdList(rig)
{
    [Deviation("Nothing is refused: WebSockets work.")]
    public override Task Upgrade_to_websocket_is_refused_cleanly() => AssertWebSocketIsOpenedAndClosedAsync();

    [Deviation("lighttpd takes the header away over HTTP too.")]
    public override async Task Header_that_names_a_proxy_never_arrives_over_FastCgi_CVE_2016_5385()
    {
        EnvironmentReport seen = Report(await GetAsync("/env/x", "Proxy: http://evil.example/", "X-Other: 1"));
        Assert.Null(seen.Header("Proxy"));
        Assert.Equal("1", seen.Header("X-Other"));
    }
}
