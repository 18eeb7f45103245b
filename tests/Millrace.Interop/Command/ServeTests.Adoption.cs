// The daemon is killed, and another one is started in its place: applications serve all the time, and their processes are the other one's from then on.

using System.Globalization;
using System.Net;
using System.Text.Json;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    // Each connection is kept over all of it; a close, a refusal or a wrong answer ends the test.
    [Fact]
    public async Task A_daemon_that_is_killed_and_started_again_loses_no_request_closes_no_connection_and_has_its_processes_back()
    {
        const int Kills = 1;
        Write(App("shop", $"fastcgi://unix:{Socket};{_shop}", "\"instances\": 2"));
        var daemon = await StartAsync();
        using var stop = new CancellationTokenSource();
        var clients = Enumerable.Range(0, 4).Select(i => Task.Run(() => i % 2 == 0 ? AskOverHttpAsync(i, stop.Token) : AskOverFastCgiAsync(i, stop.Token))).ToArray();

        int[] processes = [.. ProcessesOf("shop", await StatusAsync())];
        for (int i = 1; i <= Kills; i++)
        {
            daemon = await KillAndStartAsync(daemon);
            Assert.Equal(processes, ProcessesOf("shop", await StatusAsync()));
        }
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("reload", "shop"));
        await UpgradeAsync();
        daemon = await KillAndStartAsync(daemon);
        await stop.CancelAsync();
        int[] asked = await Task.WhenAll(clients);

        Assert.All(asked, static count => Assert.InRange(count, 10, int.MaxValue));
        string status = await StatusAsync();
        Assert.Equal(("serving", 2), (AppOf("shop", status).GetProperty("state").GetString(), AppOf("shop", status).GetProperty("generation").GetInt32()));
        await WaitForAsync(() => Task.FromResult(processes.All(HasEnded)));

        processes = [.. ProcessesOf("shop", status)];
        Assert.Equal(2, processes.Length);
        await EndAsync(daemon, processes);
    }

    [Fact]
    public async Task What_applications_print_while_there_is_no_daemon_blocks_and_breaks_nothing_and_its_end_is_the_next_daemons()
    {
        Write(App("shop", _shop));
        var daemon = await StartAsync();
        string process = await _client.GetStringAsync(_shop + "/process");
        daemon.Signal(CommandProcess.SigKill);
        await daemon.WaitForExitAsync();
        for (int i = 0; i < 40; i++)
        {
            using var printed = await _client.PostAsync(_shop + "/print", new StringContent(string.Create(CultureInfo.InvariantCulture, $"{i} {new string('x', 8_000)}")));      // a pipe holds 8 of them
            Assert.Equal(HttpStatusCode.OK, printed.StatusCode);
        }
        using var last = await _client.PostAsync(_shop + "/print", new StringContent("the last"));

        daemon = await StartAsync();
        await daemon.WaitForOutputAsync("shop | the last");
        using var _1 = await _client.PostAsync(_shop + "/print", new StringContent("behind"));
        await daemon.WaitForOutputAsync("shop | behind");
        Assert.Equal(process, await _client.GetStringAsync(_shop + "/process"));
        int adopted = int.Parse(process, CultureInfo.InvariantCulture);
        using (var its = System.Diagnostics.Process.GetProcessById(adopted))
        {
            its.Kill();
        }
        await WaitForAsync(async () => AppOf("shop", await StatusAsync()).GetProperty("restarts").GetInt32() == 1);
        Assert.Contains($"process {adopted} ended", await StatusAsync(), StringComparison.Ordinal);
        Assert.NotEqual(process, await _client.GetStringAsync(_shop + "/process"));
    }

    [Fact]
    public async Task What_the_file_says_by_then_is_deployed_and_what_is_not_in_it_any_more_is_drained()
    {
        string stopped = FreeAddress(), held = FreeAddress();
        Write(App("shop", _shop, """ "environment": { "TITLE": "old" } """), App("blog", _blog), App("stopped", stopped), App("held", held));
        var daemon = await StartAsync();
        Assert.Equal(0, (await DoAsync("stop", "stopped")).ExitCode);
        Assert.Equal(0, (await DoAsync("hold", "held")).ExitCode);
        int blog = ProcessesOf("blog", await StatusAsync()).Single();
        using var stop = new CancellationTokenSource();
        var client = Task.Run(() => AskOverHttpAsync(0, stop.Token));
        daemon.Signal(CommandProcess.SigKill);
        await daemon.WaitForExitAsync();

        Write(App("shop", _shop, """ "environment": { "TITLE": "new" } """), App("stopped", stopped), App("held", held));
        daemon = CommandProcess.Millrace("serve", File);
        _daemons.Add(daemon);
        await daemon.WaitForErrorAsync("1 of 3 applications deployed, 1 taken away");
        await WaitForAsync(() => Task.FromResult(HasEnded(blog)));
        Assert.Equal("new", await _client.GetStringAsync(_shop + "/title"));
        await stop.CancelAsync();
        Assert.InRange(await client, 10, int.MaxValue);
        Assert.Equal(["shop serving", "stopped stopped", "held held"], StatesOf(await StatusAsync()).Select(static state => string.Join(' ', state.Split(' ')[..2])));
        Assert.Equal(HttpStatusCode.ServiceUnavailable, (await _client.GetAsync(held + "/title")).StatusCode);
        await Assert.ThrowsAsync<HttpRequestException>(() => _client.GetAsync(stopped + "/title"));
    }

    // As a container engine or systemd does it that does not wait for long.
    [Fact]
    public async Task What_a_daemon_that_was_to_end_has_stopped_serves_again_when_it_was_killed_before_it_had_ended()
    {
        Write(App("shop", _shop), App("blog", _blog));
        var daemon = await StartAsync();
        int blog = ProcessesOf("blog", await StatusAsync()).Single();
        using var upload = await BeginUploadAsync();
        daemon.Signal(CommandProcess.SigTerm);
        await WaitForAsync(() => Task.FromResult(HasEnded(blog)));
        daemon.Signal(CommandProcess.SigKill);
        await daemon.WaitForExitAsync();

        await StartAsync(waitFor: "serves in its place");
        await WaitForAsync(async () => StatesOf(await StatusAsync()).All(static state => state.Contains("serving", StringComparison.Ordinal)));
        Assert.Equal("", await _client.GetStringAsync(_shop + "/title"));
        Assert.Equal("", await _client.GetStringAsync(_blog + "/title"));
    }

    [Fact]
    public async Task What_a_daemon_that_was_to_end_has_closed_is_open_again_when_it_was_killed_before_it_had_ended()
    {
        Write(App("shop", $"http://unix:{Socket}"));
        var daemon = await StartAsync();
        using var upload = await AskAsync("POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nbegun");
        await Task.Delay(500);
        daemon.Signal(CommandProcess.SigTerm);
        await WaitForAsync(() => Task.FromResult(!System.IO.File.Exists(Socket)));
        await Task.Delay(500);
        daemon.Signal(CommandProcess.SigKill);
        await daemon.WaitForExitAsync();

        await StartAsync();
        await WaitForAsync(() => Task.FromResult(System.IO.File.Exists(Socket)));
        await WaitForAsync(async () => StatesOf(await StatusAsync()).All(static state => state.Contains("serving", StringComparison.Ordinal)));
        using var visitor = await AskAsync("GET /title HTTP/1.1\r\nHost: a\r\n\r\n");
        byte[] room = new byte[12];
        Assert.Equal("HTTP/1.1 200", System.Text.Encoding.ASCII.GetString(room, 0, await visitor.ReceiveAsync(room).WaitAsync(Patience)));

        async Task<System.Net.Sockets.Socket> AskAsync(string request)
        {
            var socket = new System.Net.Sockets.Socket(System.Net.Sockets.AddressFamily.Unix, System.Net.Sockets.SocketType.Stream, System.Net.Sockets.ProtocolType.Unspecified);
            await socket.ConnectAsync(new System.Net.Sockets.UnixDomainSocketEndPoint(Socket));
            await socket.SendAsync(System.Text.Encoding.ASCII.GetBytes(request));
            return socket;
        }
    }

    [Fact]
    public async Task A_daemon_that_is_told_to_end_while_it_takes_processes_over_ends_them_and_itself()
    {
        Write(App("shop", _shop), App("blog", _blog));
        var daemon = await StartAsync();
        int[] processes = [.. ProcessesOf("shop", await StatusAsync()), .. ProcessesOf("blog", await StatusAsync())];
        daemon.Signal(CommandProcess.SigKill);
        await daemon.WaitForExitAsync();
        Assert.Equal(0, Kill(processes[0], SigStop));       // it does not answer, and is waited for

        daemon = CommandProcess.Millrace("serve", File);
        _daemons.Add(daemon);
        await Task.Delay(4_000);        // of five
        daemon.Signal(CommandProcess.SigTerm);

        Assert.Equal(0, await daemon.WaitForExitAsync());
        Assert.All(processes, static process => Assert.True(HasEnded(process)));
    }

    [Fact]
    public async Task A_process_that_does_not_answer_the_next_daemon_is_ended_and_replaced_and_one_that_was_on_its_way_ends_by_itself()
    {
        Write(App("shop", _shop, "\"instances\": 2"), App("blog", _blog));
        var daemon = await StartAsync();
        int[] shop = [.. ProcessesOf("shop", await StatusAsync())];
        Write(App("shop", _shop, "\"instances\": 2"), App("blog", _blog, """ "environment": { "FAULT": "ill" } """).Replace("\"start\": \"3s\"", "\"start\": \"20s\"", StringComparison.Ordinal));
        var reload = DoAsync("reload");
        string channel = Path.Combine(Path.GetDirectoryName(Control)!, "blog-2-1.channel");
        await WaitForAsync(() => Task.FromResult(System.IO.File.Exists(channel)));
        await Task.Delay(500);
        int onItsWay = ChildrenOf(daemon.Id).Except(shop).Except(ProcessesOf("blog", await StatusAsync())).Single();
        daemon.Signal(CommandProcess.SigKill);
        await daemon.WaitForExitAsync();
        await reload;
        await WaitForAsync(() => Task.FromResult(HasEnded(onItsWay)));
        Assert.Equal(0, Kill(shop[0], SigStop));

        Write(App("shop", _shop, "\"instances\": 2"), App("blog", _blog));
        await StartAsync(waitFor: "serves in its place");
        Assert.True(HasEnded(shop[0]));
        int[] now = [.. ProcessesOf("shop", await StatusAsync())];
        Assert.Equal(2, now.Length);
        Assert.Contains(shop[1], now);
    }

    [Fact]
    public async Task A_process_that_has_got_the_number_of_another_is_left_alone()
    {
        Write(App("shop", _shop));
        var daemon = await StartAsync();
        int process = ProcessesOf("shop", await StatusAsync()).Single();
        daemon.Signal(CommandProcess.SigKill);
        await daemon.WaitForExitAsync();
        Assert.Equal(0, Kill(process, CommandProcess.SigKill));
        await using var stranger = CommandProcess.StartProgram("sleep", "600");
        string state = Directory.GetFiles(Path.GetDirectoryName(Control)!, "state-*.json").Single();
        await System.IO.File.WriteAllTextAsync(state, (await System.IO.File.ReadAllTextAsync(state)).Replace($"\"process\":{process}", $"\"process\":{stranger.Id}", StringComparison.Ordinal));

        await StartAsync();
        Assert.True(Directory.Exists($"/proc/{stranger.Id}"));
        Assert.NotEqual(stranger.Id, ProcessesOf("shop", await StatusAsync()).Single());
    }

    [Fact]
    public async Task Processes_of_a_daemon_whose_state_is_not_understood_are_ended_and_others_started()
    {
        Write(App("shop", $"fastcgi://unix:{Socket};{_shop}"));
        var daemon = await StartAsync();
        int process = ProcessesOf("shop", await StatusAsync()).Single();
        daemon.Signal(CommandProcess.SigKill);
        await daemon.WaitForExitAsync();
        string state = Directory.GetFiles(Path.GetDirectoryName(Control)!, "state-*.json").Single();
        await System.IO.File.WriteAllTextAsync(state, (await System.IO.File.ReadAllTextAsync(state)).Replace("\"version\":1,", "\"version\":1000,", StringComparison.Ordinal));

        daemon = await StartAsync();
        Assert.Contains($"process {process} of the daemon before this one is ended: what that has written down is not understood", daemon.Error, StringComparison.Ordinal);
        Assert.True(HasEnded(process));
        Assert.Equal(HttpStatusCode.OK, (await _client.GetAsync(_shop + "/health")).StatusCode);
    }

    // Were they to reach the socket at all: its folder is the daemon's alone.
    [Fact]
    public async Task No_other_user_gets_what_a_process_has_of_its_daemon()
    {
        Assert.SkipUnless(Environment.UserName == "root", "only root can ask as another user");
        Write(App("shop", _shop));
        await StartAsync();
        if (OperatingSystem.IsLinux())
        {
            await AskAsStrangerAsync();
        }
        Assert.Equal(HttpStatusCode.OK, (await _client.GetAsync(_shop + "/health")).StatusCode);
    }

    [System.Runtime.Versioning.SupportedOSPlatform("linux")]
    private async Task AskAsStrangerAsync()
    {
        string folder = Path.GetDirectoryName(Control)!;
        string channel = Path.Combine(folder, "shop-1-1.channel");
        Assert.Equal(UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute, System.IO.File.GetUnixFileMode(folder));
        Assert.Equal(UnixFileMode.UserRead | UnixFileMode.UserWrite, System.IO.File.GetUnixFileMode(channel));
        OpenToAll(_directory.Path);
        System.IO.File.SetUnixFileMode(folder, (UnixFileMode)0x1FF);
        System.IO.File.SetUnixFileMode(channel, (UnixFileMode)0x1FF);

        const string ask = "use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0) or die; connect(S, sockaddr_un($ARGV[0])) or die \"$!\"; syswrite(S, \"$ARGV[1]\\n\"); sysread(S, $_, 99); print";
        foreach (string what in (string[])["give", "keep"])
        {
            await using var stranger = CommandProcess.StartProgram("setpriv", "--reuid=65534", "--clear-groups", "perl", "-e", ask, channel, what);
            Assert.Equal((0, $"! '{what}' is nothing that this application knows\n"), (await stranger.WaitForExitAsync(), stranger.Output));
        }
    }

    private async Task<CommandProcess> KillAndStartAsync(CommandProcess daemon)
    {
        daemon.Signal(CommandProcess.SigKill);
        await daemon.WaitForExitAsync();
        await Task.Delay(300);      // visitors are served meanwhile
        return await StartAsync();
    }

    // Whoever has become its parent when the daemon was killed may take its time to look after it.
    private static bool HasEnded(int process) => RunStateOf(process) is null or 'Z';

    // proc_pid_stat(5): null where there is none.
    private static char? RunStateOf(int process) => TextOf(process, "stat") is { Length: > 0 } stat ? stat[stat.LastIndexOf(')') + 2] : null;

    private static IEnumerable<int> ChildrenOf(int process) => Directory.GetDirectories("/proc").Select(static folder => Path.GetFileName(folder)).Where(static name => char.IsAsciiDigit(name[0]))
        .Select(static name => int.Parse(name, CultureInfo.InvariantCulture))
        .Where(each => TextOf(each, "stat") is { Length: > 0 } stat && stat[(stat.LastIndexOf(')') + 2)..].Split(' ')[1] == process.ToString(CultureInfo.InvariantCulture));

    private static string CommandLineOf(int process) => TextOf(process, "cmdline").Replace('\0', ' ');

    // Empty where it has ended meanwhile.
    private static string TextOf(int process, string what)
    {
        try
        {
            return System.IO.File.ReadAllText($"/proc/{process}/{what}");
        }
        catch (IOException)
        {
            return "";
        }
    }

    [System.Runtime.InteropServices.LibraryImport("libc", EntryPoint = "kill")]
    private static partial int Kill(int process, int signal);
}
