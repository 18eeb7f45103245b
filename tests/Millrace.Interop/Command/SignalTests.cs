// Signals that mean nothing to a server, sent to a real process under load: no request is lost. And the one that says that the
// terminal has gone.

using System.Diagnostics;
using System.Net.Sockets;
using System.Text;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public sealed class SignalTests : IDisposable
{
    private const int SigHup = 1;
    private const int SigUsr1 = 10;
    private const int SigUsr2 = 12;
    private const int Clients = 6;

    private readonly TemporaryDirectory _directory = new("signals");

    private string SocketPath => Path.Combine(_directory.Path, "s");

    private static string Hello => CommandProcess.AssemblyOf("samples/Hello", "Hello");

    public void Dispose() => _directory.Dispose();

    [Theory]
    [InlineData(SigHup, "SIGHUP")]
    [InlineData(SigUsr1, "SIGUSR1")]
    [InlineData(SigUsr2, "SIGUSR2")]
    public async Task A_signal_to_the_command_costs_no_request_and_is_one_line_in_the_log_of_the_app(int signal, string name)
    {
        // setsid: a service has no terminal, whatever these tests have.
        await using var app = CommandProcess.StartProgram(
            "setsid", "--wait", "env", "--default-signal=HUP,USR1,USR2", "dotnet", CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command"), "run", Hello, "--urls", "http://unix:" + SocketPath);
        await app.WaitForOutputAsync("listens on ");
        int command = int.Parse((await File.ReadAllTextAsync($"/proc/{app.Id}/task/{app.Id}/children")).Split(' ')[0], System.Globalization.CultureInfo.InvariantCulture);
        using var over = new CancellationTokenSource();
        Task<int>[] clients = [.. Enumerable.Range(0, Clients).Select(_ => Task.Factory.StartNew(() => AskUntil(over.Token), CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default))];
        for (int i = 0; i < 5; i++)
        {
            await Task.Delay(100);
            Send(command, signal);
        }

        await app.WaitForOutputAsync($"{name} has come, and does nothing here.");
        await Task.Delay(200);
        await over.CancelAsync();
        Assert.All(await Task.WhenAll(clients), static answers => Assert.True(answers > 0));
        Send(command, CommandProcess.SigTerm);
        Assert.Equal(0, await app.WaitForExitAsync());
        Assert.False(File.Exists(SocketPath));
    }

    [Fact]
    public async Task The_end_of_its_terminal_stops_the_app_as_SIGTERM_does()
    {
        string command = $"exec env --default-signal=HUP dotnet '{CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command")}' run '{Hello}' --urls 'http://unix:{SocketPath}'";
        await using var terminal = CommandProcess.StartProgram("script", "--quiet", "--command", command, "/dev/null");
        await terminal.WaitForOutputAsync("listens on ");
        Assert.True(File.Exists(SocketPath));

        terminal.Signal(9);

        for (long giveUpAt = Environment.TickCount64 + 20_000; File.Exists(SocketPath) && Environment.TickCount64 < giveUpAt;)
        {
            await Task.Delay(50);
        }

        Assert.False(File.Exists(SocketPath));      // an app that is ended at once leaves it behind
    }

    // Answers got on one kept connection.
    private int AskUntil(CancellationToken over)
    {
        using var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified) { ReceiveTimeout = 20_000 };
        socket.Connect(new UnixDomainSocketEndPoint(SocketPath));
        byte[] buffer = new byte[4096];
        int answers = 0;
        for (; !over.IsCancellationRequested; answers++)
        {
            socket.Send("GET /hello HTTP/1.1\r\nHost: example.com\r\n\r\n"u8);
            string answer = "";
            while (!(answer.Contains("chunked", StringComparison.Ordinal) ? answer.EndsWith("\r\n0\r\n\r\n", StringComparison.Ordinal) : answer.EndsWith("Hello, World!", StringComparison.Ordinal)))
            {
                int count = socket.Receive(buffer);
                Assert.True(count > 0, $"the connection ended after {answers} answers, in the middle of \"{answer}\"");
                answer += Encoding.ASCII.GetString(buffer, 0, count);
            }
        }

        return answers;
    }

    private static void Send(int process, int signal)
    {
        using Process kill = Process.Start("kill", [$"-{signal}", $"{process}"]);
        kill.WaitForExit();
        Assert.Equal(0, kill.ExitCode);
    }
}
