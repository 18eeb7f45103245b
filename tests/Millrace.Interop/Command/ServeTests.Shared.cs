// Several applications behind one address: a real nginx in front, the router, and applications of which some go wrong.

using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Net.WebSockets;
using System.Text;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    private string Front => Path.Combine(_directory.Path, "front.sock");

    [Fact]
    public async Task Applications_share_an_address_by_host_and_path_over_both_protocols()
    {
        WriteShared(On("blog", "\"host\": \"blog.example\"", "\"environment\": { \"TITLE\": \"Blog\" }"), On("wiki", "\"host\": \"blog.example\"", "\"path\": \"/wiki\"", "\"environment\": { \"TITLE\": \"Wiki\" }"), On("rest", "\"environment\": { \"TITLE\": \"Rest\" }"));
        var daemon = await StartAsync();

        Assert.Equal("Blog", await AskAsync("blog.example", "/title"));
        Assert.Equal("Wiki", await AskAsync("blog.example", "/wiki/title"));
        Assert.Equal("Rest", await AskAsync("other.example", "/title"));
        Assert.Equal("/wiki|/base|/wiki/base", await AskAsync("blog.example", "/wiki/base"));
        Assert.Equal("|/base|/base", await AskAsync("other.example", "/base"));
        Assert.Equal((0, "Blog\n", ""), await CommandProcess.RunAsync("get", "fastcgi://unix:" + Front, "/title", "-H", "Host: blog.example", "--body-only"));

        // With Host, User-Agent and Accept; the router adds one.
        string[] hundred = [.. Enumerable.Range(0, 97).SelectMany(static i => (string[])["-H", string.Create(CultureInfo.InvariantCulture, $"X-{i}: 1")])];
        Assert.Equal((0, "Wiki\n", ""), await CommandProcess.RunAsync(["get", "fastcgi://unix:" + Front, "/wiki/title", "-H", "Host: blog.example", "--body-only", .. hundred]));
        var (_, table, _) = await DoAsync("status");
        Assert.Matches(@"(?m)^wiki +serving .* front:blog\.example/wiki$", table);
        Assert.Matches($@"(?m)^front +serving .* fastcgi://unix:{Front} {_shop}$", table);

        // How large a body may be is the application's to say.
        using var counted = await _client.PostAsync(_shop + "/count", new ByteArrayContent(new byte[40_000_000]));
        Assert.Equal("40000000", await counted.Content.ReadAsStringAsync());

        daemon.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await daemon.WaitForExitAsync());
        Assert.Empty(Directory.GetFiles(Path.GetDirectoryName(Control)!));
    }

    [Fact]
    public async Task Behind_nginx_routes_change_and_applications_are_replaced_without_a_lost_request()
    {
        WriteShared(On("blog"), On("wiki", "\"path\": \"/wiki\""));
        await StartAsync();
        await using FrontEndServer nginx = await NginxAsync(UpstreamConnections.KeptAlive, Front);
        string address = $"http://{nginx.Buffered}";
        using var ending = new CancellationTokenSource();
        int answered = 0;
        Task[] clients = [.. Enumerable.Range(0, 8).Select(i => Task.Run(async () =>
        {
            using var client = new HttpClient { Timeout = Patience };
            for (int n = 0; !ending.IsCancellationRequested; n++)
            {
                string text = $"{i}-{n}";
                using var answer = await client.PostAsync($"{address}{(n % 2 == 0 ? "" : "/wiki")}/echo", new StringContent(text));
                Assert.Equal((HttpStatusCode.OK, text), (answer.StatusCode, await answer.Content.ReadAsStringAsync()));
                Interlocked.Increment(ref answered);
            }
        }))];

        for (int i = 0; i < 3; i++)
        {
            Assert.Equal(0, (await DoAsync("reload", "wiki")).ExitCode);
            Assert.Equal(0, (await DoAsync("reload", "front")).ExitCode);
        }
        WriteShared(On("blog"), On("wiki", "\"path\": \"/wiki\""), On("more", "\"path\": \"/more\"", "\"environment\": { \"TITLE\": \"More\" }"));
        Assert.Equal(0, (await DoAsync("reload")).ExitCode);
        Assert.Equal("More", await _client.GetStringAsync(address + "/more/title"));

        await ending.CancelAsync();
        await Task.WhenAll(clients);
        Assert.True(answered > 100, answered.ToString(CultureInfo.InvariantCulture));
    }

    [Fact]
    public async Task An_application_that_crashes_hangs_or_is_held_behind_a_shared_address_concerns_no_other()
    {
        WriteShared(On("well", "\"path\": \"/well\"", "\"environment\": { \"TITLE\": \"Well\" }"), On("ill", "\"path\": \"/ill\"", "\"environment\": { \"TITLE\": \"Ill\" }"));
        await StartAsync();
        Assert.Equal("Ill", await AskAsync("x", "/ill/title"));

        await SendSignalAsync("KILL");
        Assert.Equal("Ill", await AskAsync("x", "/ill/title"));

        await SendSignalAsync("STOP");
        var hung = AskAsync("x", "/ill/title");
        for (int i = 0; i < 100; i++)
        {
            Assert.Equal("Well", await AskAsync("x", "/well/title"));
        }
        Assert.Equal("Ill", await hung);     // killed when its time is over, and replaced: a GET is asked again

        Assert.Equal(0, (await DoAsync("hold", "ill")).ExitCode);
        using var held = await SendAsync("x", "/ill/title");
        Assert.Equal((HttpStatusCode.ServiceUnavailable, "5"), (held.StatusCode, held.Headers.RetryAfter!.ToString()));
        Assert.Equal("Well", await AskAsync("x", "/well/title"));

        Assert.Equal(0, (await DoAsync("stop", "ill")).ExitCode);
        using var stopped = await SendAsync("x", "/ill/title");
        Assert.Equal(HttpStatusCode.BadGateway, stopped.StatusCode);
        using var nowhere = await SendAsync("x", "/elsewhere");
        Assert.Equal(HttpStatusCode.NotFound, nowhere.StatusCode);
        await WaitForAsync(async () => (await DoAsync("logs", "front")).Output.Contains("ill: ", StringComparison.Ordinal));
    }

    // The kernel would keep megabytes for it, and tell the router of room when a third of them has gone: the application, which waits meanwhile, must not take it for one that has stopped.
    [Fact]
    public async Task A_client_that_reads_slowly_has_all_of_a_large_answer()
    {
        const int Megabytes = 6;
        const int SlowlyAtFirst = 300_000;      // of 15,000 bytes a second: a router hears of room for the first time when 48,000 have gone, or some more on a busy machine
        WriteShared(On("slow", "\"environment\": { \"Millrace__SendTimeout\": \"00:00:08\" }"));
        await StartAsync();
        using var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { ReceiveBufferSize = 32 * 1024, ReceiveTimeout = 20_000 };
        await client.ConnectAsync(IPAddress.Loopback, new Uri(_shop).Port);
        await client.SendAsync(Encoding.ASCII.GetBytes($"GET /long/{Megabytes} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));

        // On a thread of its own, and as much as is due by then: the machine may be busy.
        long read = await Task.Factory.StartNew(
            () =>
            {
                long read = 0;
                byte[] part = new byte[64 * 1024];
                var watch = System.Diagnostics.Stopwatch.StartNew();
                for (int count; (count = client.Receive(part, 0, read < SlowlyAtFirst ? (int)Math.Clamp((watch.ElapsedMilliseconds * 15) - read, 1, part.Length) : part.Length, SocketFlags.None)) > 0; read += count)
                {
                    Thread.Sleep(read < SlowlyAtFirst ? 100 : 0);
                }
                return read;
            },
            TaskCreationOptions.LongRunning);

        Assert.InRange(read, Megabytes << 20, (Megabytes << 20) + 1_000);
    }

    [Fact]
    public async Task WebSockets_pass_at_a_shared_address_that_speaks_HTTP()
    {
        WriteShared(On("chat", "\"path\": \"/chat\""));
        await StartAsync();
        using var limit = new CancellationTokenSource(Patience);
        using var socket = new ClientWebSocket();
        socket.Options.AddSubProtocol("echo");
        await socket.ConnectAsync(new Uri(_shop.Replace("http:", "ws:", StringComparison.Ordinal) + "/chat/talk"), limit.Token);
        Assert.Equal("echo", socket.SubProtocol);

        byte[] buffer = new byte[100_000];
        foreach (int length in (int[])[0, 1, 125, 126, 65_535, 65_536, 100_000])
        {
            byte[] said = [.. Enumerable.Range(0, length).Select(static i => (byte)(i * 7))];
            await socket.SendAsync(said, WebSocketMessageType.Binary, endOfMessage: true, limit.Token);
            int heard = 0;
            for (bool isWhole = false; !isWhole;)
            {
                var part = await socket.ReceiveAsync(buffer.AsMemory(heard), limit.Token);
                heard += part.Count;
                isWhole = part.EndOfMessage;
            }
            Assert.Equal(said, buffer[..heard]);
        }
        await socket.CloseAsync(WebSocketCloseStatus.NormalClosure, "", limit.Token);
        Assert.Equal("said all", socket.CloseStatusDescription);

        // Asked for where there is none: an ordinary answer.
        using var request = new HttpRequestMessage(HttpMethod.Get, _shop + "/chat/title");
        request.Headers.Connection.Add("Upgrade");
        request.Headers.Upgrade.ParseAdd("h2c");
        using var answer = await _client.SendAsync(request);
        Assert.Equal((HttpStatusCode.OK, ""), (answer.StatusCode, await answer.Content.ReadAsStringAsync()));
    }

    // What visitors send is read by a process that may do nothing else.
    [Fact]
    public async Task A_router_runs_as_the_user_that_is_named_and_reaches_what_nobody_else_of_that_user_reaches()
    {
        OpenToAll(_directory.Path);
        WriteShared(On("blog", "\"environment\": { \"TITLE\": \"Blog\" }"));
        System.IO.File.WriteAllText(File, System.IO.File.ReadAllText(File)
            .Replace($"\"front\": \"fastcgi://unix:{Front};{_shop}\"", $"\"front\": {{ \"urls\": \"fastcgi://unix:{Front};{_shop}\", \"user\": \"{(Environment.UserName == "root" ? "nobody" : "root")}\" }}", StringComparison.Ordinal));
        if (Environment.UserName != "root")
        {
            await StartAsync(waitFor: "front: it did not start");
            return;
        }
        string command = CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command");
        bool mayRead = command.Split('/').Where(static part => part.Length > 0).Aggregate((Path: "", May: true), static (at, part) => (at.Path + "/" + part, at.May && IsOpen(at.Path + "/" + part))).May;
        await StartAsync(mayRead ? "front: generation 1 serves" : "front: it did not start");
        await WaitForStatusAsync("blog", "serving");
        if (!mayRead)
        {
            return;     // a clone in root's own folder is nobody else's
        }

        Assert.Equal("Blog", await AskAsync("x", "/title"));
        Assert.Matches(@"(?m)^Uid:\t65534\t65534\t65534\t65534$", await System.IO.File.ReadAllTextAsync($"/proc/{ProcessesOf("front", await StatusAsync()).Single()}/status"));
        int router = ProcessesOf("front", await StatusAsync()).Single();
        string socket = Path.Combine(Path.GetDirectoryName(Control)!, "shared/blog.app.sock");
        Assert.Equal("600 700", $"{ModeOf(socket)} {ModeOf(Path.GetDirectoryName(Control)!)}");
        using var other = System.Diagnostics.Process.Start(new System.Diagnostics.ProcessStartInfo("test", ["-e", socket]) { UserName = "nobody" })!;
        await other.WaitForExitAsync();
        Assert.Equal(1, other.ExitCode);

        // Nor by the router's own descriptor, or environment.
        using var same = System.Diagnostics.Process.Start(new System.Diagnostics.ProcessStartInfo("sh", ["-c", $"ls /proc/{router}/fd/*/blog.app.sock || cat /proc/{router}/environ"]) { UserName = "nobody", RedirectStandardError = true, RedirectStandardOutput = true })!;
        string seen = await same.StandardOutput.ReadToEndAsync();
        await same.WaitForExitAsync();
        Assert.Equal("", seen);
        Assert.NotEqual(0, same.ExitCode);

        // Nor while it starts, when such a process lies in wait for it.
        const string Spy = "while :; do for p in /proc/[0-9]*; do if [ -O $p ] && [ $p != /proc/$$ ] && [ $p != /proc/$PPID ] && { while read -r -d '' v; do case $v in MILLRACE_ROUT*) echo $v;; esac; done < $p/environ; } 2>/dev/null; then :; fi; done; done";
        using var spy = System.Diagnostics.Process.Start(new System.Diagnostics.ProcessStartInfo("bash", ["-c", Spy]) { UserName = "nobody", RedirectStandardError = true, RedirectStandardOutput = true })!;
        for (int i = 0; i < 3; i++)
        {
            int before = ProcessesOf("front", await StatusAsync()).Single();
            System.Diagnostics.Process.GetProcessById(before).Kill();
            await WaitForAsync(async () => ProcessesOf("front", await StatusAsync()).Any(process => process != before) && (await SendAsync("x", "/title")).StatusCode == HttpStatusCode.OK);
        }
        Assert.False(spy.HasExited);
        spy.Kill();
        Assert.Equal("", await spy.StandardOutput.ReadToEndAsync());

        // Stopped and started, its socket is another, and is found all the same.
        Assert.Equal(0, (await DoAsync("stop", "blog")).ExitCode);
        Assert.Equal(0, (await DoAsync("start", "blog")).ExitCode);
        Assert.Equal("Blog", await AskAsync("x", "/title"));
    }

    private async Task SendSignalAsync(string signal)
    {
        using var kill = System.Diagnostics.Process.Start("kill", ["-" + signal, .. ProcessesOf("ill", await StatusAsync()).Select(static process => process.ToString(CultureInfo.InvariantCulture))]);
        await kill.WaitForExitAsync();
    }

    private async Task<string> AskAsync(string host, string path)
    {
        using var answer = await SendAsync(host, path);
        Assert.Equal(HttpStatusCode.OK, answer.StatusCode);
        return await answer.Content.ReadAsStringAsync();
    }

    private async Task<HttpResponseMessage> SendAsync(string host, string path)
    {
        using var request = new HttpRequestMessage(HttpMethod.Get, _shop + path);
        request.Headers.Host = host;
        return await _client.SendAsync(request);
    }

    private static string On(string name, params string[] more) => App(name, "", ["\"on\": \"front\"", .. more]).Replace("\"urls\": \"\", ", "", StringComparison.Ordinal);

    private void WriteShared(params string[] apps)
    {
        Write(apps);
        string shared = $"\"shared\": {{ \"front\": \"fastcgi://unix:{Front};{_shop}\" }}, \"apps\"";
        System.IO.File.WriteAllText(File, System.IO.File.ReadAllText(File).Replace("\"apps\"", shared, StringComparison.Ordinal));
    }
}
