// The end-to-end list: what several front ends do instead of an item, for the overrides that declare it. No tests.
using Millrace.Interop.Client;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop;

public abstract partial class EndToEndList
{
    /// <summary>The front end looks at its clients only when it has something for them: the handlers run to their end.</summary>
    protected async Task AssertClientsThatGoAwayAreNotNoticedAsync(string path, bool streaming, int clients = 1)
    {
        ExpectInErrorLog(Complaint.ClientGone);
        string[] tags = [.. Enumerable.Range(0, clients).Select(static _ => NewTag())];
        foreach (string tag in tags)
        {
            using WireClient client = await (streaming ? ConnectStreamingAsync() : ConnectAsync());
            await client.WriteHeadAsync("GET", $"{path}?tag={tag}");
            await App.Signals.WaitAsync($"{tag} started");
        }

        await Task.Delay(200);
        foreach (string tag in tags)
        {
            Assert.Equal(0, App.Signals.Count($"{tag} ended"));
            App.Signals.Raise($"{tag} release");
            await App.Signals.WaitAsync($"{tag} ended");
            Assert.Equal(0, App.Signals.Count($"{tag} aborted"));
        }

        await AssertStillServesAsync();
    }

    /// <summary>The header line that <see cref="AssertEchoed"/> expects back.</summary>
    protected const string EchoType = "Content-Type: application/x-echo";

    protected static void AssertEchoed(byte[] body, WireResponse response)
    {
        Assert.Equal(200, response.Status);
        Assert.Equal("application/x-echo", response.Header("Content-Type"));
        Assert.True(body.AsSpan().SequenceEqual(response.Body), $"{response.Body.Length} bytes came back.");
    }

    /// <summary>The front end passes a chunked body on with the length that it has by then.</summary>
    protected static async Task AssertCollectedLengthIsKnownAsync(WireClient client, int size)
    {
        await client.WriteHeadAsync("POST", $"/size?tag={NewTag()}", "Transfer-Encoding: chunked");
        await WriteChunksAsync(client, size);
        Assert.Equal($"{size} announced {size}", (await client.ReadResponseAsync()).Text);
    }

    /// <summary>The front end keeps the head back until it has the first byte of the body.</summary>
    protected async Task AssertHeadArrivesWithTheBodyAsync()
    {
        string tag = NewTag();
        using WireClient client = await ConnectStreamingAsync();
        await client.WriteHeadAsync("GET", $"/head-first?tag={tag}");
        Task<WireHead> reading = client.ReadHeadAsync();
        await Task.Delay(300);
        Assert.False(reading.IsCompleted, "The head came before the body.");

        App.Signals.Raise($"{tag} head read");
        Assert.Equal(200, (await reading).Status);
        Assert.Equal("data: body\n\n", await client.ReadBodyTextAsync("data: body\n\n".Length));
        Assert.Equal(0, await client.ReadBodyAsync(new byte[1]));
    }

    /// <summary>The front end says that it closes the client's connection after this answer, and does.</summary>
    protected async Task<WireResponse> AssertConnectionIsClosedAfterAsync(string method, string target)
    {
        using WireClient client = await ConnectAsync();
        WireResponse response = await client.SendAsync(method, target);
        Assert.True(response.Head.ClosesConnection, $"{method} {target} did not close the connection.");
        await Assert.ThrowsAsync<CutResponseException>(() => client.GetAsync("/hello"));
        await AssertStillServesAsync();
        return response;
    }

    /// <summary>The front end knows one application only: while that is restarted it answers with an error of its own.</summary>
    protected async Task AssertRestartOfTheOnlyApplicationIsSeenAsync(params int[] statusesMeanwhile)
    {
        Apps.EndToEndApp app = await Apps.EndToEndApp.StartAsync(rig.FreeAddress());
        string address = rig.AddressOf(app);
        await using IFrontEnd frontEnd = await rig.StartFrontEndAsync(app);
        using WireClient slow = await WireClient.ConnectAsync(frontEnd.Buffered);
        await slow.WriteHeadAsync("GET", "/slow?ms=1500&id=running");
        await Task.Delay(700);

        // What runs when the stop begins is answered.
        await app.StopAsync();
        Assert.Equal("running", (await slow.ReadResponseAsync()).Text);
        await app.DisposeAsync();
        Assert.Contains(await StatusAsync(frontEnd), statusesMeanwhile);

        app = await Apps.EndToEndApp.StartAsync(address);
        await using (app)
        {
            long deadline = Environment.TickCount64 + 10_000;
            while (await StatusAsync(frontEnd) != 200)
            {
                Assert.True(Environment.TickCount64 < deadline, "The application that was restarted is not asked.");
                await Task.Delay(50);
            }
        }
    }

    private static async Task<int> StatusAsync(IFrontEnd frontEnd)
    {
        using WireClient client = await WireClient.ConnectAsync(frontEnd.Buffered);
        return (await client.GetAsync("/hello")).Status;
    }
}
