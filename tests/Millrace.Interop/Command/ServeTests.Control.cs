// What somebody has done with an application of a running daemon: hold, release, stop, start, restart.

using System.Globalization;
using System.Net;
using System.Text.Json;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
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
        var slow = _client.GetStringAsync(_shop + "/slow");
        await Task.Delay(300);      // it must have come before the restart

        var restarting = DoAsync("restart", "shop");
        await WaitForAsync(async () => !ProcessesOf("shop", await StatusAsync()).Contains(before));
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

        // Its processes go on, and their sockets have the names that those of the next daemon have.
        int orphan = ProcessesOf("shop", await StatusAsync()).Single();
        daemon.Signal(CommandProcess.SigKill);
        await daemon.WaitForExitAsync();
        try
        {
            string left = Path.Combine(Path.GetDirectoryName(Control)!, "gone-7-1.http");
            await System.IO.File.WriteAllTextAsync(left, "");
            Write(App("shop", _blog));
            await StartAsync();
            Assert.Equal(HttpStatusCode.OK, (await _client.GetAsync(_blog + "/title")).StatusCode);
            Assert.Equal(HttpStatusCode.OK, (await _client.GetAsync(_shop + "/title")).StatusCode);
            Assert.False(System.IO.File.Exists(left));
        }
        finally
        {
            using var process = System.Diagnostics.Process.GetProcessById(orphan);
            process.Kill();
        }
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
