// A start that hangs is given up for a file that says something else by now; where that file is not applied, nothing is to have changed.

using System.Globalization;
using System.Net;
using System.Net.Sockets;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task What_a_reload_has_given_up_that_then_changes_nothing_is_begun_anew(bool serves)
    {
        using var other = new TcpListener(IPAddress.Loopback, 0);
        other.Start();
        string taken = string.Create(CultureInfo.InvariantCulture, $"http://127.0.0.1:{((IPEndPoint)other.LocalEndpoint).Port}");
        string mark = Path.Combine(_directory.Path, "stands");
        string Shop(string title) => App("shop", _shop, $$""" "environment": { "TITLE": "{{title}}", "STANDS_WHILE": "{{mark}}" } """).Replace("\"60s\"", "\"10m\"", StringComparison.Ordinal);
        if (!serves)
        {
            await System.IO.File.WriteAllTextAsync(mark, "");
        }
        Write(Shop("before"), App("blog", _blog));
        var daemon = await StartAsync(waitFor: "blog: generation 1 serves");
        var asked = Task.FromResult((0, "", ""));
        if (serves)
        {
            await WaitForStatusAsync("shop", "serving");
            await System.IO.File.WriteAllTextAsync(mark, "");
            asked = DoAsync("reload", "shop");
        }
        await WaitForAsync(() => Task.FromResult(ChildrenOf(daemon.Id).Any(StandsStill)));
        int standing = ChildrenOf(daemon.Id).Single(StandsStill);
        System.IO.File.Delete(mark);
        int generation = AppOf("shop", await StatusAsync()).GetProperty("generation").GetInt32();

        Write(Shop("after"), App("blog", taken));
        var reload = await DoAsync("reload").WaitAsync(Patience);

        Assert.Equal(1, reload.ExitCode);
        Assert.StartsWith("millrace: blog: 127.0.0.1:", reload.Error, StringComparison.Ordinal);
        _ = await asked;
        Assert.Contains(AppOf("shop", await StatusAsync()).GetProperty("events").EnumerateArray(), static happened => happened.GetProperty("what").GetString()!.StartsWith("the next generation is given up: ", StringComparison.Ordinal));
        await WaitForAsync(async () => AppOf("shop", await StatusAsync()) is var shop && shop.GetProperty("state").GetString() == "serving" && shop.GetProperty("generation").GetInt32() > generation);
        Assert.Equal("before", await _client.GetStringAsync(_shop + "/title"));
        Assert.Equal("", await _client.GetStringAsync(_blog + "/title"));
        _ = Kill(standing, CommandProcess.SigKill);     // the daemon would wait for its drain
    }
}
