// What the start-up hook takes over from `millrace run` is for the app alone, not for children of the app.

using System.IO.Pipes;
using Millrace.StartupHooks;

namespace Millrace.Tests.Command;

public sealed class RunRequestTests
{
    private const string ReportVariable = "MILLRACE_RUN_REPORT";
    private const int CloseOnExec = 0x80000;    // O_CLOEXEC

    [Fact]
    public void Report_pipe_is_not_inherited_by_children_of_the_app()
    {
        using var report = new AnonymousPipeServerStream(PipeDirection.In, HandleInheritability.Inheritable);
        string descriptor = report.GetClientHandleAsString();
        report.ClientSafePipeHandle.SetHandleAsInvalid();   // the hook closes it
        Assert.Equal(0, FlagsOf(descriptor) & CloseOnExec);
        Environment.SetEnvironmentVariable(ReportVariable, descriptor);

        RunRequest.TakeFromEnvironment();

        Assert.Equal(CloseOnExec, FlagsOf(descriptor) & CloseOnExec);
        Assert.Null(Environment.GetEnvironmentVariable(ReportVariable));
        RunRequest.ReportAddresses(["http://127.0.0.1:5000", "fastcgi://127.0.0.1:9000"]);
        using var reader = new StreamReader(report);
        Assert.Equal("http://127.0.0.1:5000;fastcgi://127.0.0.1:9000", reader.ReadLine());
    }

    // The line is "flags:", a tab, and an octal number.
    private static int FlagsOf(string descriptor)
    {
        string flags = File.ReadLines($"/proc/self/fdinfo/{descriptor}").First(static line => line.StartsWith("flags:", StringComparison.Ordinal));
        return Convert.ToInt32(flags["flags:".Length..].Trim(), 8);
    }
}
