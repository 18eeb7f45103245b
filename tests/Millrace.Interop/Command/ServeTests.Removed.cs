// Somebody tidies up where the daemon has its sockets.

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    [Theory]
    [InlineData("shared")]
    [InlineData("shared/blog.app.sock")]
    [InlineData("")]
    public async Task Who_removes_the_sockets_of_a_shared_address_keeps_nobody_from_its_applications_for_long(string what)
    {
        WriteShared(On("blog", "\"host\": \"blog.example\"", "\"environment\": { \"TITLE\": \"Blog\" }"), On("idle", "\"host\": \"idle.example\"", "\"onDemand\": true", "\"environment\": { \"TITLE\": \"Idle\" }"), On("rest", "\"environment\": { \"TITLE\": \"Rest\" }"));
        var daemon = await StartAsync("idle: waits for its first visitor");
        await WaitForStatusAsync("front", "serving");
        await WaitForStatusAsync("blog", "serving");
        await WaitForStatusAsync("rest", "serving");
        Assert.Equal("Blog", await AskAsync("blog.example", "/title"));
        int before = ProcessesOf("rest", await StatusAsync()).Single();
        string removed = Path.Combine(Path.GetDirectoryName(Control)!, what);

        if (System.IO.File.Exists(removed))
        {
            System.IO.File.Delete(removed);
        }
        else
        {
            Directory.Delete(removed, recursive: true);
        }

        // Whatever is replaced from then on is found: the routers, and every application, also one that had no process.
        await WaitForAsync(async () => System.IO.File.Exists(Path.Combine(Path.GetDirectoryName(Control)!, "shared/blog.app.sock")) && await IsAnsweredAsync("blog.example") && await IsAnsweredAsync("idle.example") && await IsAnsweredAsync("other.example"));
        if (what.Length == 0)
        {
            daemon.Signal(SigHup);
            await WaitForAsync(() => Task.FromResult(System.IO.File.Exists(Control)));
        }
        await WaitForStatusAsync("blog", "serving");
        foreach (string app in (string[])["blog", "idle", "front"])
        {
            Assert.Equal((0, $"{app}: serving\n", ""), await DoAsync("reload", app));
        }
        Assert.Equal("Blog", await AskAsync("blog.example", "/title"));
        Assert.Equal("Idle", await AskAsync("idle.example", "/title"));
        Assert.Equal("Rest", await AskAsync("other.example", "/title"));
        Assert.Equal(what == "shared/blog.app.sock", ProcessesOf("rest", await StatusAsync()).Single() == before);      // whom it does not concern is left alone
    }

    private async Task<bool> IsAnsweredAsync(string host)
    {
        using var answer = await SendAsync(host, "/title");
        return answer.IsSuccessStatusCode;
    }
}
