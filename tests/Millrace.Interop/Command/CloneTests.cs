// The script `millrace` of a clone that another user has made: whoever may not build there is told so.

using System.Runtime.Versioning;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

[SupportedOSPlatform("linux")]
public sealed class CloneTests
{
    private const string Nobody = "65534";

    [Fact]
    public async Task Whoever_may_not_build_in_a_clone_is_told_in_one_sentence()
    {
        using var clone = new TemporaryDirectory("clone", searchable: true);
        string project = Directory.CreateDirectory(Path.Combine(clone.Path, "src", "Millrace.Command")).FullName;
        File.Copy(Path.Combine(CommandProcess.Repository, "millrace"), Path.Combine(clone.Path, "millrace"));
        foreach (string folder in (string[])[project, Path.GetDirectoryName(project)!])
        {
            File.SetUnixFileMode(folder, UnixFileMode.UserRead | UnixFileMode.UserExecute | UnixFileMode.GroupRead | UnixFileMode.GroupExecute | UnixFileMode.OtherRead | UnixFileMode.OtherExecute);
        }

        string script = Path.Combine(clone.Path, "millrace");
        await using var command = Environment.IsPrivilegedProcess
            ? CommandProcess.StartProgram("setpriv", "--reuid", Nobody, "--regid", Nobody, "--clear-groups", "bash", script, "--version")
            : CommandProcess.StartProgram("bash", script, "--version");

        Assert.Equal(1, await command.WaitForExitAsync());
        Assert.Matches($"^millrace: what is built in {clone.Path} is older than its sources, or missing, and you may not write there\\. Let their owner \\([^)]+\\) call it once, or use a clone of your own\\.\n$", command.Error);
        File.SetUnixFileMode(project, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);
        File.SetUnixFileMode(Path.GetDirectoryName(project)!, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);
    }
}
