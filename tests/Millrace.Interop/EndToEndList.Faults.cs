// The end-to-end list: handlers that throw, and requests for what FastCGI cannot carry.
using System.Diagnostics;
using Millrace.Interop.Client;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop;

public abstract partial class EndToEndList
{
    // The kind of exception goes to the web server's log; its message, which may hold secrets, only to the application's.
    protected const string ExceptionInErrorLog = "unhandled System.InvalidOperationException";

    private static readonly string[] s_upgrade =
    [
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ];

    [Theory]
    [InlineData("/throw/at-once", "thrown at once")]
    [InlineData("/throw/before", "thrown before the first byte")]
    public virtual async Task Handler_that_throws_before_the_first_byte_is_a_500_that_tells_visitors_nothing(string path, string message)
    {
        ExpectInErrorLog(ExceptionInErrorLog);
        using WireClient client = await ConnectAsync();
        WireResponse response = await client.GetAsync(path);
        Assert.Equal(500, response.Status);
        Assert.Null(response.Header("X-Not-Sent"));
        Assert.DoesNotContain(message, response.Text, StringComparison.Ordinal);
        Assert.DoesNotContain("Exception", response.Text, StringComparison.Ordinal);
        Assert.Contains(App.Log.Entries, entry => entry.Contains(message, StringComparison.Ordinal));

        Assert.Equal("Hello, World!", (await client.GetAsync("/hello")).Text);
    }

    [Fact]
    public virtual async Task Exception_of_a_handler_is_one_line_in_the_log_of_the_web_server_over_FastCgi_3_STDERR()
    {
        ExpectInErrorLog(ExceptionInErrorLog);
        int before = rig.FrontEnd.ErrorLog().Count;
        Assert.Equal(500, (await GetAsync("/throw/before")).Status);

        // A front end may answer before it logs; a second line would come as soon as the first.
        long started = Stopwatch.GetTimestamp();
        int Lines() => rig.FrontEnd.ErrorLog().Skip(before).Count(static line => line.Contains(ExceptionInErrorLog, StringComparison.Ordinal));
        while (IsFastCgi && Lines() == 0 && Stopwatch.GetElapsedTime(started) < TimeSpan.FromSeconds(20))
        {
            await Task.Delay(20);
        }

        Assert.Equal(IsFastCgi ? 1 : 0, Lines());
    }

    [Theory]
    [InlineData("known")]
    [InlineData("unknown")]
    public virtual async Task Handler_that_throws_after_the_first_byte_cuts_the_response(string length)
    {
        ExpectInErrorLog(Complaint.ResponseCut);
        ExpectInErrorLog(ExceptionInErrorLog);
        string tag = NewTag();
        using WireClient client = await ConnectStreamingAsync();
        await client.WriteHeadAsync("GET", $"/throw/after?tag={tag}&length={length}");
        Assert.Equal(200, (await client.ReadHeadAsync()).Status);
        byte[] body = new byte[1_000];
        int count = 0;
        while (count < body.Length)
        {
            count += await client.ReadBodyAsync(body.AsMemory(count));
        }

        Assert.Equal(DeterministicBytes.Create(1_000), body);
        App.Signals.Raise($"{tag} read");
        await Assert.ThrowsAsync<CutResponseException>(() => client.ReadBodyAsync(new byte[1]));
        await AssertStillServesAsync();
    }

    [Theory]
    [InlineData("known")]
    [InlineData("unknown")]
    public virtual async Task Handler_that_throws_after_the_first_byte_never_looks_finished_when_collected(string length)
    {
        ExpectInErrorLog(Complaint.ResponseCut);
        ExpectInErrorLog(ExceptionInErrorLog);
        string tag = NewTag();
        App.Signals.Raise($"{tag} read");
        using WireClient client = await ConnectAsync();
        bool finished;
        try
        {
            finished = (await client.GetAsync($"/throw/after?tag={tag}&length={length}")).Status == 200;
        }
        catch (CutResponseException)
        {
            finished = false;
        }

        Assert.False(finished, "A response that the handler never finished looks whole.");
        await AssertStillServesAsync();
    }

    [Theory]
    [InlineData("known", 1_000)]
    [InlineData("unknown", 1_000)]
    [InlineData("known", 100_000)]
    [InlineData("unknown", 100_000)]
    [InlineData("known", 2_000_000)]
    [InlineData("unknown", 2_000_000)]
    public virtual async Task What_was_sent_before_a_handler_throws_arrives_and_the_response_is_cut(string length, int bytes)
    {
        foreach (bool streamed in (bool[])[false, true])
        {
            Assert.Equal((200, bytes, true), await GetBrokenAsync(length, bytes, streamed));
        }

        await AssertStillServesAsync();
    }

    /// <summary>How a response comes through whose handler throws behind so many bytes: its status, how much of it, and whether it is seen to be cut.</summary>
    protected async Task<(int Status, int Bytes, bool IsCut)> GetBrokenAsync(string length, int bytes, bool streamed)
    {
        ExpectInErrorLog(Complaint.ResponseCut);
        ExpectInErrorLog(ExceptionInErrorLog);
        using WireClient client = await (streamed ? ConnectStreamingAsync() : ConnectAsync());
        await client.WriteHeadAsync("GET", $"/throw/behind?length={length}&bytes={bytes}");
        WireHead head;
        try
        {
            head = await client.ReadHeadAsync();
        }
        catch (CutResponseException)
        {
            return (0, 0, true);
        }

        (byte[] body, bool isCut) = await client.ReadBodyAsFarAsItComesAsync();
        Assert.True(DeterministicBytes.Create(bytes).AsSpan().StartsWith(body), "Other bytes arrived than were sent.");
        return (head.Status, body.Length, isCut);
    }

    [Fact]
    public virtual async Task Upgrade_to_websocket_is_refused_cleanly()
    {
        using WireClient client = await ConnectAsync();
        WireResponse response = await client.GetAsync("/websocket", s_upgrade);
        Assert.Contains(response.Status, new[] { 400, 501 });
        Assert.Null(response.Header("Upgrade"));
        await AssertStillServesAsync();
    }

    /// <summary>A WebSocket is opened and closed by both sides (RFC 6455, 4.2.2 and 7.1.2).</summary>
    protected async Task AssertWebSocketIsOpenedAndClosedAsync()
    {
        using WireClient client = await ConnectAsync();
        await client.WriteHeadAsync("GET", "/websocket", s_upgrade);
        WireHead head = await client.ReadHeadAsync();
        Assert.Equal(101, head.Status);
        Assert.Equal("websocket", head.Header("Upgrade"));
        Assert.Equal("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", head.Header("Sec-WebSocket-Accept"));

        // Close with status 1000, and the client's own, masked with zeros.
        byte[] close = new byte[4];
        for (int count = 0; count < close.Length;)
        {
            int more = await client.ReadBodyAsync(close.AsMemory(count));
            Assert.True(more > 0, "The connection ended before the close frame did.");
            count += more;
        }

        Assert.Equal([0x88, 0x02, 0x03, 0xE8], close);
        await client.WriteAsync(new byte[] { 0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE8 });
        Assert.Equal(0, await client.ReadBodyAsync(new byte[1]));
        await AssertStillServesAsync();
    }
}
