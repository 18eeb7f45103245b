// The end-to-end list as it is behind Apache: each override is a deviation and asserts what happens instead.
using Millrace.Interop.Apps;
using Millrace.Interop.Client;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop;

/// <summary>What Apache does whatever it speaks to the application.</summary>
public abstract class ApacheList(EndToEndRig rig) : EndToEndList(rig)
{
    private const string SeesClientsOnlyWhenItWrites =
        "Apache notices that a client is gone when it has bytes for it: a handler that writes is aborted, a silent one runs to its end.";

    private const string ClosesAfterSomeErrors = "Apache closes the client's connection after 400, 500 and 503, and says so.";

    // "All workers are busy or dying, will shutdown 5 keep-alive connections" (event MPM): also while they are only being started.
    protected override bool ClosesKeptConnections => true;

    // BalancerMember ... retry=1
    protected override TimeSpan RefusalMemory => TimeSpan.FromSeconds(1.5);

    [Deviation(SeesClientsOnlyWhenItWrites)]
    public override Task Client_that_goes_away_cancels_RequestAborted_once(string path, bool streaming) =>
        path == "/abort/streaming"
            ? base.Client_that_goes_away_cancels_RequestAborted_once(path, streaming)
            : AssertClientsThatGoAwayAreNotNoticedAsync(path, streaming);

    [Deviation(SeesClientsOnlyWhenItWrites)]
    public override Task Many_clients_that_go_away_at_once_are_all_noticed() =>
        AssertClientsThatGoAwayAreNotNoticedAsync("/abort/silent", streaming: false, clients: 30);

    [Deviation(ClosesAfterSomeErrors)]
    public override async Task Status_is_passed_on_and_the_connection_goes_on(int status)
    {
        if (status is not (400 or 500 or 503))
        {
            await base.Status_is_passed_on_and_the_connection_goes_on(status);
            return;
        }

        WireResponse response = await AssertConnectionIsClosedAfterAsync("GET", $"/status/{status}");
        Assert.Equal(status, response.Status);
        Assert.Equal($"status {status}", response.Text);
    }

    [Deviation(ClosesAfterSomeErrors)]
    public override async Task Handler_that_throws_before_the_first_byte_is_a_500_that_tells_visitors_nothing(string path, string message)
    {
        ExpectInErrorLog(ExceptionInErrorLog);
        WireResponse response = await AssertConnectionIsClosedAfterAsync("GET", path);
        Assert.Equal(500, response.Status);
        Assert.Null(response.Header("X-Not-Sent"));
        Assert.DoesNotContain(message, response.Text, StringComparison.Ordinal);
        Assert.DoesNotContain("Exception", response.Text, StringComparison.Ordinal);
        Assert.Contains(App.Log.Entries, entry => entry.Contains(message, StringComparison.Ordinal));
    }
}

/// <summary>What Apache does over FastCGI.</summary>
public abstract class ApacheFastCgiList(EndToEndRig rig) : ApacheList(rig)
{
    [Deviation("Apache sends the head with the first bytes of the body; an event stream can begin with a comment line.")]
    public override Task Head_arrives_before_the_first_byte_of_the_body_when_it_is_flushed() => AssertHeadArrivesWithTheBodyAsync();

    [Deviation("Apache joins repeated lines of a response header, save Set-Cookie, to one, which means the same.")]
    public override async Task Repeated_headers_keep_all_values_both_ways_RFC9110_5_3()
    {
        WireResponse response = await GetAsync("/duplicates", "X-Many: one", "X-Many: two", "X-Many: three");
        Assert.Equal("one, two, three", response.Text);
        Assert.Equal("one, two, with a comma", response.Header("X-Many"));
    }

    [Deviation("The local port is the one the Host header names, as Apache says in SERVER_PORT.")]
    public override async Task Host_scheme_protocol_and_addresses_are_those_of_the_client()
    {
        using WireClient client = await ConnectAsync();
        EnvironmentReport seen = Report(await client.GetAsync("/env/x", "Host: www.example.org:8080"));
        Assert.Equal("www.example.org:8080", seen.Host);
        Assert.Equal("http", seen.Scheme);
        Assert.Equal("HTTP/1.1", seen.Protocol);
        Assert.Equal("127.0.0.1", seen.RemoteAddress);
        Assert.Equal(client.LocalEndPoint.Port, seen.RemotePort);
        Assert.Equal("127.0.0.1", seen.LocalAddress);
        Assert.Equal(8080, seen.LocalPort);
    }
}

/// <summary>What Apache does as an HTTP proxy.</summary>
public abstract class ApacheHttpList(EndToEndRig rig) : ApacheList(rig)
{
    private const int CollectedMax = 16_384;

    private const string CollectsABlock =
        "Over HTTP Apache asks the application when it has 16 KiB of the request body or the end of it, and from then on passes it on as it comes.";

    [Deviation("Nothing is refused: WebSockets work.")]
    public override Task Upgrade_to_websocket_is_refused_cleanly() => AssertWebSocketIsOpenedAndClosedAsync();

    [Deviation(CollectsABlock + " The length of a chunked body that is shorter is known then.")]
    public override async Task Announced_length_is_known_and_missing_length_is_unknown(int size)
    {
        using WireClient client = await ConnectStreamingAsync();
        WireResponse known = await client.SendAsync("POST", $"/size?tag={NewTag()}", DeterministicBytes.Create(size));
        Assert.Equal($"{size} announced {size}", known.Text);
        if (size <= CollectedMax)
        {
            await AssertCollectedLengthIsKnownAsync(client, size);
            return;
        }

        await client.WriteHeadAsync("POST", $"/size?tag={NewTag()}", "Transfer-Encoding: chunked");
        await WriteChunksAsync(client, size);
        Assert.Equal($"{size} announced none", (await client.ReadResponseAsync()).Text);
    }

    [Deviation(CollectsABlock)]
    public override async Task Request_body_is_read_while_the_client_still_sends_it()
    {
        const int Part = 20_000;
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
        Assert.Equal($"{5 * Part} {DeterministicBytes.Hash(5 * Part)}", (await client.ReadResponseAsync()).Text);
    }

    [Deviation(CollectsABlock)]
    public override async Task Client_that_goes_away_in_its_body_ends_the_read_with_a_failure()
    {
        ExpectInErrorLog(Complaint.ClientGone);
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
}
