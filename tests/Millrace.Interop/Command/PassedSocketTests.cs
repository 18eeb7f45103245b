// `millrace run` started by somebody who has opened the socket: systemd (descriptor 3) or spawn-fcgi and lighttpd (descriptor 0).
// Perl, which every Debian has, is that somebody here.

using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public sealed class PassedSocketTests : IDisposable
{
    private readonly TemporaryDirectory _directory = new("passed");

    private string SocketPath => Path.Combine(_directory.Path, "s");

    public void Dispose() => _directory.Dispose();

    [Theory]
    [InlineData(3, false)]
    [InlineData(0, false)]
    [InlineData(3, true)]
    [InlineData(0, true)]
    public async Task Socket_that_was_passed_to_the_command_is_served_by_the_application(int descriptor, bool reload)
    {
        const int SigHup = 1;
        string open = descriptor == 0 ? "close(STDIN);" : "$ENV{LISTEN_FDS}=1; $ENV{LISTEN_PID}=$$;";
        string script = "use Socket; $^F=10; " + open
            + " socket(S,PF_UNIX,SOCK_STREAM,0) or die; die fileno(S) unless fileno(S)==" + (descriptor == 0 ? "0" : "3")
            + "; bind(S,pack_sockaddr_un(shift @ARGV)) or die; listen(S,100) or die; exec @ARGV;";
        string host = CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command");
        await using var app = CommandProcess.StartProgram(
            "perl", ["-e", script, SocketPath, "dotnet", host, "run", CommandProcess.AssemblyOf("samples/Hello", "Hello"), .. reload ? ["--reload"] : Array.Empty<string>()]);
        await app.WaitForOutputAsync($"listens on fastcgi://fd:{descriptor}");
        if (reload)
        {
            app.Signal(SigHup);
            await app.WaitForErrorAsync("generation 2 serves");
        }
        var page = await CommandProcess.RunAsync("get", "fastcgi://unix:" + SocketPath, "/hello", "--body-only");
        Assert.Equal((0, "Hello, World!\n"), (page.ExitCode, page.Output));
        app.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await app.WaitForExitAsync());
        Assert.True(File.Exists(SocketPath));
    }
}
