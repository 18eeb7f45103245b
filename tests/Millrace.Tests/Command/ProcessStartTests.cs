// Processes whose program and folder are touched only when their start is over.

using System.Diagnostics;
using Millrace.Command.Running;

namespace Millrace.Tests.Command;

public sealed class ProcessStartTests : IDisposable
{
    private readonly string _folder = Directory.CreateTempSubdirectory("millrace-start-").FullName;

    public void Dispose() => Directory.Delete(_folder, recursive: true);

    [Theory]
    [InlineData("")]
    [InlineData("a folder")]
    public void A_deferred_start_keeps_all_variables_arguments_and_the_folder(string name)
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        string folder = name.Length == 0 ? "" : Directory.CreateDirectory(Path.Combine(_folder, name)).FullName;
        var start = new ProcessStartInfo("/bin/sh", ["-c", "pwd; tr '\\0' '\\n' </proc/$$/environ; printf '<%s>' \"$@\"", "-x", "-n", "a b", ""]) { RedirectStandardOutput = true };
        start.WorkingDirectory = folder;
        start.Environment["a.b"] = "1 2";
        start.Environment["ConnectionStrings__my-db"] = "Host=x";
        start.Environment["PLAIN"] = "";

        Assert.True(ProcessStart.Defer(start));
        Assert.Equal("/", start.WorkingDirectory);
        string[] lines = Output(start, out int code).Split('\n');
        Assert.Equal(0, code);
        Assert.Equal(name.Length == 0 ? "/" : folder, lines[0]);
        Assert.Equal(["ConnectionStrings__my-db=Host=x", "PLAIN=", "a.b=1 2"], lines.Where(static line => line.StartsWith("a.b", StringComparison.Ordinal) || line.StartsWith("Conn", StringComparison.Ordinal) || line.StartsWith("PLAIN", StringComparison.Ordinal)).Order(StringComparer.Ordinal));
        Assert.Equal("<-n><a b><>", lines[^1]);
    }

    // Between fork and exec a child of another user's could be stopped by him, and the start with it.
    [Theory]
    [InlineData("nobody")]
    [InlineData("www-data")]
    public void Whoever_starts_as_another_user_becomes_him_behind_the_start(string name)
    {
        if (!OperatingSystem.IsLinux() || OtherUser.Find(name) is not { } user)
        {
            return;     // only root can
        }

        var start = new ProcessStartInfo("/bin/sh", ["-c", "id -u; id -g; id -G; pwd; printf '<%s>' \"$@\"", "-x", "a b", ""]) { RedirectStandardOutput = true, WorkingDirectory = "/tmp" };
        Assert.True(ProcessStart.Defer(start));
        ProcessStart.Prepare();
        Assert.True(ProcessStart.BecomeUser(start, user));
        Assert.Equal("", start.UserName);
        string[] lines = Output(start, out int code).Split('\n');

        Assert.Equal(0, code);
        Assert.Equal([$"{user.Rights.User}", $"{user.Rights.Group}"], lines[..2]);
        Assert.Equal(user.Rights.Groups.Append(user.Rights.Group).Distinct().Order().Select(static group => $"{group}"), lines[2].Split(' ').Order(StringComparer.Ordinal).OrderBy(static group => int.Parse(group, System.Globalization.CultureInfo.InvariantCulture)));
        Assert.Equal(["/tmp", "<a b><>"], lines[3..]);
    }

    // The program that becomes the user is root's: what a variable of the application's has it load would be as well.
    [Theory]
    [InlineData("LD_PRELOAD")]
    [InlineData("LD_LIBRARY_PATH")]
    [InlineData("GLIBC_TUNABLES")]
    [InlineData("LOCPATH")]
    [InlineData("LANGUAGE")]
    [InlineData("GCONV_PATH")]
    public void Where_a_variable_of_the_applications_says_what_programs_load_none_is_run_as_root(string name)
    {
        if (!OperatingSystem.IsLinux() || OtherUser.Find("nobody") is not { } user)
        {
            return;     // only root can
        }

        ProcessStart.Prepare();
        var start = new ProcessStartInfo("/bin/sh", ["-c", "id -u"]) { RedirectStandardOutput = true, WorkingDirectory = "/" };
        start.Environment[name] = "/nowhere";
        Assert.False(ProcessStart.BecomeUser(start, user));

        Assert.Equal(("nobody", "/bin/sh"), (start.UserName, start.FileName));
    }

    // With the user that it is to be, and the folder.
    [Theory]
    [InlineData(null)]
    [InlineData("nobody")]
    public void Whoever_leaves_the_session_leads_one_of_its_own(string? name)
    {
        if (!OperatingSystem.IsLinux() || !File.Exists("/usr/bin/setsid"))
        {
            return;
        }

        ProcessStart.Prepare();
        var start = new ProcessStartInfo("/bin/sh", ["-c", "echo $$; cut -d ' ' -f 5-6 /proc/$$/stat; pwd; printf '<%s>' \"$@\"", "-x", "a b", "-n", ""]) { RedirectStandardOutput = true, WorkingDirectory = "/tmp" };
        Assert.True(ProcessStart.Defer(start));
        if (OtherUser.Find(name) is { } user)
        {
            Assert.True(ProcessStart.BecomeUser(start, user));
        }
        Assert.True(ProcessStart.LeaveSession(start));
        string[] lines = Output(start, out int code).Split('\n');

        Assert.Equal(0, code);
        Assert.Equal([$"{lines[0]} {lines[0]}", "/tmp", "<a b><-n><>"], lines[1..]);
    }

    // As what an application's user writes into a project may be anything.
    [Fact]
    public async Task What_builds_for_a_daemon_leads_a_session_of_its_own()
    {
        if (!OperatingSystem.IsLinux() || !File.Exists("/usr/bin/setsid"))
        {
            return;
        }

        ProcessStart.Prepare();
        string builder = Path.Combine(_folder, "builder");
        await File.WriteAllTextAsync(builder, "#!/bin/sh\nsession=\"$(cut -d ' ' -f 5-6 /proc/$$/stat)\"\n[ \"$session\" = \"$$ $$\" ] || { echo \"$$ is in $session\" >&2; exit 1; }\necho /made.dll\n");
        File.SetUnixFileMode(builder, (UnixFileMode)0x1ED);
        string complaints = "";

        string made = await ProjectBuild.BuildAsync(new ProjectBuild.Order("/Shop.csproj", User: null, IsThere: static _ => Task.FromResult(true), Builder: builder), errors => complaints += errors, "see there", CancellationToken.None);

        Assert.Equal(("/made.dll", ""), (made, complaints));
    }

    [Fact]
    public void A_program_with_an_equals_sign_in_its_path_is_a_program()
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        string program = Path.Combine(_folder, "a=b");
        File.CreateSymbolicLink(program, "/bin/echo");
        var start = new ProcessStartInfo(program, ["x=1", "-n"]) { RedirectStandardOutput = true };
        Assert.True(ProcessStart.Defer(start));
        Assert.Equal("x=1 -n", Output(start, out int code));
        Assert.Equal(0, code);
    }

    [Theory]
    [InlineData("/usr/bin/env", "missing", 127)]
    [InlineData("/usr/bin/nice", "a=missing", 127)]
    [InlineData("/usr/bin/env", "closed", 126)]
    public void A_program_that_is_none_shows_in_the_exit_code(string by, string name, int expected)
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        File.WriteAllText(Path.Combine(_folder, "closed"), "");
        var start = new ProcessStartInfo(Path.Combine(_folder, name)) { RedirectStandardOutput = true, RedirectStandardError = true };
        Assert.True(ProcessStart.Defer(start));
        Assert.Equal(by, start.FileName);
        _ = Output(start, out int code);
        Assert.Equal(expected, code);
    }

    private static string Output(ProcessStartInfo start, out int code)
    {
        using var process = ProcessStart.Now(start);
        string output = process.StandardOutput.ReadToEnd().TrimEnd('\n');
        process.WaitForExit();
        code = process.ExitCode;
        return output;
    }
}
