// `millrace serve FILE`: one daemon for the applications of a file. What it does is in Serving/; here are its start, its signals and its end.

using System.CommandLine;
using Millrace.Command.Running;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;
using Millrace.Listeners;

namespace Millrace.Command.Verbs;

internal static class ServeVerb
{
    private const string OwnFolder = "The daemon's sockets lie in a folder of its own, closed to others: name one that is not there yet, such as \"control\": \"/run/millrace/control.sock\".";

    private static readonly TimeSpan s_lastWords = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan s_killed = TimeSpan.FromSeconds(15);

    private static readonly Help s_help = new(
        Examples:
        [
            ("millrace serve /etc/millrace/millrace.json", "starts every application of the file, and keeps it running"),
            ("millrace serve", "the same for millrace.json in this folder"),
        ],
        ExitCodes:
        [
            (ExitCode.Success, "stopped by a signal or by `millrace shutdown`"),
            (ExitCode.Failure, "the control socket cannot be made, another daemon has it, or processes were left that did not come to their end"),
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
        bool isReloadWanted = false;        // before there was a daemon to be asked
        using var early = DaemonSignals.TakeHangUp(() => isReloadWanted = true);
        Inheritance.End();
        var image = CommandImage.OfProcess();
        var state = CommandImage.TakeState();
        var file = state is null ? ServeFileSource.Read(ServeFileSource.Find(named)) : null;
        var places = state?.Places ?? file!.Places;
        OwnDirectory.Prepare(Path.GetDirectoryName(places.Control)!, group: null, OwnFolder, OwnFolder);
        using var socket = Listen(places, state);
        using var sockets = state is null ? SocketsOfOne.Take(places.Control) : SocketsOfOne.Resume(state.Lock);
        ProcessStart.Prepare();
        using var manager = ServiceManager.OfProcess(console.Steady.Say);
        var stopping = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var killed = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        Daemon? daemon = null;      // a signal may come before it is there: to take over what another one has left takes its time
        ControlServer? control = null;
        using var signals = new DaemonSignals(() => stopping.TrySetResult(), () => Kill(daemon, killed), HungUp);
        early.Dispose();
        Posix.TakeWaitingSignals();
        var left = state ?? await new Adoption(Path.GetDirectoryName(places.Control)!, console.Steady.Say).TakeAsync();
        SocketsOfOne.RemoveLeft(places.Control, (left?.Instances ?? []).Select(static instance => instance.Id).ToHashSet());
        daemon = left is null ? new Daemon(file!, console) : Resume(left, console, file);
        daemon.BeginToWrite();
        daemon.Stored = StoredSockets.Of(manager, state is null ? Environment.GetEnvironmentVariable : static _ => null, Environment.ProcessId);
        using var upgrading = new Upgrading(image, console, manager, stopping.Task);
        await using var listening = control = await ControlServer.StartAsync(socket, daemon, () => stopping.TrySetResult(), upgrading);
        upgrading.Attach(daemon, control, sockets);
        console.Steady.Say(state is null
            ? $"serving {daemon.File.CountText} of {daemon.File.Path}; `{StatusOf(daemon.File.Places)}` shows them"
            : $"Millrace {Daemon.Version} serves {daemon.File.CountText} of {daemon.File.Path} in the place of {state.Millrace}; `{StatusOf(daemon.File.Places)}` shows them");
        var started = TellWhenStartedAsync(daemon.StartAsync(), daemon.File.StartPatience, () => manager.TellReady(daemon.Summary));
        _ = isReloadWanted ? ReloadAsync(console, daemon, manager, control) : Task.CompletedTask;
        await stopping.Task;
        manager.TellStopping();
        console.Steady.Say("stopping: requests that are under way are answered first (Ctrl+C once more ends them)");
        var ended = EndAsync(daemon, started);
        if (await Task.WhenAny(ended, GiveUpAsync(killed.Task)) != ended)
        {
            console.Steady.Say("not all applications have come to their end: a file system or a device keeps a process, or the daemon itself. They are left as they are");
            await console.Steady.FlushAsync(s_lastWords);
            return ExitCode.Failure;
        }
        await ended;
        await console.Steady.FlushAsync(s_lastWords);
        return ExitCode.Success;

        void HungUp()
        {
            isReloadWanted |= daemon is null;
            _ = daemon is null ? Task.CompletedTask : ReloadAsync(console, daemon, manager, control);
        }
    }

    private static void Kill(Daemon? daemon, TaskCompletionSource killed)
    {
        killed.TrySetResult();
        daemon?.Kill();
    }

    private static async Task EndAsync(Daemon daemon, Task started)
    {
        await Task.Run(async () => await daemon.DisposeAsync());
        await started;
    }

    // Whoever has pressed Ctrl+C twice is not kept by what no signal ends.
    private static async Task GiveUpAsync(Task killed)
    {
        await killed;
        await Task.Delay(s_killed);
    }

    private static Daemon Resume(DaemonState state, CommandConsole console, ServeFile? wanted)
    {
        try
        {
            return new Daemon(state, console, wanted);
        }
        catch (Exception error) when (error is InstanceException or MillraceStartException or IOException)
        {
            throw new CommandFailure(ExitCode.Failure, $"The applications that run cannot be looked after: {error.Message}");
        }
    }

    private static string StatusOf(DaemonPlaces places) => places.Control == ServeFileSource.Defaults.Control ? "millrace status" : $"millrace status --control {places.Control}";

    private static ListenSocket Listen(DaemonPlaces places, DaemonState? state)
    {
        if (state?.Control is { } kept && ResumedListeners.TryTake(kept.Descriptor, ListenAddress.Parse(kept.Address), kept.File) is { } resumed)
        {
            return resumed;
        }
        try
        {
            return ControlServer.Listen(places.Control);
        }
        catch (MillraceStartException error)
        {
            throw new CommandFailure(ExitCode.Failure, $"{error.Message} If a daemon of yours has it, `{StatusOf(places)}` shows what it serves; a second one needs a \"control\" of its own in its file.");
        }
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
        try
        {
            console.Steady.Say((await daemon.ReloadAsync()).Message);
        }
        finally
        {
            manager.TellReady(daemon.Summary);      // who has asked waits for it, however it ends
        }
    }
}
