// A daemon that becomes another program, in the same process: all that it has open and all that it has started stay what they are.

using Millrace.Command.Routing;
using Millrace.Command.Terminals;

namespace Millrace.Command.Serving;

internal sealed partial class Daemon
{
    private readonly ServeFile? _wanted;
    private volatile StateFile? _states;

    /// <summary>One that was there before. <see cref="StartAsync"/> has it go on.</summary>
    /// <param name="state">What has been written of it.</param>
    /// <param name="console">Where its output goes, and that of the applications.</param>
    /// <param name="wanted">What this one is to serve where another process has left the state; null: the same.</param>
    /// <exception cref="MillraceStartException">What has been written is not so.</exception>
    /// <exception cref="InstanceException">What has been written is not so.</exception>
    public Daemon(DaemonState state, CommandConsole console, ServeFile? wanted = null)
        : this(new ServeFile(wanted?.Path ?? state.File, wanted?.Places ?? state.Places, [.. state.Apps.Select(static app => app.Settings)]), console)
    {
        (_since, _upgrades, _wanted) = (state.Since, state.Upgrades, wanted);
        RouteKey.Resume(state.RouteSecret);
        if (wanted is null)
        {
            _folders.Groups.Resume(state.Groups);       // another process has groups of its own
        }
        _apps = [.. state.Apps.Select(app => HostedApp.Resume(app, _folders, AppVoice.Among(app.Settings.Name, _console.Steady), Note))];
    }

    /// <summary>From now on writes down what a daemon has to know that comes when this one has ended without a word.</summary>
    /// <exception cref="IOException">The folder of the sockets cannot be opened.</exception>
    public void BeginToWrite() => _states = new StateFile(_folders);

    // Any thread, and not while it holds a lock of an application's.
    private void Note()
    {
        if (_states?.Write(() => StateWith([.. _apps.Concat(_leaving.Keys).Select(static app => app.Saved with { Output = [] })])) is { } why)
        {
            _console.Steady.Say($"what this daemon runs cannot be written down in {_folders.Sockets} ({why}): should it be killed now, the next one would not find the processes that serve. Make room there; the next change is written again");
        }
    }

    /// <summary>What another program has to know, as it is now: for one that is only to say whether it understands it.</summary>
    public DaemonState State => StateWith([.. _apps.Select(static app => app.Saved)]);

    /// <summary>Waits until nothing is under way, and has what comes wait from then on. Until then all goes on: one application that is not done keeps nobody from what he wants of another.</summary>
    public async Task WaitUntilQuietAsync()
    {
        while (true)
        {
            await _one.WaitAsync();
            if (TryBeQuiet(out var busy))
            {
                return;
            }
            _one.Release();
            await busy;
        }
    }

    /// <param name="busy">Else: ends when it is worth another try.</param>
    private bool TryBeQuiet(out Task busy)
    {
        busy = Task.WhenAll(_leaving.Values);
        if (!busy.IsCompleted)
        {
            return false;
        }
        var quiet = new List<HostedApp>();
        foreach (var app in _apps)
        {
            if (!app.TryBeQuiet())
            {
                quiet.ForEach(static its => its.EndQuiet());
                busy = app.WaitForTurnAsync();
                return false;
            }
            quiet.Add(app);
        }
        return true;
    }

    /// <summary>What comes is done again.</summary>
    public void EndQuiet()
    {
        foreach (var app in _apps)
        {
            app.EndQuiet();
        }
        _one.Release();
    }

    /// <summary>From now on nothing happens to its applications: they serve, and nobody looks after them. Only while it is quiet.</summary>
    public async Task<DaemonState> PauseAsync() => StateWith(await Task.WhenAll(_apps.Select(static app => app.PauseAsync())));

    /// <summary>No other program has come.</summary>
    public Task GoOnAsync() => Task.WhenAll(_apps.Select(static app => app.GoOnAsync()));

    private DaemonState StateWith(IReadOnlyList<AppSaved> apps) => new(
        DaemonState.VersionNow, Version, _file.Path, _file.Places, _since, _upgrades, RouteKey.OfDaemon.Secret, Control: null, Lock: -1, _folders.Groups.State, apps);
}
