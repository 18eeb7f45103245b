// The daemon becomes another program: its applications do not notice, nor do their visitors, and it knows all that it knew.

using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text.Json;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    private const string Upgraded = @"^the daemon is Millrace \S+ now, and was \S+; process [0-9]+ and [0-9]+ of its applications' go on\n$";

    // Each connection is kept over all of it; a close, a refusal or a wrong answer ends the test.
    [Fact]
    public async Task Upgrades_under_load_lose_no_request_close_no_connection_and_touch_no_process()
    {
        const int Upgrades = 2;
        Write(App("shop", $"fastcgi://unix:{Socket};{_shop}", "\"instances\": 2"));
        var daemon = await StartAsync();
        using var stop = new CancellationTokenSource();
        var clients = Enumerable.Range(0, 4).Select(i => Task.Run(() => i % 2 == 0 ? AskOverHttpAsync(i, stop.Token) : AskOverFastCgiAsync(i, stop.Token))).ToArray();

        int[] before = [.. ProcessesOf("shop", await StatusAsync())];
        for (int i = 1; i <= Upgrades; i++)
        {
            await UpgradeAsync();
            Assert.Equal(before, ProcessesOf("shop", await StatusAsync()));
        }
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("reload", "shop"));
        await UpgradeAsync();
        await stop.CancelAsync();
        int[] asked = await Task.WhenAll(clients);

        Assert.All(asked, static count => Assert.InRange(count, 10, int.MaxValue));
        string status = await StatusAsync();
        Assert.Equal((daemon.Id, Upgrades + 1), (JsonDocument.Parse(status).RootElement.GetProperty("process").GetInt32(), JsonDocument.Parse(status).RootElement.GetProperty("upgrades").GetInt32()));
        Assert.Equal(("serving", 2), (AppOf("shop", status).GetProperty("state").GetString(), AppOf("shop", status).GetProperty("generation").GetInt32()));
        Assert.DoesNotContain(before, process => Directory.Exists($"/proc/{process}"));

        int[] processes = [.. ProcessesOf("shop", status)];
        Assert.All(processes, static process => Assert.Contains("\nSigBlk:\t0000000000000000\n", System.IO.File.ReadAllText($"/proc/{process}/status"), StringComparison.Ordinal));
        await EndAsync(daemon, processes);
    }

    [Fact]
    public async Task An_upgrade_that_waits_for_a_start_keeps_nobody_from_another_application()
    {
        Write(App("shop", _shop, """ "environment": { "FAULT": "ill" } """).Replace("\"start\": \"3s\"", "\"start\": \"60s\"", StringComparison.Ordinal), App("blog", _blog));
        await StartAsync(waitFor: "blog: generation 1 serves");
        var upgrade = DoAsync("upgrade");
        await Task.Delay(2_000);
        Assert.Equal((0, "blog: serving\n", ""), await DoAsync("restart", "blog").WaitAsync(TimeSpan.FromSeconds(20)));
        Assert.False(upgrade.IsCompleted);

        Assert.Equal((0, "shop: stopped\n", ""), await DoAsync("stop", "shop"));
        Assert.Matches(Upgraded, (await upgrade).Output);
    }

    [Fact]
    public async Task An_upgrade_does_not_wait_for_a_process_that_was_told_to_accept_and_does_not_answer()
    {
        string mark = Path.Combine(_directory.Path, "stands");
        Write(App("shop", _shop, $$""" "environment": { "STANDS_WHILE": "{{mark}}" } """).Replace("\"60s\"", "\"10m\"", StringComparison.Ordinal), App("blog", _blog));
        var daemon = await StartAsync();
        await System.IO.File.WriteAllTextAsync(mark, "");
        Kill(ProcessesOf("shop", await StatusAsync()).First());
        await WaitForAsync(() => Task.FromResult(ChildrenOf(daemon.Id).Any(StandsStill)));
        await Task.Delay(1_000);        // its answer is read, and it is told
        int standing = ChildrenOf(daemon.Id).Single(StandsStill);
        System.IO.File.Delete(mark);

        var upgrade = UpgradeAsync();
        Assert.Equal("", await _client.GetStringAsync(_blog + "/title"));
        await upgrade.WaitAsync(TimeSpan.FromSeconds(30));
        await WaitForAsync(async () => ProcessesOf("shop", await StatusAsync()).Any());
        Assert.Equal("", await _client.GetStringAsync(_shop + "/title"));
        Assert.True(HasEnded(standing));
    }

    // Nobody gets in there any more, whoever has the socket: it is opened anew for the next process, and not before.
    [Fact]
    public async Task What_an_application_has_shut_down_keeps_nobody_from_an_upgrade_nor_a_process_from_going_on()
    {
        string second = FreeAddress();
        Write(App("shop", $"{second};{_blog}", """ "environment": { "TITLE": "A shop" } """), App("other", _shop));
        await StartAsync();
        int[] before = [.. ProcessesOf("shop", await StatusAsync())];
        await ShutAsync(second[(second.LastIndexOf(':') + 1)..]);

        await UpgradeAsync();

        Assert.Equal("", await TitleAsync(_shop));
        Assert.Equal("A shop", await TitleAsync(_blog));
        Assert.Equal(before, ProcessesOf("shop", await StatusAsync()));
        await Assert.ThrowsAsync<HttpRequestException>(() => TitleAsync(second));
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("reload", "shop"));
        Assert.Equal("A shop", await TitleAsync(second));
    }

    [Fact]
    public async Task A_process_that_crashes_behind_an_upgrade_is_replaced_and_its_reason_known()
    {
        Write(App("shop", _shop));
        var daemon = await StartAsync();
        await UpgradeAsync();
        int first = int.Parse(await _client.GetStringAsync(_shop + "/process"), CultureInfo.InvariantCulture);
        using (var process = System.Diagnostics.Process.GetProcessById(first))
        {
            process.Kill();
        }
        await WaitForAsync(async () => AppOf("shop", await StatusAsync()).GetProperty("restarts").GetInt32() == 1);
        Assert.Contains($"process {first} was ended by signal 9", await StatusAsync(), StringComparison.Ordinal);
        Assert.NotEqual(first, int.Parse(await _client.GetStringAsync(_shop + "/process"), CultureInfo.InvariantCulture));

        await UpgradeAsync();
        using var ill = await _client.PostAsync(_shop + "/sicken", null);
        await WaitForAsync(async () => (await StatusAsync()).Contains("was killed: /health was without a right answer for 5 s", StringComparison.Ordinal));
        await WaitForAsync(async () => AppOf("shop", await StatusAsync()).GetProperty("restarts").GetInt32() == 2);
    }

    [Fact]
    public async Task What_somebody_has_had_done_to_applications_is_so_behind_an_upgrade()
    {
        string demand = FreeAddress(), page = Path.Combine(_directory.Path, "page.html"), ill = FreeAddress(), queue = FreeAddress();
        await System.IO.File.WriteAllTextAsync(page, "<p>until noon</p>");
        Write(
            App("shop", _shop), App("blog", _blog), App("stopped", FreeAddress()), App("demand", demand, "\"onDemand\": true", "\"idle\": \"1s\""),
            App("broken", ill, """ "environment": { "FAULT": "ends" } """), App("queue", queue));
        var daemon = await StartAsync(waitFor: "broken: it did not start");
        foreach (string app in (string[])["shop", "blog", "stopped", "queue"])
        {
            await WaitForStatusAsync(app, "serving");
        }
        using var kept = new Socket(SocketType.Stream, ProtocolType.Tcp);
        await kept.ConnectAsync(IPEndPoint.Parse(demand["http://".Length..]));
        await using var stream = new NetworkStream(kept);
        using var reader = new StreamReader(stream);
        string before = await PostAsync(stream, reader, "GET /process");
        Assert.Equal(0, (await DoAsync("scale", "shop", "2")).ExitCode);
        Assert.Equal(0, (await DoAsync("hold", "blog", "--page", page)).ExitCode);
        Assert.Equal(0, (await DoAsync("stop", "stopped")).ExitCode);
        Assert.Equal(0, (await DoAsync("hold", "queue", "--queue", "1m")).ExitCode);
        var waits = _client.GetStringAsync(queue + "/title");
        await WaitForStatusAsync("demand", "idle");
        int[] processes = [.. ProcessesOf("shop", await StatusAsync())];
        string[] states = StatesOf(await StatusAsync());

        await UpgradeAsync();

        string status = await StatusAsync();
        Assert.Equal(states, StatesOf(status));
        Assert.Equal(processes, ProcessesOf("shop", status));
        using (var held = await _client.GetAsync(_blog + "/"))
        {
            Assert.Equal((HttpStatusCode.ServiceUnavailable, "<p>until noon</p>"), (held.StatusCode, await held.Content.ReadAsStringAsync()));
        }
        Assert.NotEqual(before, await PostAsync(stream, reader, "GET /process"));       // over a connection that nobody has closed
        Assert.Contains("somebody has come", await StatusAsync(), StringComparison.Ordinal);
        Assert.Equal((0, "queue: serving\n", ""), await DoAsync("release", "queue"));
        Assert.Equal("", await waits);
        Assert.Equal((0, "blog: serving\n", ""), await DoAsync("release", "blog"));
        Assert.Equal((0, "stopped: serving\n", ""), await DoAsync("start", "stopped"));
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("reload", "shop"));
        Assert.Equal(2, ProcessesOf("shop", await StatusAsync()).Count());
        await WaitForAsync(async () => AppOf("broken", await StatusAsync()).GetProperty("events").EnumerateArray().Count(static its => its.GetProperty("what").GetString()!.StartsWith("it did not start", StringComparison.Ordinal)) >= 2);
    }

    [Fact]
    public async Task What_applications_print_is_printed_and_kept_over_upgrades_and_followed()
    {
        Write(App("shop", _shop));
        var daemon = await StartAsync();
        using var _1 = await _client.PostAsync(_shop + "/print", new StringContent("before"));
        await daemon.WaitForOutputAsync("shop | before");
        await using var follower = CommandProcess.Millrace("logs", "shop", "-f", "--control", Control);
        await follower.WaitForOutputAsync("before");
        await UpgradeAsync();
        using var _2 = await _client.PostAsync(_shop + "/print", new StringContent("behind"));
        await daemon.WaitForOutputAsync("shop | behind");
        await follower.WaitForOutputAsync("behind");
        string[] lines = [.. (await DoAsync("logs", "shop", "-n", "500")).Output.Split('\n').Where(static line => line is "before" or "behind")];
        Assert.Equal(["before", "behind"], lines);
    }

    // What is asked for while something else is under way is done, by the one program or by the other.
    [Fact]
    public async Task What_is_under_way_ends_first_and_what_is_asked_meanwhile_is_done_by_the_other_program()
    {
        Write(App("shop", _shop, "\"warmUp\": [\"/title\"]").Replace("100ms", "5s", StringComparison.Ordinal), App("blog", _blog));
        await StartAsync();
        var reload = DoAsync("reload", "shop");
        await WaitForStatusAsync("shop", "deploying");
        var upgrade = DoAsync("upgrade");
        await Task.Delay(2_500);        // it has begun to wait
        var others = Enumerable.Range(0, 4).Select(i => DoAsync("reload", i % 2 == 0 ? "shop" : "blog")).ToArray();

        Assert.Equal((0, "shop: serving\n", ""), await reload);
        Assert.Matches(Upgraded, (await upgrade).Output);
        Assert.All(await Task.WhenAll(others), static other => Assert.Equal((0, ""), (other.ExitCode, other.Error)));
        string status = await StatusAsync();
        Assert.Equal((4, 3), (AppOf("shop", status).GetProperty("generation").GetInt32(), AppOf("blog", status).GetProperty("generation").GetInt32()));
    }

    [Fact]
    public async Task A_program_that_cannot_take_over_is_not_tried_and_the_daemon_goes_on()
    {
        string installed = Path.Combine(_directory.Path, "installed");
        CopyFolder(Path.GetDirectoryName(CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command"))!, installed);
        string assembly = Path.Combine(installed, "Millrace.Command.dll"), aside = assembly + ".aside";
        Write(App("shop", _shop));
        var daemon = CommandProcess.Start(assembly, "serve", File);
        _daemons.Add(daemon);
        await daemon.WaitForErrorAsync("millrace: serving ");
        await WaitForStatusAsync("shop", "serving");
        string process = await _client.GetStringAsync(_shop + "/process");

        System.IO.File.Move(assembly, aside);
        await RefusedAsync("cannot be started|cannot take over");
        System.IO.File.Copy(HostKinds, assembly);
        await RefusedAsync("cannot take over");
        await System.IO.File.WriteAllTextAsync(assembly, "half copied");
        await RefusedAsync("cannot take over");

        Assert.Equal(process, await _client.GetStringAsync(_shop + "/process"));
        System.IO.File.Move(aside, assembly, overwrite: true);
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("reload", "shop"));
        await UpgradeAsync();
        Assert.NotEqual(process, await _client.GetStringAsync(_shop + "/process"));
    }

    private async Task RefusedAsync(string reason)
    {
        var (exitCode, output, error) = await DoAsync("upgrade");
        Assert.Equal((1, ""), (exitCode, output));
        Assert.Matches(reason, error);
    }

    // It has said that it can take over. What holds the upgrade up from there on is an application that does not start, until somebody stops it.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_program_that_cannot_be_run_or_ends_at_once_when_it_is_to_take_over_costs_no_request(bool isRun)
    {
        string installed = Path.Combine(_directory.Path, "installed"), assembly = Path.Combine(installed, "Millrace.Command.dll"), dotnet = Path.Combine(installed, "dotnet");
        CopyFolder(Path.GetDirectoryName(CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command"))!, installed);
        System.IO.File.CreateSymbolicLink(dotnet, DotNet);
        Write(App("shop", $"fastcgi://unix:{Socket};{_shop}"), App("blog", _blog, """ "environment": { "FAULT": "ill" } """).Replace("\"3s\"", "\"60s\"", StringComparison.Ordinal));
        var daemon = CommandProcess.StartProgram(dotnet, assembly, "serve", File);
        _daemons.Add(daemon);
        await daemon.WaitForErrorAsync("millrace: serving ");
        await WaitForStatusAsync("shop", "serving");
        await WaitForStatusAsync("blog", "starting");
        using var stop = new CancellationTokenSource();
        var clients = Enumerable.Range(0, 2).Select(i => Task.Run(() => i % 2 == 0 ? AskOverHttpAsync(i, stop.Token) : AskOverFastCgiAsync(i, stop.Token))).ToArray();
        int[] processes = [.. ProcessesOf("shop", await StatusAsync())];

        var upgrade = DoAsync("upgrade");
        int probe = 0;
        await WaitForAsync(() => Task.FromResult((probe = ChildrenOf(daemon.Id).FirstOrDefault(static child => CommandLineOf(child).Contains("takeover", StringComparison.Ordinal))) != 0));
        await WaitForAsync(() => Task.FromResult(HasEnded(probe)));
        string gone = isRun ? assembly : dotnet;
        System.IO.File.Move(gone, gone + ".aside");
        var stopped = DoAsync("stop", "blog");
        if (isRun)
        {
            Assert.NotEqual(0, await daemon.WaitForExitAsync());
            _ = await upgrade;
            _ = await stopped;
            await Task.Delay(300);      // visitors are served meanwhile
            daemon = CommandProcess.Millrace("serve", File);
            _daemons.Add(daemon);
            await daemon.WaitForErrorAsync("shop: 1 process of the daemon before this one goes on");
            await WaitForStatusAsync("shop", "serving");
        }
        else
        {
            Assert.Matches("^millrace: .*/installed/dotnet cannot be run: ", (await upgrade).Error);
            Assert.Equal((0, "blog: stopped\n", ""), await stopped);
        }
        System.IO.File.Move(gone + ".aside", gone);

        Assert.Equal(processes, ProcessesOf("shop", await StatusAsync()));
        if (!isRun)
        {
            await UpgradeAsync();       // this time it comes about
        }
        await stop.CancelAsync();
        Assert.All(await Task.WhenAll(clients), static count => Assert.InRange(count, 10, int.MaxValue));
    }

    private async Task UpgradeAsync()
    {
        var (exitCode, output, error) = await DoAsync("upgrade");
        Assert.Equal((0, ""), (exitCode, error));
        Assert.Matches(Upgraded, output);
    }

    private static bool StandsStill(int process) => RunStateOf(process) == 'T';

    // The one that `dotnet` means, whatever links lead to it.
    private static string DotNet =>
        (Environment.GetEnvironmentVariable("PATH") ?? "").Split(':').Select(static folder => new FileInfo(Path.Combine(folder, "dotnet"))).First(static file => file.Exists) is var file
            ? file.ResolveLinkTarget(returnFinalTarget: true)?.FullName ?? file.FullName
            : "";

    // One that does not start is tried again and again: which of the two it is depends on the moment.
    private static string[] StatesOf(string status) =>
        [.. JsonDocument.Parse(status).RootElement.GetProperty("apps").EnumerateArray().Select(static app => $"{app.GetProperty("name")} {app.GetProperty("state").GetString()!.Replace("starting", "waiting", StringComparison.Ordinal)} {app.GetProperty("generation")} {app.GetProperty("reason")}")];

    private static void CopyFolder(string from, string to)
    {
        Directory.CreateDirectory(to);
        foreach (string folder in Directory.GetDirectories(from))
        {
            CopyFolder(folder, Path.Combine(to, Path.GetFileName(folder)));
        }
        foreach (string file in Directory.GetFiles(from))
        {
            System.IO.File.Copy(file, Path.Combine(to, Path.GetFileName(file)));
        }
    }
}
