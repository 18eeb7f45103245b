// A daemon that somebody has started in a terminal, when that is closed.

using System.Net;
using System.Text;
using System.Text.Json;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    // The kernel says it, and then the shell to all that it has started: neither is somebody who means it.
    [Theory]
    [InlineData("")]
    [InlineData("exec")]
    public async Task The_end_of_its_terminal_is_the_end_of_the_daemon_and_what_is_under_way_is_answered_first(string shell)
    {
        Write(App("shop", _shop));
        await using var terminal = InTerminal($"{shell} dotnet");
        await terminal.WaitForOutputAsync("shop: generation 1 serves");
        string status = await StatusAsync();
        int daemon = JsonDocument.Parse(status).RootElement.GetProperty("process").GetInt32();
        try
        {
            using var upload = new System.Net.Sockets.TcpClient();
            await upload.ConnectAsync(IPEndPoint.Parse(_shop["http://".Length..]));
            await upload.GetStream().WriteAsync("POST /count HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 100\r\n\r\nbegun"u8.ToArray());
            await Task.Delay(500);

            terminal.Signal(CommandProcess.SigKill);
            for (int i = 0; i < 5; i++)
            {
                await Task.Delay(100);
                _ = Kill(daemon, SigHup);
            }
            await upload.GetStream().WriteAsync(new byte[95]);
            using var answer = new StreamReader(upload.GetStream(), Encoding.ASCII);
            Assert.EndsWith("\r\n100\r\n0\r\n\r\n", await answer.ReadToEndAsync(), StringComparison.Ordinal);

            await WaitForAsync(() => Task.FromResult(HasEnded(daemon)));
            Assert.True(HasEnded(ProcessesOf("shop", status).Single()));
            Assert.Empty(Directory.GetFiles(Path.GetDirectoryName(Control)!));
        }
        finally
        {
            _ = HasEnded(daemon) ? 0 : Kill(daemon, CommandProcess.SigTerm);
        }
    }

    [Fact]
    public async Task A_daemon_that_nohup_has_started_goes_on_without_its_terminal()
    {
        Write(App("shop", _shop));
        string log = Path.Combine(_directory.Path, "log");
        await using var terminal = InTerminal($"exec >'{log}' 2>&1 nohup dotnet");
        await WaitForAsync(async () => System.IO.File.Exists(log) && (await System.IO.File.ReadAllTextAsync(log)).Contains("shop: generation 1 serves", StringComparison.Ordinal));
        int daemon = JsonDocument.Parse(await StatusAsync()).RootElement.GetProperty("process").GetInt32();

        terminal.Signal(CommandProcess.SigKill);
        await Task.Delay(500);
        Assert.Equal(0, Kill(daemon, SigHup));
        await Task.Delay(1_000);

        Assert.Equal("", await _client.GetStringAsync(_shop + "/title"));
        Assert.Equal((0, $"{File}: 0 of 1 applications deployed, 0 taken away\n", ""), await DoAsync("reload"));
        Assert.Equal(0, (await DoAsync("shutdown")).ExitCode);
        await WaitForAsync(() => Task.FromResult(HasEnded(daemon)));
    }

    [Fact]
    public async Task A_reload_that_is_asked_for_by_SIGHUP_in_the_first_moments_of_a_daemon_does_not_end_it()
    {
        Write(App("shop", _shop));
        var daemon = CommandProcess.Millrace("serve", File);
        _daemons.Add(daemon);
        while (!Directory.Exists(Sockets))
        {
            await Task.Delay(1);
        }
        for (int i = 0; i < 20; i++)
        {
            daemon.Signal(SigHup);
            await Task.Delay(5);
        }
        await daemon.WaitForOutputAsync("shop: generation 1 serves");
        Assert.Equal("", await _client.GetStringAsync(_shop + "/title"));
    }

    private CommandProcess InTerminal(string how) => CommandProcess.StartProgram(
        "script", "--quiet", "--command", $"{how} '{CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command")}' serve '{File}'; true", "/dev/null");
}
