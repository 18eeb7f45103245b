// The end of a daemon while requests are under way at a shared address: what a router still has is answered by applications that are still there.

using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.Json;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    // A busy machine: the router does nothing for a while, and the applications would have ended long before it.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task What_a_router_still_has_when_the_daemon_is_told_to_end_is_answered(bool isKept)
    {
        const int Clients = 6;
        using var manager = new FakeManager(Path.Combine(_directory.Path, "notify"));
        WriteShared(On("blog", "\"path\": \"/blog\"", "\"environment\": { \"TITLE\": \"Blog\" }"), On("rest", "\"environment\": { \"TITLE\": \"Rest\" }"));
        var daemon = isKept ? StartUnder(manager) : await StartAsync();
        await daemon.WaitForErrorAsync("millrace: serving ");
        await WaitForAsync(async () => JsonDocument.Parse(await StatusAsync()).RootElement.GetProperty("apps").EnumerateArray().All(static app => app.GetProperty("state").GetString() == "serving"));
        int router = ProcessesOf("front", await StatusAsync()).Single();
        var clients = Enumerable.Range(0, Clients).Select(_ => new TcpClient()).ToArray();
        try
        {
            foreach (var client in clients)
            {
                await client.ConnectAsync(IPEndPoint.Parse(_shop["http://".Length..]));
            }
            Assert.All(await AskAllAsync("/title"), static answer => Assert.Contains(answer, (string[])["Blog", "Rest"]));
            var slow = AskAsync("x", "/slow/2");
            await Task.Delay(300);      // it must have come to the application

            Assert.Equal(0, Kill(router, SigStop));
            var asked = AskAllAsync("/title");
            var watch = System.Diagnostics.Stopwatch.StartNew();
            daemon.Signal(CommandProcess.SigTerm);
            await Task.Delay(800);      // less than the addresses of a router stay open
            Assert.Equal(0, Kill(router, SigCont));

            Assert.Equal("slow", await slow);
            Assert.Equal(0, await daemon.WaitForExitAsync());
            Assert.InRange(watch.Elapsed, TimeSpan.FromSeconds(1), TimeSpan.FromSeconds(20));        // as long as the longest request; a router that waits in vain takes 30 s
            if (isKept)
            {
                daemon = StartUnder(manager);       // connections that it had no time to read from have moved
                await daemon.WaitForOutputAsync("front: generation 1 serves");
            }
            string[] answers = await asked;
            Assert.Equal(Enumerable.Range(0, Clients).Select(static i => i % 2 == 0 ? "Blog" : "Rest"), answers);
        }
        finally
        {
            _ = Kill(router, SigCont);
            Array.ForEach(clients, static client => client.Dispose());
        }

        Task<string[]> AskAllAsync(string path) => Task.WhenAll(clients.Select(async (client, i) =>
        {
            await client.GetStream().WriteAsync(Encoding.ASCII.GetBytes($"GET {(i % 2 == 0 ? "/blog" : "")}{path} HTTP/1.1\r\nHost: x\r\n\r\n"));
            using var reader = new StreamReader(client.GetStream(), leaveOpen: true);
            return await ReadAsync(reader, $"client {i}", mayEnd: true).WaitAsync(Patience);
        }));
    }

    [Fact]
    public async Task Who_has_no_patience_with_a_router_that_does_not_end_ends_the_applications_behind_it_too()
    {
        WriteShared(On("rest"));
        var daemon = await StartAsync();
        int[] processes = [ProcessesOf("front", await StatusAsync()).Single(), ProcessesOf("rest", await StatusAsync()).Single()];
        Assert.Equal(0, Kill(processes[0], SigStop));

        daemon.Signal(CommandProcess.SigTerm);
        await Task.Delay(1_500);
        Assert.False(HasEnded(processes[1]));       // it would answer what the router still has
        daemon.Signal(CommandProcess.SigTerm);

        Assert.Equal(0, await daemon.WaitForExitAsync(TimeSpan.FromSeconds(20)));
        Assert.All(processes, static process => Assert.True(HasEnded(process)));
        Assert.DoesNotContain("serves in its place", daemon.Output, StringComparison.Ordinal);
        Assert.Empty(Directory.GetFiles(Path.GetDirectoryName(Control)!));
    }
}
