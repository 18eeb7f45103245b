// An application while the daemon becomes another program: what is under way ends first, what is to be known is written down, and the other program goes on from
// there. Nothing of this reaches its processes.

using Millrace.Command.Running;

namespace Millrace.Command.Serving;

internal sealed partial class HostedApp
{
    private static readonly TimeSpan s_standInAgain = TimeSpan.FromSeconds(5);

    private bool _wasAnswering;     // 503, until the pause
    private ListenersState? _abandoned;     // addresses that are to be opened anew, and may be kept for the next daemon

    /// <summary>One that was there before. <see cref="GoOnServing"/> has it go on.</summary>
    /// <param name="saved">What has been written of it.</param>
    /// <param name="folders">Where the daemon keeps what it makes.</param>
    /// <param name="voice">Where its output goes.</param>
    /// <param name="changed">As for a fresh one.</param>
    public static HostedApp Resume(AppSaved saved, DaemonFolders folders, AppVoice voice, Action changed)
    {
        var app = new HostedApp(saved.Settings, folders, voice, changed)
        {
            State = saved.State,
            _stateSince = saved.StateSince ?? DateTimeOffset.UtcNow,
            Reason = saved.Reason is { } reason ? Sentence.Of(reason) : null,
            _generations = saved.Generations,
            _attempts = saved.Attempts,
            _scaled = saved.Scaled,
            _isHeldOnRequest = saved.IsHeldOnRequest,
            _queueUntil = saved.QueueUntil,
            _page = saved.Page,
            _queueReason = saved.QueueReason,
        };
        _ = app.TryBeQuiet();       // until it goes on
        saved.Events.ToList().ForEach(app._events.Add);
        app.Output.Resume(saved.Pipes, saved.Output, saved.Printed);
        app._code.Resume(saved.Settings, saved.Code, saved.IsBuildStale);
        try
        {
            app.TakeOver(saved);
        }
        catch (Exception error)     // whatever it is: it keeps no other application from going on
        {
            app.BeginAnew(saved, error.Message);
        }
        return app;
    }

    private void TakeOver(AppSaved saved)
    {
        _listeners = saved.Listeners is { } listeners ? AppListeners.Resume(listeners, StoredSockets.KeyOf(saved.Settings)) : null;
        var current = saved.Current is { } its ? Resume(its) : null;
        Generation[] leaving = [.. saved.Leaving.Select(Resume)];
        _doorman = saved.Kept is { } kept ? Doorman.Resume(_listeners!, Ring, kept) : null;
        if (current is not null)
        {
            current.Way = saved.IsOnOtherWay ? -1 : Settings.IsRouter ? DaemonFolders.WayBefore : Way;      // what is resumed may have made the folder anew by now
        }
        (_current, _limitsSaid) = (current, current?.Limits ?? "");
        _leaving.Resume(leaving, (saved.Restarts, saved.Recycles));
    }

    // Nobody could look after its processes: they are ended, and what they accept on is closed.
    private void BeginAnew(AppSaved saved, string why)
    {
        saved.Abandon();
        (_listeners, _abandoned) = (null, saved.Listeners);
        _leaving.Resume([], (saved.Restarts, saved.Recycles));
        Happened($"its processes could not be taken over, and are ended: {why}");
        State = State is AppState.Stopped or AppState.Held ? State : AppState.Waiting;
    }

    /// <summary>Goes on where it was; once, of one that is resumed. What is asked of it before waits for that.</summary>
    public async Task GoOnServingAsync()
    {
        try
        {
            await GoOnServingOnceAsync();
        }
        finally
        {
            EndQuiet();
        }
    }

    private async Task GoOnServingOnceAsync()
    {
        if (_abandoned is { } abandoned)
        {
            _folders.Stored.Forget(abandoned.StoredAs ?? StoredSockets.KeyOf(Settings), abandoned);
        }
        _leaving.GoOn();
        if (_current is { } current)
        {
            current.GoOnServing();
            _ = WatchAsync(current);
            _ = current.Settings is { OnDemand: true, Idle: { } idle } ? StopWhenIdleAsync(current, idle) : null;
            bool wasDeploying = State == AppState.Deploying;
            State = AppState.Serving;
            _ = wasDeploying ? DeployLaterAsync(DeployOnceAsync) : null;        // its next generation was on its way, and has ended
        }
        else if (State is AppState.Serving or AppState.Deploying or AppState.Starting)
        {
            _ = DeployLaterAsync(BeginOnceAsync);       // all its processes have ended meanwhile
        }
        else if (_doorman is null && State != AppState.Stopped)
        {
            await StandInAsync();
        }
        _ = _queueUntil is { } until ? EndQueueAsync(++_holds, until) : null;
        if (State == AppState.Waiting)
        {
            _attempts = Math.Max(0, _attempts - 1);
            TryAgainLater(++_deployments);
        }
        _watching ??= Task.Run(DeployChangesAsync);
    }

    // In a turn of its own; whoever has waited for one meanwhile may have had something else done with it.
    private Task<string?> DeployLaterAsync(Func<Task<string?>> deploy)
    {
        var (state, deployments) = (State, _deployments);
        _attempts = 0;
        return DoAsync(async () => State == state && _deployments == deployments ? await deploy() : null);
    }

    // Its addresses may be open, or have been open in a process that has gone.
    private async Task<string?> StandInAsync()
    {
        string? error = await TryOpenAsync(_turns.Ending);
        bool waits = State == AppState.Idle || _queueUntil is not null;
        error ??= waits ? await TryWaitAtDoorAsync() : null;
        if (error is not null || !waits)
        {
            await HoldOnWithPageAsync();
        }
        if (error is null)
        {
            return null;
        }
        Happened($"nobody is let in: {error}");
        if (State == AppState.Held)
        {
            _ = StandInLaterAsync();
            return error;
        }
        Become(AppState.Waiting, error, what: null);
        return error;
    }

    private async Task StandInLaterAsync() => _ =
        await PassesAsync(s_standInAgain) ? await DoAsync(() => State == AppState.Held && _listeners is null ? StandInAsync() : Task.FromResult<string?>(null)) : null;

    // Answers 503 as it did before.
    private async Task HoldOnWithPageAsync()
    {
        await HoldOnAsync();
        _ = _held is { } held ? held.Page = _page : null;
    }

    /// <summary>Where nothing is under way: has what comes wait.</summary>
    public bool TryBeQuiet() => _turns.TryBeQuiet();

    /// <summary>Ends when what is under way has ended, and what has waited for that before.</summary>
    public Task WaitForTurnAsync() => DoAsync(static () => Task.FromResult<string?>(null));

    /// <summary>What comes is done again.</summary>
    public void EndQuiet() => _turns.EndQuiet();

    /// <summary>From now on nothing happens to it: its processes serve, and nobody looks after them. Only while it is quiet.</summary>
    /// <returns>All that another program has to know.</returns>
    public async Task<AppSaved> PauseAsync()
    {
        _gate.Close();
        await (_current?.PauseAsync() ?? Task.CompletedTask);
        await (_listeners?.PauseAsync() ?? Task.CompletedTask);
        _wasAnswering = _held is not null;
        await LetGoAsync();     // whom it has answered goes into the channel, and is taken out of it there
        var kept = _doorman?.Pause();
        var pipes = await Output.PauseAsync();
        return Saved with { Kept = kept, Pipes = pipes };
    }

    /// <summary>No other program has come.</summary>
    public async Task GoOnAsync()
    {
        Output.GoOn();
        _doorman?.GoOn();
        _listeners?.GoOn();
        if (_wasAnswering)
        {
            await HoldOnWithPageAsync();
        }
        _current?.GoOn();
        _gate.Open();
    }

    /// <summary>How it is now, without what is open only while it pauses.</summary>
    public AppSaved Saved
    {
        get
        {
            var (code, isStale) = _code.State;
            lock (_lock)
            {
                var leaving = _leaving.Now;
                return new AppSaved
                {
                    Settings = Settings,
                    State = State,
                    StateSince = _stateSince,
                    Reason = Reason,
                    Generations = _generations,
                    Restarts = leaving.Restarts,
                    Recycles = leaving.Recycles,
                    Attempts = _attempts,
                    Scaled = _scaled,
                    IsHeldOnRequest = _isHeldOnRequest,
                    Page = _page,
                    QueueUntil = _queueUntil,
                    QueueReason = _queueReason,
                    IsOnOtherWay = IsOnOtherWay,
                    Code = code,
                    IsBuildStale = isStale,
                    Listeners = _listeners?.State,
                    Current = _current?.State,
                    Leaving = [.. (_coming is { MayServe: true } coming ? leaving.All.Append(coming) : leaving.All).Select(static generation => generation.State)],
                    Events = _events.All,
                    Output = Output.HandedOver,
                    Printed = Output.Printed,
                };
            }
        }
    }

    private Generation Resume(GenerationState state)
    {
        var app = state.Settings.IsOfCommand ? AppTarget.FindApp(RouterSettings.Program) : state.App;     // that of the command as it is now
        return Generation.Resume(SettingOf(state.Number, state.Settings, app, state.Code is { } code ? _folders.Resume(code) : null), state);
    }
}
