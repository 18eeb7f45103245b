// What `millrace status` shows a person.

using System.Runtime.Versioning;
using Millrace.Command.Serving;

namespace Millrace.Tests.Command;

[SupportedOSPlatform("linux")]
public sealed class StatusTableTests
{
    private static readonly DateTimeOffset s_now = new(2026, 11, 27, 12, 0, 0, TimeSpan.Zero);

    [Theory]
    [InlineData("starting", 12, "starting 12s")]
    [InlineData("deploying", 75, "deploying 1m15s")]
    [InlineData("waiting", 7_300, "waiting 2h1m")]
    [InlineData("held", 90_000, "held 1d1h")]
    [InlineData("serving", 12, "serving")]
    [InlineData("stopped", 12, "stopped")]
    [InlineData("idle", 12, "idle")]
    public void Says_how_long_something_takes_that_does_not_last(string state, int seconds, string shown)
    {
        string table = TableOf(AppIn(state) with { StateSince = s_now.AddSeconds(-seconds) });
        Assert.Equal(["shop", shown, "3", "4711", "1m0s"], CellsOf(table.Split('\n')[1])[..5]);
    }

    [Fact]
    public void Of_a_daemon_that_does_not_say_since_when_the_state_is_shown_alone()
    {
        string table = TableOf(AppIn("held"));
        Assert.Equal(["shop", "held", "3"], CellsOf(table.Split('\n')[1])[..3]);
    }

    [Fact]
    public void Names_processes_that_are_on_their_way_or_end_what_they_have_begun()
    {
        string table = TableOf(AppIn("serving") with { Others = [ProcessOf(12), ProcessOf(13)], Reason = "why" });
        Assert.Equal(["    also running: 12,13", "    why"], table.Split('\n')[2..]);

        Assert.DoesNotContain("also running", TableOf(AppIn("serving") with { Others = [] }), StringComparison.Ordinal);
    }

    [Fact]
    public void An_answer_of_others_that_cannot_be_is_none_of_a_daemon()
    {
        Assert.True(AppIn("serving").IsWhole);
        Assert.True((AppIn("serving") with { Others = [ProcessOf(12)] }).IsWhole);
        Assert.False((AppIn("serving") with { Others = [null!] }).IsWhole);
        Assert.False((AppIn("serving") with { Others = [new ProcessStatus(12, default, -1)] }).IsWhole);
        Assert.False((AppIn("serving") with { Others = [.. Enumerable.Repeat(ProcessOf(12), 8192)] }).IsWhole);
    }

    private static string TableOf(AppStatus app) => StatusTable.Of(new DaemonStatus(1, "1", "/f", s_now, 0, null, [app]), s_now, colour: false);

    private static string[] CellsOf(string line) => line.Split("  ", StringSplitOptions.RemoveEmptyEntries | StringSplitOptions.TrimEntries);

    private static AppStatus AppIn(string state) => new("shop", state, null, ["http://localhost"], 3, 0, 0, null, null, [ProcessOf(4711)], []);

    private static ProcessStatus ProcessOf(int id) => new(id, s_now.AddMinutes(-1), 1_048_576);
}
