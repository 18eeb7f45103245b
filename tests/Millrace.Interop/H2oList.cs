// The end-to-end list as it is behind H2O 2.2: each override is a deviation and asserts what happens instead.
using Millrace.Interop.Client;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop;

/// <summary>What H2O does whatever it speaks to the application.</summary>
public abstract class H2oList(EndToEndRig rig) : EndToEndList(rig)
{
    private const string TakesRequestsInWhole =
        "H2O 2.2 takes every request in whole, in memory, before it asks the application; limit-request-body limits it.";

    private const string SeesClientsOnlyWhenItWrites =
        "H2O notices that a client is gone when it has bytes for it: a handler that writes is aborted, a silent one runs to its end.";

    // It takes its idle connections in turn.
    protected override int KeptConnectionsMax => 200;

    [Deviation(TakesRequestsInWhole + " The length is known then, of a chunked body too.")]
    public override async Task Announced_length_is_known_and_missing_length_is_unknown(int size)
    {
        using WireClient client = await ConnectStreamingAsync();
        WireResponse known = await client.SendAsync("POST", $"/size?tag={NewTag()}", DeterministicBytes.Create(size));
        Assert.Equal($"{size} announced {size}", known.Text);
        await AssertCollectedLengthIsKnownAsync(client, size);
    }

    [Deviation(TakesRequestsInWhole)]
    public override async Task Request_body_is_read_while_the_client_still_sends_it()
    {
        string tag = NewTag();
        using WireClient client = await ConnectStreamingAsync();
        await client.WriteHeadAsync("POST", $"/hash?tag={tag}", "Transfer-Encoding: chunked");
        await client.WriteChunkAsync(DeterministicBytes.Create(1_000));
        await Task.Delay(200);
        Assert.Equal(0, App.Signals.Count($"{tag} read"));

        await client.WriteChunkAsync(ReadOnlyMemory<byte>.Empty);
        WireResponse response = await client.ReadResponseAsync();
        Assert.Equal($"1000 {DeterministicBytes.Hash(1_000)}", response.Text);
    }

    [Deviation(TakesRequestsInWhole)]
    public override async Task Client_waits_for_a_handler_that_does_not_read() =>
        Assert.Equal(8 * OneMebibyte, await AssertBodyThatIsReadLateArrivesAsync(8 * OneMebibyte));

    [Deviation(TakesRequestsInWhole + " The application never hears of one that stays unfinished.")]
    public override async Task Client_that_goes_away_in_its_body_ends_the_read_with_a_failure()
    {
        string tag = NewTag();
        using (WireClient client = await ConnectStreamingAsync())
        {
            await client.WriteHeadAsync("POST", $"/abort/reading?tag={tag}", "Content-Length: 100000");
            await client.WriteAsync(DeterministicBytes.Create(10_000));
            await Task.Delay(200);
        }

        Assert.Equal(0, App.Signals.Count($"{tag} started"));
        await AssertStillServesAsync();
    }

    [Deviation(SeesClientsOnlyWhenItWrites)]
    public override Task Client_that_goes_away_cancels_RequestAborted_once(string path, bool streaming) =>
        path == "/abort/streaming"
            ? base.Client_that_goes_away_cancels_RequestAborted_once(path, streaming)
            : AssertClientsThatGoAwayAreNotNoticedAsync(path, streaming);

    [Deviation(SeesClientsOnlyWhenItWrites)]
    public override Task Many_clients_that_go_away_at_once_are_all_noticed() =>
        AssertClientsThatGoAwayAreNotNoticedAsync("/abort/silent", streaming: false, clients: 30);

    [Deviation("Answers of a status other than 200 whose length the application does not say end with the client's connection, since H2O 2.2 chunks only 200.")]
    public override async Task Status_is_passed_on_and_the_connection_goes_on(int status)
    {
        if (status is 200 or 204 or 205 or 304)
        {
            await base.Status_is_passed_on_and_the_connection_goes_on(status);
            return;
        }

        WireResponse response = await AssertConnectionIsClosedAfterAsync("GET", $"/status/{status}");
        Assert.Equal(status, response.Status);
        Assert.Equal($"status {status}", response.Text);
    }

    [Deviation("H2O 2.2 knows one application for a path: while that is restarted its requests are answered 502 or 503. A socket that systemd holds lets them wait instead.")]
    public override Task Applications_are_stopped_and_started_under_load_without_one_failed_request() =>
        AssertRestartOfTheOnlyApplicationIsSeenAsync(502, 503);

    [Deviation("H2O 2.2 sends the head with the first bytes of the body.")]
    public override Task Head_arrives_before_the_first_byte_of_the_body_when_it_is_flushed() => AssertHeadArrivesWithTheBodyAsync();

    [Deviation("H2O 2.2 takes a response in as fast as the application writes it, and keeps in memory what the client has not read.")]
    public override async Task Handler_waits_for_a_client_that_does_not_read()
    {
        const int Size = 16 * OneMebibyte;
        string tag = NewTag();
        using WireClient client = await ConnectStreamingAsync();
        await client.WriteHeadAsync("GET", $"/big?bytes={Size}&length=unknown&write=blocks&tag={tag}");
        for (int block = 0; block < Size / 65_536; block++)
        {
            await App.Signals.WaitAsync($"{tag} block");
        }

        Assert.Equal(200, (await client.ReadHeadAsync()).Status);
        (long length, string hash) = await client.ReadBodyHashAsync();
        Assert.Equal(Size, length);
        Assert.Equal(DeterministicBytes.Hash(Size), hash);
    }
}

/// <summary>What H2O does over FastCGI.</summary>
public abstract class H2oFastCgiList(EndToEndRig rig) : H2oList(rig)
{
    private const string ClosesAfterHead = "H2O 2.2 closes the client's connection after an answer to HEAD that says a length.";

    private const string LooksFinished =
        "H2O 2.2 ends a response without a length as if it were whole when a FastCGI application breaks it off; with a Content-Length it is cut.";

    [Deviation(LooksFinished)]
    public override Task Handler_that_throws_after_the_first_byte_cuts_the_response(string length) =>
        length == "known" ? base.Handler_that_throws_after_the_first_byte_cuts_the_response(length) : AssertCutLooksFinishedAsync();

    [Deviation(LooksFinished)]
    public override Task Handler_that_throws_after_the_first_byte_never_looks_finished_when_collected(string length) =>
        length == "known" ? base.Handler_that_throws_after_the_first_byte_never_looks_finished_when_collected(length) : AssertCutLooksFinishedAsync();

    [Deviation(LooksFinished)]
    public override async Task What_was_sent_before_a_handler_throws_arrives_and_the_response_is_cut(string length, int bytes)
    {
        foreach (bool streamed in (bool[])[false, true])
        {
            Assert.Equal((200, bytes, length == "known"), await GetBrokenAsync(length, bytes, streamed));
        }

        await AssertStillServesAsync();
    }

    private async Task AssertCutLooksFinishedAsync()
    {
        ExpectInErrorLog(Complaint.ResponseCut);
        ExpectInErrorLog(ExceptionInErrorLog);
        string tag = NewTag();
        App.Signals.Raise($"{tag} read");
        WireResponse response = await GetAsync($"/throw/after?tag={tag}&length=unknown");
        Assert.Equal(200, response.Status);
        Assert.Equal(DeterministicBytes.Create(1_000), response.Body);
        await AssertStillServesAsync();
    }

    [Deviation(ClosesAfterHead)]
    public override async Task Head_has_the_head_of_get_and_no_body_RFC9110_9_3_2()
    {
        WireResponse head = await AssertConnectionIsClosedAfterAsync("HEAD", "/big?bytes=70000&length=known&write=whole");
        Assert.Equal(200, head.Status);
        Assert.Equal(70_000, head.Head.ContentLength);
        Assert.Empty(head.Body);
    }

    [Deviation(ClosesAfterHead)]
    public override async Task File_arrives_whole(int size)
    {
        WireResponse file = await GetAsync($"/file?bytes={size}");
        Assert.Equal(200, file.Status);
        Assert.Equal(size, file.Head.ContentLength);
        Assert.True(DeterministicBytes.Create(size).AsSpan().SequenceEqual(file.Body), $"{file.Body.Length} bytes came.");

        WireResponse head = await AssertConnectionIsClosedAfterAsync("HEAD", $"/file?bytes={size}");
        Assert.Equal(size, head.Head.ContentLength);
    }
}

/// <summary>What H2O does as an HTTP proxy.</summary>
public abstract class H2oHttpList(EndToEndRig rig) : H2oList(rig)
{
    [Deviation("Nothing is refused: WebSockets work.")]
    public override Task Upgrade_to_websocket_is_refused_cleanly() => AssertWebSocketIsOpenedAndClosedAsync();
}
