// What the applications have to do, as `millrace status` shows it.

using System.Diagnostics;
using System.Text.Json;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    [Fact]
    public async Task Status_shows_what_an_application_has_to_do()
    {
        Write(App("shop", _shop, "\"instances\": 2"), App("blog", _blog));
        await StartAsync();
        using var stop = new CancellationTokenSource();
        var clients = Enumerable.Range(0, 8).Select(_ => Task.Run(async () =>
        {
            while (!stop.IsCancellationRequested)
            {
                Assert.Equal("slow", await _client.GetStringAsync(_shop + "/slow", CancellationToken.None));
            }
        })).ToArray();

        TimeSpan longest = TimeSpan.Zero;
        JsonElement traffic = default;
        await WaitForAsync(async () =>
        {
            long begun = Stopwatch.GetTimestamp();
            JsonElement shop = AppOf("shop", await StatusAsync());
            longest = Stopwatch.GetElapsedTime(begun) > longest ? Stopwatch.GetElapsedTime(begun) : longest;
            traffic = shop.GetProperty("traffic");
            return traffic.ValueKind == JsonValueKind.Object && traffic.GetProperty("running").GetInt64() == 8 && traffic.GetProperty("requestsPerSecond").GetDouble() is > 5 and < 12
                && traffic.GetProperty("p50Ms").ValueKind == JsonValueKind.Number && traffic.GetProperty("p50Ms").GetDouble() is > 900 and < 1_500;
        });
        Assert.InRange(traffic.GetProperty("p99Ms").GetDouble(), traffic.GetProperty("p50Ms").GetDouble(), 5_000);
        string table = "";
        await WaitForAsync(async () => (table = (await DoAsync("status")).Output).Contains(" 8 ", StringComparison.Ordinal));      // one that has just been answered asks again
        Assert.Equal("serving", AppOf("shop", (await CommandProcess.RunAsync("status", "--json", "--control", Control)).Output).GetProperty("state").GetString());
        Assert.Matches(@"(?m)^APP .* REQ/S +ACTIVE +P50 +P99 ", table);
        Assert.Matches(@"(?m)^shop +serving +1 +\d+,\d+ +\d+s +\d+ MiB +\d+(\.\d)? +8 +[\d.]+ms +[\d.]+ms ", table);
        await stop.CancelAsync();
        await Task.WhenAll(clients);
    }

    [Fact]
    public async Task Status_goes_on_with_lines_where_there_is_no_terminal_and_writes_over_one()
    {
        Write(App("shop", _shop));
        await StartAsync();
        await using (var lines = CommandProcess.HeedingSignals("status", "--watch", "--control", Control))
        {
            await WaitForAsync(() => Task.FromResult(lines.Output.Split('\n').Length > 3));
            Assert.All(lines.Output.TrimEnd().Split('\n'), static line => Assert.Matches(@"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ shop serving processes=1 requests/s=[\d.]+ active=\d+ p50=\S+ p99=\S+$", line));
            lines.Signal(CommandProcess.SigInt);
            Assert.Equal(130, await lines.WaitForExitAsync(TimeSpan.FromSeconds(5)));
        }

        string command = $"dotnet '{CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command")}' status --watch --control '{Control}'";
        await using var terminal = CommandProcess.StartProgram("timeout", "--signal=INT", "60", "script", "--quiet", "--command", command, "/dev/null");
        await terminal.WaitForOutputAsync("\e[J");
        await WaitForAsync(() => Task.FromResult(terminal.Output.Split("\e[H").Length > 2));
        Assert.Contains("\e[HAPP", terminal.Output.Replace("\e[1m", "", StringComparison.Ordinal), StringComparison.Ordinal);
        terminal.Signal(CommandProcess.SigInt);     // goes on to what it runs
        await terminal.WaitForExitAsync();

        // A daemon that ends is said, and not waited for.
        await using var watching = CommandProcess.Millrace("status", "--watch", "--control", Control);
        await watching.WaitForOutputAsync(" shop serving ");
        Assert.Equal(0, (await DoAsync("shutdown")).ExitCode);
        Assert.NotEqual(0, await watching.WaitForExitAsync(TimeSpan.FromSeconds(20)));
        Assert.StartsWith("millrace: ", watching.Error, StringComparison.Ordinal);
    }
}
