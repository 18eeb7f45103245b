// What the Debian package carries besides the command: its unit is that of `millrace unit`, its manual page names all commands, its file has no mistake.
// Made and installed it is in Millrace.Interop/Packages.

using System.Text;
using Millrace.Command.Serving;
using Millrace.Tests.Tidy;

namespace Millrace.Tests.Command;

public sealed class PackagingTests
{
    private const string Served = "/etc/millrace/millrace.json";

    // For whatever the file will say: its times are long enough, and there may be control groups. What is printed leaves those folders open in which the command lies.
    private static readonly string[] s_ofAnyFile = ["Description=", "TimeoutStartSec=", "TimeoutStopSec=", "Delegate=", "KillMode=", "ProtectControlGroups=", "ProtectHome=", "PrivateTmp="];

    [Fact]
    public void Its_unit_is_the_one_that_is_printed_for_any_file()
    {
        ServeFile? file = ServeFileReader.Read(Served, Encoding.UTF8.GetBytes(Repository.Read("packaging/millrace.json")), new DaemonPlaces("/run/millrace/control.sock", "/var/cache/millrace"), out IReadOnlyList<Mistake> mistakes);
        Assert.Empty(mistakes);
        string[] printed = Kept(UnitFile.Write(file!, ["/usr/bin/millrace"], isRoots: true));
        string unit = Repository.Read("packaging/millrace.service");
        Assert.Equal(printed, Kept(unit));
        Assert.Contains("\nDelegate=memory pids cpu\n", unit, StringComparison.Ordinal);
        Assert.Contains("\nProtectControlGroups=no\n", unit, StringComparison.Ordinal);
        Assert.Contains("\nProtectHome=yes\nPrivateTmp=yes\n", unit, StringComparison.Ordinal);
    }

    private static string[] Kept(string unit) => [.. unit.Split('\n').Where(static line => !s_ofAnyFile.Any(start => line.StartsWith(start, StringComparison.Ordinal)))];

    [Fact]
    public async Task Its_manual_page_names_every_command_and_so_does_the_readme()
    {
        string help = (await CommandLine.RunAsync("--help")).Output;
        string[] lines = help.Split("Commands:\n")[1].Split("\n\n")[0].Split('\n');
        string page = Repository.Read("packaging/millrace.1");
        Assert.True(lines.Length > 10, help);
        Assert.All(lines, line => Assert.Matches($@"(?m)^\.BR? .*\b{line.Trim().Split(' ')[0]}\b", page));
        string table = Repository.Read("README.md").Split("## The command\n")[1].Split("\n\n")[0];
        Assert.All(lines, line => Assert.Matches($@"(?m)^\| `.*\b{line.Trim().Split(' ')[0]}\b.* \| ", table));
    }
}
