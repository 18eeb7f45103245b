// What somebody wants of an application while a stop, a hold or a restart of it waits for the end of what is in progress.

using System.Globalization;
using System.Net;
using System.Net.Sockets;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    // Who has asked for the stop may have gone meanwhile. What is asked last holds.
    [Theory]
    [InlineData("stop")]
    [InlineData("hold")]
    public async Task A_start_while_requests_are_in_progress_behind_a_stop_or_a_hold_starts_it_when_they_have_ended(string order)
    {
        Write(App("shop", _shop));
        await StartAsync();
        var slow = _client.GetStringAsync(_shop + "/slow/4");
        await Task.Delay(300);      // it must have come before that
        string before = ProcessesOf("shop", await StatusAsync()).Single().ToString(CultureInfo.InvariantCulture);

        var ended = DoAsync(order, "shop");
        await Task.Delay(500);
        Assert.False(slow.IsCompleted || ended.IsCompleted);
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("start", "shop"));

        Assert.Equal("slow", await slow);
        Assert.Equal(0, (await ended).ExitCode);
        using var fresh = new HttpClient();
        Assert.NotEqual(before, await fresh.GetStringAsync(_shop + "/process"));
        Assert.Equal("serving", AppOf("shop", await StatusAsync()).GetProperty("state").GetString());
        Assert.Equal((0, "shop serves already\n", ""), await DoAsync("start", "shop"));
    }

    [Fact]
    public async Task A_file_with_a_new_application_where_somebody_else_listens_changes_nothing()
    {
        using var other = new TcpListener(IPAddress.Loopback, 0);
        other.Start();
        string taken = string.Create(CultureInfo.InvariantCulture, $"http://127.0.0.1:{((IPEndPoint)other.LocalEndpoint).Port}");
        Write(App("shop", _shop), App("blog", _blog));
        await StartAsync();
        string shop = await _client.GetStringAsync(_shop + "/process");

        Write(App("store", taken), App("blog", _blog, """ "environment": { "TITLE": "other" } """));
        var reload = await DoAsync("reload");

        Assert.Equal(1, reload.ExitCode);
        Assert.StartsWith("millrace: store: 127.0.0.1:", reload.Error, StringComparison.Ordinal);
        Assert.Equal(shop, await _client.GetStringAsync(_shop + "/process"));
        Assert.Equal("", await _client.GetStringAsync(_blog + "/title"));

        other.Stop();
        Assert.Equal((0, $"{File}: 2 of 2 applications deployed, 1 taken away\n", ""), await DoAsync("reload"));
        Assert.Equal("other", await _client.GetStringAsync(_blog + "/title"));
        Assert.Equal("", await _client.GetStringAsync(taken + "/title"));
    }

    [Fact]
    public async Task Who_follows_what_is_printed_comes_to_its_end_with_the_daemon_which_does_not_wait_for_him()
    {
        Write(App("shop", _shop));
        var daemon = await StartAsync();
        using var line = new StringContent("the last line");
        var follows = CommandProcess.RunAsync("logs", "shop", "-f", "--control", Control);
        await Task.Delay(1_500);
        using (await _client.PostAsync(_shop + "/print", line))
        {
        }

        daemon.Signal(CommandProcess.SigTerm);

        Assert.Equal(0, await daemon.WaitForExitAsync());
        var (exitCode, output, error) = await follows;
        Assert.Equal((0, ""), (exitCode, error));
        Assert.Contains("the last line\n", output, StringComparison.Ordinal);
    }
}
