// `millrace serve FILE`: one daemon for the applications of a file. What it does is in Serving/; here are its start, its signals and its end.

using System.CommandLine;
using Millrace.Command.Running;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;

namespace Millrace.Command.Verbs;

internal static class ServeVerb
{
    private const string OwnFolder = "The daemon's sockets lie in a folder of its own, closed to others: name one that is not there yet, such as \"control\": \"/run/millrace/control.sock\".";

    private static readonly TimeSpan s_lastWords = TimeSpan.FromSeconds(1);

    private static readonly Help s_help = new(
        Examples:
        [
            ("millrace serve /etc/millrace/millrace.json", "starts every application of the file, and keeps it running"),
            ("millrace serve", "the same for millrace.json in this folder"),
        ],
        ExitCodes:
        [
            (ExitCode.Success, "stopped by a signal or by `millrace shutdown`"),
            (ExitCode.Failure, "the control socket cannot be made, or another daemon has it"),
            (ExitCode.Usage, "the command line or the file is wrong"),
        ]);

    public static System.CommandLine.Command Create(CommandConsole console)
    {
        var file = new Argument<string?>("FILE") { Description = "What to serve; default: millrace.json in this folder", Arity = ArgumentArity.ZeroOrOne };
        var command = new System.CommandLine.Command("serve", "Run the applications of a file: start, supervise, replace and reload them.") { file };
        command.SetAction((result, _) => RunAsync(console, result.GetValue(file)));
        return command.WithHelp(s_help);
    }

    private static async Task<int> RunAsync(CommandConsole console, string? named)
    {
        Inheritance.End();
        var file = ServeFileSource.Read(ServeFileSource.Find(named));
        OwnDirectory.Prepare(Path.GetDirectoryName(file.Places.Control)!, group: null, OwnFolder, OwnFolder);
        var stopping = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var daemon = new Daemon(file, console);
        using var manager = ServiceManager.OfProcess();
        ControlServer? control = null;
        using var signals = new DaemonSignals(() => stopping.TrySetResult(), daemon.Kill, own => _ = ReloadAsync(console, daemon, manager, control));
        await using var listening = control = await StartControlAsync(file.Places.Control, daemon, () => stopping.TrySetResult());
        using var sockets = SocketsOfOne.Take(file.Places.Control);
        console.Steady.Say($"serving {file.CountText} of {file.Path}; `millrace status` shows them");
        var started = TellWhenStartedAsync(daemon.StartAsync(), file.StartPatience, () => manager.TellReady(daemon.Summary));
        await stopping.Task;
        manager.TellStopping();
        console.Steady.Say("stopping: requests that are under way are answered first (Ctrl+C once more ends them)");
        await daemon.DisposeAsync();
        await started;
        await console.Steady.FlushAsync(s_lastWords);
        return ExitCode.Success;
    }

    // Whoever has started the daemon waits only so long, and ends it with all applications: one that is long in coming is the matter of nobody else.
    internal static async Task TellWhenStartedAsync(Task started, TimeSpan patience, Action tell)
    {
        if (await Task.WhenAny(started, Task.Delay(patience)) != started)
        {
            tell();
        }
        await started;
        tell();
    }

    private static async Task<ControlServer> StartControlAsync(string path, Daemon daemon, Action stop)
    {
        try
        {
            return await ControlServer.StartAsync(path, daemon, stop);
        }
        catch (MillraceStartException error)
        {
            throw new CommandFailure(ExitCode.Failure, $"{error.Message} If a daemon of yours has it, `millrace status` shows what it serves; a second one needs a \"control\" of its own in its file.");
        }
    }

    // Whom nobody can ask any more is told so.
    private static async Task ReloadAsync(CommandConsole console, Daemon daemon, ServiceManager manager, ControlServer? control)
    {
        manager.TellReloading();
        try
        {
            await (control?.RenewAsync() ?? Task.CompletedTask);
        }
        catch (Exception error) when (error is MillraceStartException or CommandFailure)
        {
            console.Steady.Say($"the control socket has gone, and cannot be made again: {error.Message}");
        }
        console.Steady.Say((await daemon.ReloadAsync()).Message);
        manager.TellReady(daemon.Summary);
    }
}
