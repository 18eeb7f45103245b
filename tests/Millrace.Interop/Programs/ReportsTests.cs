// The sample with a pool of engines, as a process of its own, and `millrace pool` beside it.

using System.Globalization;
using System.Net;
using Millrace.Interop.Command;

namespace Millrace.Interop.Programs;

public sealed class ReportsTests
{
    [Fact]
    public async Task Engines_that_are_not_thread_safe_answer_many_at_once_and_are_seen_and_exchanged_from_outside()
    {
        IPEndPoint at = PhpSite.FreeEndPoint();
        await using CommandProcess app = CommandProcess.Start(CommandProcess.AssemblyOf("samples/Reports", "Reports"), "--urls", $"http://{at}");
        using var client = new HttpClient { BaseAddress = new Uri($"http://{at}") };
        await FirstAnswerAsync(client, app);

        string[] reports = await Task.WhenAll(Enumerable.Range(0, 64).Select(i => client.GetStringAsync(string.Create(CultureInfo.InvariantCulture, $"/report?year={2016 + (i % 10)}"))));

        for (int i = 0; i < reports.Length; i++)
        {
            Assert.Equal(ReportOf(2016 + (i % 10)), reports[i]);
        }
        Assert.Equal("Healthy", await client.GetStringAsync("/health"));

        var (exitCode, list, _) = await CommandProcess.RunAsync("pool", "list", "reports", "--json");
        Assert.Equal(0, exitCode);
        Assert.Contains(string.Create(CultureInfo.InvariantCulture, $"\"process\":{app.Id},"), list, StringComparison.Ordinal);
        Assert.Equal((0, "reports: has workers of generation 2\n", ""), await CommandProcess.RunAsync("pool", "swap", "reports"));
        Assert.Equal(ReportOf(2020), await client.GetStringAsync("/report?year=2020"));
    }

    private static async Task FirstAnswerAsync(HttpClient client, CommandProcess app)
    {
        for (int i = 0; ; i++)
        {
            try
            {
                _ = await client.GetStringAsync("/health");
                return;
            }
            catch (HttpRequestException) when (i < 600)
            {
                await Task.Delay(100);
            }
            catch (HttpRequestException error)
            {
                throw new IOException($"{app.Output}\n{app.Error}", error);
            }
        }
    }

    // What the engine computes, in other words.
    private static string ReportOf(int year)
    {
        var months = Enumerable.Range(0, 100_000).Where(i => 2016 + (i % 10) == year).GroupBy(static i => 1 + (i / 10 % 12), static i => 10L + ((long)i * 7919 % 491)).OrderBy(static month => month.Key);
        return "month;orders;amount\n" + string.Concat(months.Select(static month => string.Create(CultureInfo.InvariantCulture, $"{month.Key};{month.Count()};{month.Sum()}\n")));
    }
}
