// The end-to-end list: handlers that throw, and requests for what FastCGI cannot carry.
using Millrace.Interop.Client;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop;

public abstract partial class EndToEndList
{
    // The kind of exception goes to the web server's log; its message, which may hold secrets, only to the application's.
    protected const string ExceptionInErrorLog = "unhandled System.InvalidOperationException";

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
        int lines = rig.FrontEnd.ErrorLog().Skip(before)
            .Count(static line => line.Contains(ExceptionInErrorLog, StringComparison.Ordinal));
        Assert.Equal(IsFastCgi ? 1 : 0, lines);
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

    [Fact]
    public virtual async Task Upgrade_to_websocket_is_refused_cleanly()
    {
        using WireClient client = await ConnectAsync();
        WireResponse response = await client.GetAsync(
            "/websocket",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==");
        Assert.Contains(response.Status, new[] { 400, 501 });
        Assert.Null(response.Header("Upgrade"));
        await AssertStillServesAsync();
    }
}
