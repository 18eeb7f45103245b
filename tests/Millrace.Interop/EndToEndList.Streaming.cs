// The end-to-end list: bytes that arrive while the exchange still runs, and clients that go away in the middle of it.
using System.Diagnostics;
using Millrace.Interop.Client;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop;

public abstract partial class EndToEndList
{
    private const int LineLength = 9;

    [Fact]
    public virtual async Task Lines_arrive_as_they_are_flushed()
    {
        string tag = NewTag();
        using WireClient client = await ConnectStreamingAsync();
        await client.WriteHeadAsync("GET", $"/lines?tag={tag}&count=20");
        Assert.Equal(200, (await client.ReadHeadAsync()).Status);

        // The handler writes a line only when the line before it has been read here.
        for (int line = 1; line <= 20; line++)
        {
            Assert.Equal($"line {line:000}\n", await client.ReadBodyTextAsync(LineLength));
            App.Signals.Raise($"{tag} read");
        }

        Assert.Equal(0, await client.ReadBodyAsync(new byte[1]));
    }

    [Fact]
    public virtual async Task Head_arrives_before_the_first_byte_of_the_body_when_it_is_flushed()
    {
        string tag = NewTag();
        using WireClient client = await ConnectStreamingAsync();
        await client.WriteHeadAsync("GET", $"/head-first?tag={tag}");
        WireHead head = await client.ReadHeadAsync();
        Assert.Equal(200, head.Status);
        Assert.Equal("text/event-stream", head.Header("Content-Type"));
        App.Signals.Raise($"{tag} head read");
        Assert.Equal("data: body\n\n", await client.ReadBodyTextAsync("data: body\n\n".Length));
        Assert.Equal(0, await client.ReadBodyAsync(new byte[1]));
    }

    [Fact]
    public virtual async Task Request_body_is_read_while_the_client_still_sends_it()
    {
        string tag = NewTag();
        using WireClient client = await ConnectStreamingAsync();
        await client.WriteHeadAsync("POST", $"/hash?tag={tag}", "Transfer-Encoding: chunked");
        byte[] body = DeterministicBytes.Create(5_000);
        for (int part = 0; part < 5; part++)
        {
            await client.WriteChunkAsync(body.AsMemory(part * 1_000, 1_000));
            await App.Signals.WaitAsync($"{tag} read");
        }

        await client.WriteChunkAsync(ReadOnlyMemory<byte>.Empty);
        WireResponse response = await client.ReadResponseAsync();
        Assert.Equal($"5000 {DeterministicBytes.Hash(5_000)}", response.Text);
    }

    [Theory]
    [InlineData("/abort/silent", false)]
    [InlineData("/abort/silent", true)]
    [InlineData("/abort/streaming", false)]
    [InlineData("/abort/streaming", true)]
    [InlineData("/abort/blocking", false)]
    [InlineData("/abort/blocking", true)]
    public virtual Task Client_that_goes_away_cancels_RequestAborted_once(string path, bool streaming) => TimeUntilAbortIsNoticedAsync(path, streaming);

    [Fact]
    public virtual async Task Client_that_goes_away_in_its_body_ends_the_read_with_a_failure()
    {
        ExpectInErrorLog(Complaint.ClientGone);
        string tag = NewTag();
        using (WireClient client = await ConnectStreamingAsync())
        {
            await client.WriteHeadAsync("POST", $"/abort/reading?tag={tag}", "Content-Length: 100000");
            await client.WriteAsync(DeterministicBytes.Create(10_000));
            await App.Signals.WaitAsync($"{tag} started");
        }

        await App.Signals.WaitAsync($"{tag} ended");
        Assert.Equal(0, App.Signals.Count($"{tag} body taken for whole"));
        await AssertStillServesAsync();
    }

    [Fact]
    public virtual async Task Many_clients_that_go_away_at_once_are_all_noticed()
    {
        ExpectInErrorLog(Complaint.ClientGone);
        const int Clients = 30;
        string tag = NewTag();
        WireClient[] clients = await Task.WhenAll(Enumerable.Range(0, Clients).Select(_ => ConnectAsync()));
        for (int i = 0; i < Clients; i++)
        {
            await clients[i].WriteHeadAsync("GET", $"/abort/silent?tag={tag}-{i}");
        }

        for (int i = 0; i < Clients; i++)
        {
            await App.Signals.WaitAsync($"{tag}-{i} started");
        }

        foreach (WireClient client in clients)
        {
            client.Dispose();
        }

        for (int i = 0; i < Clients; i++)
        {
            await App.Signals.WaitAsync($"{tag}-{i} aborted");
            await App.Signals.WaitAsync($"{tag}-{i} ended");
            Assert.Equal(1, App.Signals.Count($"{tag}-{i} aborted"));
        }

        await AssertStillServesAsync();
    }

    [Fact]
    public virtual async Task Clients_that_go_away_leave_nothing_to_those_who_come_after_them()
    {
        ExpectInErrorLog(Complaint.ClientGone);
        const int Clients = 6;
        string tag = NewTag();
        for (int round = 0; round < 10; round++)
        {
            WireClient[] clients = await Task.WhenAll(Enumerable.Range(0, Clients).Select(_ => ConnectAsync()));
            for (int i = 0; i < Clients; i++)
            {
                await clients[i].WriteHeadAsync("GET", $"/abort/{(i % 2 == 0 ? "silent" : "blocking")}?tag={tag}-{round}-{i}");
            }

            for (int i = 0; i < Clients; i++)
            {
                await App.Signals.WaitAsync($"{tag}-{round}-{i} started");
                clients[i].Dispose();
            }

            try
            {
                WireResponse[] answers = await Task.WhenAll(Enumerable.Range(0, Clients).Select(_ => GetAsync("/hello")));
                Assert.All(answers, static answer => Assert.Equal((200, "Hello, World!"), (answer.Status, answer.Text)));
            }
            finally
            {
                // Where the front end does not tell, nobody else will.
                for (int i = 0; i < Clients; i++)
                {
                    App.Signals.Raise($"{tag}-{round}-{i} release");
                    await App.Signals.WaitAsync($"{tag}-{round}-{i} ended");
                }
            }
        }
    }

    [Fact]
    public virtual async Task Handler_waits_for_a_client_that_does_not_read()
    {
        const int Size = 64 * OneMebibyte;
        string tag = NewTag();
        using WireClient client = await ConnectStreamingAsync();
        await client.WriteHeadAsync("GET", $"/big?bytes={Size}&length=unknown&write=blocks&tag={tag}");
        Assert.Equal(200, (await client.ReadHeadAsync()).Status);

        int blocks = await WaitUntilStableAsync(() => App.Signals.Count($"{tag} block"));
        Assert.InRange(blocks, 1, (Size / 65_536) - 1);

        (long length, string hash) = await client.ReadBodyHashAsync();
        Assert.Equal(Size, length);
        Assert.Equal(DeterministicBytes.Hash(Size), hash);
    }

    [Fact]
    public virtual async Task Client_waits_for_a_handler_that_does_not_read()
    {
        const int Size = 28 * OneMebibyte;
        Assert.InRange(await AssertBodyThatIsReadLateArrivesAsync(Size), 0, Size - 1);
    }

    /// <summary>Sends a body to a handler that reads it only once nothing more is taken from the client.</summary>
    /// <returns>How much was taken until then.</returns>
    protected async Task<int> AssertBodyThatIsReadLateArrivesAsync(int size)
    {
        const int BlockSize = 65_536;
        string tag = NewTag();
        using WireClient client = await ConnectStreamingAsync();
        client.SendBufferSize = BlockSize;      // or the sockets on the way may take it all
        await client.WriteHeadAsync("POST", $"/hash?tag={tag}&wait=1", $"Content-Length: {size}");
        byte[] body = DeterministicBytes.Create(size);
        int sent = 0;
        Task sending = Task.Run(async () =>
        {
            while (sent < size)
            {
                await client.WriteAsync(body.AsMemory(sent, BlockSize));
                Volatile.Write(ref sent, sent + BlockSize);
            }
        });

        int taken = await WaitUntilStableAsync(() => Volatile.Read(ref sent));
        App.Signals.Raise($"{tag} go");
        await sending;
        WireResponse response = await client.ReadResponseAsync();
        Assert.Equal($"{size} {DeterministicBytes.Hash(size)}", response.Text);
        return taken;
    }

    /// <summary>A client goes away: the handler hears of it, and once. How long that takes is for whoever knows the front end to judge.</summary>
    protected async Task<TimeSpan> TimeUntilAbortIsNoticedAsync(string path, bool streaming)
    {
        ExpectInErrorLog(Complaint.ClientGone);
        string tag = NewTag();
        using (WireClient client = await (streaming ? ConnectStreamingAsync() : ConnectAsync()))
        {
            await client.WriteHeadAsync("GET", $"{path}?tag={tag}");
            await App.Signals.WaitAsync($"{tag} started");
        }

        long left = Stopwatch.GetTimestamp();
        await App.Signals.WaitAsync($"{tag} aborted");
        TimeSpan elapsed = Stopwatch.GetElapsedTime(left);
        await App.Signals.WaitAsync($"{tag} ended");
        Assert.Equal(1, App.Signals.Count($"{tag} aborted"));
        await AssertStillServesAsync();
        return elapsed;
    }

    // A number that has not moved for half a second: every buffer on the way is full.
    protected static async Task<int> WaitUntilStableAsync(Func<int> read)
    {
        int last = -1;
        for (int unmoved = 0; unmoved < 5;)
        {
            await Task.Delay(100);
            int now = read();
            unmoved = now == last ? unmoved + 1 : 0;
            last = now;
        }

        return last;
    }
}
