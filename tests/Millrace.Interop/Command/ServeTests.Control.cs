// What somebody has done with an application of a running daemon: hold, release, stop, start, restart.

using System.Globalization;
using System.Net;
using System.Text.Json;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_start_that_hangs_is_not_waited_for_where_the_file_has_been_mended_or_by_a_restart(bool restarts)
    {
        Write(App("shop", _shop, """ "environment": { "TITLE": "1" } """));
        await StartAsync();
        Write(App("shop", _shop, """ "environment": { "TITLE": "2", "FAULT": "ill" } """).Replace("\"start\": \"3s\"", "\"start\": \"60s\"", StringComparison.Ordinal));
        var hangs = DoAsync("reload");
        await WaitForStatusAsync("shop", "deploying");
        await Task.Delay(1_000);
        if (restarts)
        {
            _ = DoAsync("restart", "shop");
            Assert.Equal((1, "", "millrace: shop: somebody has had it stopped, held or begun anew meanwhile\n"), await hangs.WaitAsync(TimeSpan.FromSeconds(20)));
        }
        Write(App("shop", _shop, """ "environment": { "TITLE": "3" } """));
        Assert.Equal((0, $"{File}: 1 of 1 applications deployed, 0 taken away\n", ""), await DoAsync("reload").WaitAsync(TimeSpan.FromSeconds(20)));
        Assert.Equal((1, "", "millrace: shop: somebody has had it stopped, held or begun anew meanwhile\n"), await hangs);
        Assert.Equal("3", await _client.GetStringAsync(_shop + "/title"));
    }

    // 5 of 100 bytes: the request is in progress until somebody sends the others.
    private async Task<System.Net.Sockets.TcpClient> BeginUploadAsync()
    {
        var upload = new System.Net.Sockets.TcpClient();
        await upload.ConnectAsync(IPEndPoint.Parse(_shop["http://".Length..]));
        await upload.GetStream().WriteAsync("POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nbegun"u8.ToArray());
        await Task.Delay(500);
        return upload;
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Nobody_waits_for_an_application_that_is_being_stopped(bool endsDaemon)
    {
        Write(App("shop", _shop));
        var daemon = await StartAsync();
        using var upload = await BeginUploadAsync();
        Task<int> stopped;
        if (endsDaemon)
        {
            daemon.Signal(CommandProcess.SigTerm);
            stopped = daemon.WaitForExitAsync();
        }
        else
        {
            stopped = ExitCodeAsync(DoAsync("stop", "shop"));
        }
        await WaitForAsync(async () => await IsRefusedAsync());
        Assert.False(stopped.IsCompleted);

        await upload.GetStream().WriteAsync(new byte[95]);
        Assert.StartsWith("HTTP/1.1 200", await new StreamReader(upload.GetStream()).ReadToEndAsync(), StringComparison.Ordinal);
        Assert.Equal(0, await stopped);

        static async Task<int> ExitCodeAsync(Task<(int ExitCode, string Output, string Error)> command) => (await command).ExitCode;

        async Task<bool> IsRefusedAsync()
        {
            try
            {
                using var answer = await _client.GetAsync(_shop + "/title").WaitAsync(TimeSpan.FromSeconds(5));
                return false;
            }
            catch (HttpRequestException refused)
            {
                return (refused.InnerException as System.Net.Sockets.SocketException)?.SocketErrorCode == System.Net.Sockets.SocketError.ConnectionRefused;
            }
        }
    }

    // The names of both are free when it has ended, and no earlier.
    [Fact]
    public async Task What_an_application_that_is_taken_away_has_in_progress_keeps_no_other_waiting()
    {
        Write(App("shop", _shop).Replace("\"drain\": \"10s\"", "\"drain\": \"60s\"", StringComparison.Ordinal), App("blog", _blog));
        await StartAsync();
        using var upload = await BeginUploadAsync();
        Write(App("blog", _blog, """ "environment": { "TITLE": "2" } """), App("wiki", _shop, """ "environment": { "TITLE": "3" } """));
        Assert.Equal((0, $"{File}: 2 of 2 applications deployed, 1 taken away\n", ""), await DoAsync("reload").WaitAsync(TimeSpan.FromSeconds(30)));
        Assert.Equal(("2", "3"), (await _client.GetStringAsync(_blog + "/title"), await _client.GetStringAsync(_shop + "/title")));

        string again = FreeAddress();
        Write(App("shop", again));
        var reload = DoAsync("reload");
        await Task.Delay(500);
        Assert.False(reload.IsCompleted);
        await upload.GetStream().WriteAsync(new byte[95]);
        Assert.StartsWith("HTTP/1.1 200", await new StreamReader(upload.GetStream()).ReadToEndAsync(), StringComparison.Ordinal);
        Assert.Equal((0, $"{File}: 1 of 1 applications deployed, 2 taken away\n", ""), await reload);
        Assert.Equal("", await _client.GetStringAsync(again + "/title"));
    }

    [Fact]
    public async Task Hold_answers_503_stop_closes_the_addresses_and_both_let_requests_that_are_under_way_end()
    {
        Write(App("shop", _shop));
        await StartAsync();
        var slow = _client.GetStringAsync(_shop + "/slow");
        await Task.Delay(300);      // it must have come before the hold; a request that comes behind it is answered 503, and shows

        Assert.Equal((0, "shop: held\n", ""), await DoAsync("hold", "shop"));
        Assert.Equal("slow", await slow);
        Assert.Equal(HttpStatusCode.ServiceUnavailable, (await _client.GetAsync(_shop + "/title")).StatusCode);

        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("release", "shop"));
        Assert.Equal(HttpStatusCode.OK, (await _client.GetAsync(_shop + "/health")).StatusCode);

        Assert.Equal((0, "shop: stopped\n", ""), await DoAsync("stop", "shop"));
        await Assert.ThrowsAsync<HttpRequestException>(() => _client.GetAsync(_shop + "/title"));

        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("start", "shop"));
        Assert.Equal((0, "shop serves already\n", ""), await DoAsync("start", "shop"));
        Assert.Equal(HttpStatusCode.OK, (await _client.GetAsync(_shop + "/health")).StatusCode);
    }

    [Theory]
    [InlineData(1024 * 1024, 200, "held")]
    [InlineData((1024 * 1024) + 1, 413, "A page to show has at most 1 MiB.")]
    public async Task A_page_has_at_most_a_megabyte_PageMax(int bytes, int status, string said)
    {
        Write(App("shop", _shop));
        await StartAsync();
        using var control = new HttpClient(new SocketsHttpHandler
        {
            ConnectCallback = async (_, ct) =>
            {
                var socket = new System.Net.Sockets.Socket(System.Net.Sockets.AddressFamily.Unix, System.Net.Sockets.SocketType.Stream, 0);
                await socket.ConnectAsync(new System.Net.Sockets.UnixDomainSocketEndPoint(Control), ct);
                return new System.Net.Sockets.NetworkStream(socket, ownsSocket: true);
            },
        });

        using var answer = await control.PostAsync("http://daemon/apps/shop/hold", new ByteArrayContent(new byte[bytes]));

        Assert.Equal(status, (int)answer.StatusCode);
        Assert.Contains(said, await answer.Content.ReadAsStringAsync(), StringComparison.Ordinal);
    }

    // It could take minutes. What has been asked for before, and waits behind it, is not wanted any more either.
    [Theory]
    [InlineData("stop", "stopped", false)]
    [InlineData("stop", "stopped", true)]
    [InlineData("hold", "held", false)]
    public async Task A_stop_or_a_hold_waits_for_no_build_and_ends_it_with_all_that_it_has_started(string action, string state, bool queues)
    {
        string pid = Path.Combine(_directory.Path, "pid");
        string project = Path.Combine(_directory.Path, "slow/Slow.csproj");
        Directory.CreateDirectory(Path.GetDirectoryName(project)!);
        await System.IO.File.WriteAllTextAsync(project, $"""
            <Project>
              <Target Name="Build"><Exec Command="echo $$ &gt; '{pid}.new'; mv '{pid}.new' '{pid}'; exec sleep 100" /></Target>
            </Project>
            """);
        Write(App("shop", _shop).Replace(HostKinds, Path.GetDirectoryName(project), StringComparison.Ordinal));
        await StartAsync(waitFor: "");
        await WaitForAsync(() => Task.FromResult(System.IO.File.Exists(pid)));
        string sleeper = (await System.IO.File.ReadAllTextAsync(pid)).Trim();
        Assert.True(Directory.Exists("/proc/" + sleeper));
        var queued = queues ? DoAsync("reload", "shop") : null;
        await Task.Delay(queues ? 1_000 : 0);

        long begun = Environment.TickCount64;
        Assert.Equal((0, $"shop: {state}\n", ""), await DoAsync(action, "shop"));
        Assert.InRange(Environment.TickCount64 - begun, 0, 20_000);
        await WaitForAsync(() => Task.FromResult(!Directory.Exists("/proc/" + sleeper)));
        if (queued is not null)
        {
            Assert.Equal((1, "", "millrace: shop: somebody has had it stopped, held or begun anew meanwhile\n"), await queued);
        }

        // What comes behind it is begun as ever.
        Write(App("shop", _shop));
        Assert.Equal(0, (await DoAsync("reload")).ExitCode);
        Assert.Equal(0, (await DoAsync("start", "shop")).ExitCode);
        Assert.Equal("", await _client.GetStringAsync(_shop + "/title"));
    }

    // The channel of its second process is taken by somebody who says nothing. The first accepts by then.
    [Fact]
    public async Task A_process_that_accepts_answers_what_it_has_begun_when_another_of_its_generation_cannot_listen()
    {
        Write(App("shop", _shop, "\"instances\": 2").Replace("60s", "12s", StringComparison.Ordinal));
        var starting = StartAsync(waitFor: "it did not start");
        using var silent = new System.Net.Sockets.Socket(System.Net.Sockets.AddressFamily.Unix, System.Net.Sockets.SocketType.Stream, System.Net.Sockets.ProtocolType.Unspecified);
        string channel = Path.Combine(Path.GetDirectoryName(Control)!, "shop-1-2.channel");
        await WaitForAsync(() => Task.FromResult(System.IO.File.Exists(channel)));
        await silent.ConnectAsync(new System.Net.Sockets.UnixDomainSocketEndPoint(channel));

        // One after the other, so that one of them is under way when the time is over. Who comes later is answered 503.
        int slow = 0;
        for (bool isOver = false; !isOver; slow++)
        {
            isOver = starting.IsCompleted;
            // HttpClient would send a request again of which no byte was answered.
            using var client = new System.Net.Sockets.TcpClient();
            await client.ConnectAsync(IPAddress.Loopback, new Uri(_shop).Port);
            await client.GetStream().WriteAsync("GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"u8.ToArray());
            string answer = await new StreamReader(client.GetStream()).ReadToEndAsync();
            Assert.True(answer.StartsWith("HTTP/1.1 200 ", StringComparison.Ordinal) || answer.StartsWith("HTTP/1.1 503 ", StringComparison.Ordinal), $"'{answer}' behind {slow} answers");
        }

        Assert.InRange(slow, 2, 100);
        await starting;
    }

    [Fact]
    public async Task Who_comes_while_an_application_is_held_with_a_queue_is_answered_by_the_next_process()
    {
        Write(App("shop", _shop));
        await StartAsync();
        using var kept = await ConnectAsync();
        await using var stream = new System.Net.Sockets.NetworkStream(kept);
        using var reader = new StreamReader(stream);
        Assert.Equal("", await PostAsync(stream, reader, "GET /title"));
        string before = await _client.GetStringAsync(_shop + "/process");
        var slow = _client.GetStringAsync(_shop + "/slow");
        await Task.Delay(300);

        Assert.Equal((0, "shop: held\n", ""), await DoAsync("hold", "shop", "--queue", "60s"));
        Assert.Equal("slow", await slow);
        Assert.Contains("held: as somebody has asked; who comes waits for up to 1m", await StatusAsync(), StringComparison.Ordinal);
        using var fresh = new HttpClient();
        Task<string>[] waiting = [PostAsync(stream, reader, "GET /title"), fresh.GetStringAsync(_shop + "/process")];
        Assert.NotSame(await Task.WhenAny([.. waiting, Task.Delay(500)]), waiting[0]);
        Assert.All(waiting, static task => Assert.False(task.IsCompleted));

        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("release", "shop"));
        Assert.Equal("", await waiting[0].WaitAsync(Patience));
        Assert.NotEqual(before, await waiting[1].WaitAsync(Patience));
    }

    [Fact]
    public async Task Who_waits_for_an_application_that_is_held_is_answered_503_when_the_time_is_over()
    {
        Write(App("shop", _shop));
        await StartAsync();
        using var kept = await ConnectAsync();
        await using var stream = new System.Net.Sockets.NetworkStream(kept);
        using var reader = new StreamReader(stream);
        Assert.Equal("", await PostAsync(stream, reader, "GET /title"));

        // The time of the first is that of no other.
        Assert.Equal((0, "shop: held\n", ""), await DoAsync("hold", "shop", "--queue", "1s"));
        Assert.Equal((0, "shop: held\n", ""), await DoAsync("hold", "shop", "--queue", "8s"));
        using var fresh = new HttpClient();
        var waiting = (Kept: PostAsync(stream, reader, "GET /title", "503 Service Unavailable"), Fresh: fresh.GetAsync(_shop + "/title"));
        await Task.Delay(1_500);
        Assert.False(waiting.Kept.IsCompleted || waiting.Fresh.IsCompleted);
        Assert.StartsWith("<!DOCTYPE", await waiting.Kept.WaitAsync(Patience), StringComparison.Ordinal);
        Assert.Equal(HttpStatusCode.ServiceUnavailable, (await waiting.Fresh.WaitAsync(Patience)).StatusCode);

        Assert.Equal((0, "shop: held\n", ""), await DoAsync("hold", "shop", "--queue", "1m"));
        Assert.Equal((0, "shop: held\n", ""), await DoAsync("hold", "shop"));
        Assert.Equal(HttpStatusCode.ServiceUnavailable, (await fresh.GetAsync(_shop + "/title").WaitAsync(Patience)).StatusCode);
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("release", "shop"));
        Assert.Equal("", await PostAsync(stream, reader, "GET /title").WaitAsync(Patience));
    }

    [Fact]
    public async Task Who_waits_for_an_application_that_is_held_waits_no_longer_where_something_is_still_in_progress()
    {
        Write(App("shop", _shop));
        await StartAsync();
        using var upload = await BeginUploadAsync();
        var hold = DoAsync("hold", "shop", "--queue", "2s");
        using var fresh = new HttpClient();
        await WaitForAsync(async () => (await fresh.GetAsync(_shop + "/title")).StatusCode == HttpStatusCode.ServiceUnavailable);
        Assert.False(hold.IsCompleted);

        await upload.GetStream().WriteAsync(new byte[95]);
        using var reader = new StreamReader(upload.GetStream());
        Assert.Equal("HTTP/1.1 200 OK", await reader.ReadLineAsync());      // and no more: the connection stays, for who comes next
        Assert.Equal((0, "shop: held\n", ""), await hold);
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("release", "shop"));
        Assert.Equal("", await fresh.GetStringAsync(_shop + "/title"));
    }

    [Theory]
    [InlineData("999ms")]
    [InlineData("61m")]
    [InlineData("long")]
    public async Task A_queue_has_a_time_that_can_be(string time)
    {
        Write(App("shop", _shop));
        await StartAsync();
        Assert.Equal((1, "", "millrace: Who comes may wait from 1s to 1h: a number and s, m or h.\n"), await DoAsync("hold", "shop", "--queue", time));
        Assert.Equal(HttpStatusCode.OK, (await _client.GetAsync(_shop + "/title")).StatusCode);
    }

    [Fact]
    public async Task Hold_shows_a_page_of_ones_own_until_the_release()
    {
        Write(App("shop", _shop));
        await StartAsync();
        string page = Path.Combine(_directory.Path, "sorry.html");
        await System.IO.File.WriteAllTextAsync(page, "<p>Umzug für eine Stunde</p>");

        Assert.Equal((0, "shop: held\n", ""), await DoAsync("hold", "shop", "--page", page));
        using var held = await _client.GetAsync(_shop + "/title");
        Assert.Equal((HttpStatusCode.ServiceUnavailable, "<p>Umzug für eine Stunde</p>", "utf-8"), (held.StatusCode, await held.Content.ReadAsStringAsync(), held.Content.Headers.ContentType!.CharSet));

        Assert.Equal((0, "shop: held\n", ""), await DoAsync("hold", "shop"));
        Assert.StartsWith("<!DOCTYPE", await (await _client.GetAsync(_shop + "/title")).Content.ReadAsStringAsync(), StringComparison.Ordinal);

        await System.IO.File.WriteAllTextAsync(page, "");
        Assert.Equal((2, "", $"millrace: {page} is empty; visitors would see nothing.\n"), await DoAsync("hold", "shop", "--page", page));
        await System.IO.File.WriteAllBytesAsync(page, new byte[1024 * 1024 + 1]);
        Assert.Equal((2, "", $"millrace: {page} is larger than 1 MiB, and so no page to show.\n"), await DoAsync("hold", "shop", "--page", page));
        await System.IO.File.WriteAllBytesAsync(page, new byte[1024 * 1024]);
        Assert.Equal((0, "shop: held\n", ""), await DoAsync("hold", "shop", "--page", page));
        Assert.Equal(1024 * 1024, (await (await _client.GetAsync(_shop + "/title")).Content.ReadAsByteArrayAsync()).Length);
    }

    [Fact]
    public async Task A_restart_ends_the_processes_before_it_starts_others_and_refuses_nobody_meanwhile()
    {
        Write(App("shop", _shop));
        await StartAsync();
        int before = ProcessesOf("shop", await StatusAsync()).Single();
        var slow = _client.GetStringAsync(_shop + "/slow/8");      // longer than it takes to ask how it stands
        await Task.Delay(300);      // it must have come before the restart

        var restarting = DoAsync("restart", "shop");
        await WaitForAsync(async () => await StatusAsync() is var status && !ProcessesOf("shop", status).Contains(before) && ProcessesOf("shop", status, "others").Contains(before));
        Assert.Equal("slow", await slow);
        string process = await _client.GetStringAsync(_shop + "/process");

        Assert.Equal((0, "shop: serving\n", ""), await restarting);
        Assert.NotEqual(before.ToString(CultureInfo.InvariantCulture), process);
        Assert.Equal([process], ProcessesOf("shop", await StatusAsync()).Select(static its => its.ToString(CultureInfo.InvariantCulture)));
    }

    [Fact]
    public async Task The_folder_of_the_sockets_is_one_daemons_and_what_a_killed_one_has_left_is_in_nobodys_way()
    {
        Write(App("shop", _shop));
        var daemon = await StartAsync();
        System.IO.File.WriteAllText(File + ".second", (await System.IO.File.ReadAllTextAsync(File)).Replace("control.sock", "second.sock", StringComparison.Ordinal).Replace(_shop, _blog, StringComparison.Ordinal));

        var second = await CommandProcess.RunAsync("serve", File + ".second");

        Assert.Equal((1, $"millrace: {Path.GetDirectoryName(Control)} holds the sockets of another daemon. Name a \"control\" in a folder that no other daemon uses.\n"), (second.ExitCode, second.Error));
        Assert.Equal(HttpStatusCode.OK, (await _client.GetAsync(_shop + "/title")).StatusCode);

        // Its processes go on until the next daemon has them, and their sockets have the names that those of what it starts have.
        int process = ProcessesOf("shop", await StatusAsync()).Single();
        daemon.Signal(CommandProcess.SigKill);
        await daemon.WaitForExitAsync();
        string left = Path.Combine(Path.GetDirectoryName(Control)!, "gone-7-1.http");
        await System.IO.File.WriteAllTextAsync(left, "");
        Write(App("shop", _blog));
        await StartAsync(waitFor: "shop: generation 2 serves");     // the first is taken over, and has other addresses
        Assert.Equal(HttpStatusCode.OK, (await _client.GetAsync(_blog + "/title")).StatusCode);
        Assert.False(System.IO.File.Exists(left));
        await WaitForAsync(() => Task.FromResult(HasEnded(process)));
    }

    // Without a descriptor the runtime cannot open /proc/self/status, and ends the process.
    [Fact]
    public async Task With_too_few_descriptors_for_its_applications_the_daemon_says_so_and_goes_on()
    {
        Write([.. Enumerable.Range(0, 8).Select(i => App($"a{i}", $"http://unix:{_directory.Path}/a{i}.sock"))]);
        var daemon = CommandProcess.StartProgram("sh", "-c", "ulimit -n 120 && exec dotnet \"$0\" serve \"$1\"", CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command"), File);
        _daemons.Add(daemon);

        await daemon.WaitForOutputAsync("No open files are left for it: raise the limit");
        await Task.Delay(TimeSpan.FromSeconds(4));      // it tries again, each after 1 and 2 s

        Assert.Equal(8, JsonDocument.Parse(await StatusAsync()).RootElement.GetProperty("apps").GetArrayLength());
        daemon.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await daemon.WaitForExitAsync());
    }
}
