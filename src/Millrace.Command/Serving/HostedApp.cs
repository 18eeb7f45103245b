// One application of the daemon: its listeners, the generation that serves, and the one that is on its way. What is asked of it is done one thing
// after the other. While no generation serves, and the application is not stopped, its addresses answer 503.
//
//   Starting --> Serving <--> Deploying (the old generation serves until the new one does)
//      |            |
//      v            v
//   Waiting       Held       Stopped      Idle
//   (tries again) (until it is started    (until somebody comes)
//                  or reloaded)

using System.Globalization;
using Millrace.Command.Running;

namespace Millrace.Command.Serving;

internal sealed partial class HostedApp : IAsyncDisposable
{
    private static readonly TimeSpan s_tryAgainMin = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan s_tryAgainMax = TimeSpan.FromSeconds(60);
    private static readonly TimeSpan s_queuePatience = TimeSpan.FromSeconds(1);

    private readonly DaemonFolders _folders;
    private readonly AppVoice _voice;
    private readonly AppTurns _turns;
    private readonly Lock _lock = new();
    private readonly LeavingGenerations _leaving = new();
    private readonly AppCode _code;
    private readonly UpgradeGate _gate = new();
    private readonly TaskCompletionSource _addressesClosed = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly Action _changed;
    private Generation? _coming;
    private Task? _watching;
    private AppListeners? _listeners;
    private HeldResponder? _held;
    private Task _heldBefore = Task.CompletedTask;      // one that does not end is followed by none
    private Generation? _current;
    private int _generations;
    private int _attempts;
    private int _deployments;
    private Task? _ended;
    private int? _scaled;

    /// <param name="settings">What it is.</param>
    /// <param name="folders">Where the daemon keeps what it makes.</param>
    /// <param name="voice">Where its output goes.</param>
    /// <param name="changed">Is called when something has changed that a daemon has to know which comes behind this one; null: none does.</param>
    public HostedApp(AppSettings settings, DaemonFolders folders, AppVoice voice, Action? changed = null)
    {
        _changed = changed ?? (static () => { });
        _turns = new AppTurns(voice.WhyItEnds, _changed);
        Settings = settings;
        _folders = folders;
        _voice = voice;
        _code = new AppCode(folders, voice, Happened);
        Traffic = new TrafficWatch(() => _current?.Instances ?? []);
    }

    public AppSettings Settings { get; private set; }

    public AppState State { get; private set; } = AppState.Stopped;

    public bool IsDeploying => State == AppState.Deploying && !_turns.IsUnwanted;       // and nobody has said otherwise by now

    /// <summary>Why it does not serve, or why the last deployment did not come about.</summary>
    public string? Reason { get; private set; }

    public AppOutput Output => _voice.Output;

    public TrafficWatch Traffic { get; }

    public AppInstance? PoolProcess => Settings.Pool is null ? null : _current?.Instances.FirstOrDefault(static instance => !instance.Exited.IsCompleted);

    /// <summary>Whether it has been told to be this already, and is not kept from it by a deployment that did not come about.</summary>
    public bool Is(AppSettings settings) => Settings.IsSame(settings) && (_current is { } current ? current.Settings.IsSame(settings) : State is not (AppState.Waiting or AppState.Held) || _isHeldOnRequest);

    /// <summary>The file has been read again, and it is to be what it is.</summary>
    public void Keep(AppSettings settings) => Settings = settings;

    /// <summary>Starts it, or its next generation where one serves. The answer is why that has not come about, or null. When what is under way has ended, <paramref name="unless"/> may say that nothing is to be done.</summary>
    public Task<string?> DeployAsync(Func<bool>? unless = null) => DoAsync(async () =>
    {
        (_attempts, _watching) = (0, _watching ?? Task.Run(DeployChangesAsync));
        return unless?.Invoke() == true ? null : await DeployOnceAsync();
    });

    /// <summary>Ends its processes, and closes its addresses.</summary>
    public Task<string?> StopAsync() => DoInsteadAsync(StopNowAsync);

    /// <summary>Ends its processes, and starts new ones when they have ended. Who comes meanwhile waits.</summary>
    public Task<string?> RestartAsync() => DoInsteadAsync(async () =>
    {
        Happened("its processes are ended, and started again");
        await LeaveAsync(wait: true);
        _attempts = 0;
        return await DeployOnceAsync();
    });

    /// <summary>Ends its processes at once, also those that are being drained.</summary>
    public void Kill()
    {
        _current?.KillAll();
        _leaving.KillAll();
    }

    /// <summary>Ends, once it is stopped for good, when its addresses may be another's. What is in progress goes on.</summary>
    public Task AddressesClosed => _addressesClosed.Task;

    /// <summary>Stops it for good. Any number of times: whoever is second waits for the same end.</summary>
    public ValueTask DisposeAsync()
    {
        lock (_lock)
        {
            return new ValueTask(_ended ??= EndAsync());
        }
    }

    private async Task EndAsync()
    {
        await _turns.EndAsync(StopNowAsync);
        await (_watching ?? Task.CompletedTask);
    }

    private async Task<string?> StopNowAsync()
    {
        var left = LeaveAsync(wait: true, hasSuccessor: _isForNext);
        await (_isForNext ? left : Task.WhenAny(left, Task.Delay(s_queuePatience)));      // who waits in a queue is accepted first; nobody is to wait there for the end of what is in progress
        await CloseListenersAsync();
        _ = _turns.IsEnding && _addressesClosed.TrySetResult();
        await left;
        _listeners = null;      // what is written down says until then where the processes are
        Become(AppState.Stopped, reason: null, "stopped");
        return null;
    }

    // ---- one after the other ----

    private async Task<string?> DeployOnceAsync()
    {
        int number = ++_deployments;
        (_isHeldOnRequest, _page, _queueUntil) = (false, null, null);
        Become(_current is null ? AppState.Starting : AppState.Deploying, _attempts > 0 ? Reason : null, what: null);
        string? error = await TryOpenAsync() ?? await TryStartAsync();
        if (error is null)
        {
            _attempts = 0;
            Become(AppState.Serving, reason: null, string.Create(CultureInfo.InvariantCulture, $"generation {_current!.Number} serves"));
            return null;
        }
        if (_turns.IsUnwanted || _isForNext)       // who waits goes on waiting, for the next daemon
        {
            Become(_current is null ? AppState.Waiting : AppState.Serving, error, $"the next generation is given up: {error}");
            _turns.GiveUp(number);
            if (_current is null)
            {
                TryAgainLater(number);      // unless whoever has asked for that, and is next, has something else done with it
            }
            return error;
        }
        if (_current is not null)
        {
            Become(AppState.Serving, error, string.Create(CultureInfo.InvariantCulture, $"the next generation did not come about, and {_current.Number} goes on: {error}"));
            return error;
        }
        Become(AppState.Waiting, error, $"it did not start: {error}");      // before anybody is answered 503: who is, and looks, finds why
        await HoldOnAsync();
        await LeaveDoorAsync();
        TryAgainLater(number);
        return error;
    }

    private async Task<string?> TryStartAsync()
    {
        Generation? next = null;
        using var wanted = _turns.WhileWanted();
        var settings = Settings;        // a process that is put in the place of another is what that one was
        try
        {
            var (app, code) = await _code.FindAsync(settings, ++_generations, wanted.Token);
            _ = settings.IsRouter ? _folders.Shared : null;
            _coming = next = new Generation(SettingOf(_generations, settings, app, code), _scaled ?? settings.Instances) { Way = Way };
            await next.StartAsync(settles: _current is not null, wanted.Token);
            SayLimits(next);
            await LetGoAsync();
            next.MayServe = true;
            _changed();
            await next.ListenAsync(wanted.Token);
            await LeaveDoorAsync();
        }
        catch (Exception error)     // whatever it is: the application is as it was, and can be asked again
        {
            if (next is { MayServe: true })
            {
                _ = _leaving.Add(next, hasSuccessor: _current is not null);       // of its processes some may accept: what they serve is answered first
            }
            else
            {
                next?.KillAll();
                next?.Dispose();
            }
            _coming = null;
            return error is OperationCanceledException ? _turns.WhyGivenUp : error.Message;
        }
        var before = _current;
        (_current, _coming) = (next, null);
        _changed();
        _ = WatchAsync(next);
        _ = settings is { OnDemand: true, Idle: { } idle } ? StopWhenIdleAsync(next, idle) : null;
        await (before is null ? Task.CompletedTask : _leaving.Add(before, hasSuccessor: true));      // whoever is told that this serves, and looks, finds no other
        return null;
    }

    private GenerationSetting SettingOf(int number, AppSettings settings, RunnableApp app, CodeSnapshot? code) => new(
        number,
        settings,
        app,
        code,
        id => new InstanceStart(id, settings, app, _listeners!, _folders.Sockets, Output) { Shared = settings.IsRouter ? _folders.Shared : null, Groups = _folders.Groups, EndsWithParent = _voice.IsAlone },
        OpenAgainAsync,
        Happened,
        _changed,
        _gate);

    // What somebody has held stays held.
    private async Task DeployChangesAsync()
    {
        try
        {
            while (true)
            {
                await _code.WaitForChangeAsync(_turns.Ending);
                await DoAsync(async () =>
                {
                    if (State is AppState.Stopped or AppState.Idle || _isHeldOnRequest)
                    {
                        _code.LeaveUnwatched();
                        return null;
                    }
                    if (!await _code.HasChangedAsync(_turns.Ending))
                    {
                        return null;        // somebody has deployed it meanwhile
                    }
                    Happened("its files have changed: the next generation is on its way");
                    _attempts = 0;
                    return await DeployOnceAsync();
                });
            }
        }
        catch (OperationCanceledException)
        {
            // The daemon stops.
        }
        catch (Exception error)     // whatever it is: the daemon's end waits for this, and is not to fail of it
        {
            Happened($"changes of its files are not looked for any more: {error.Message}");
        }
    }

    private async Task WatchAsync(Generation generation)
    {
        var (reason, isOfApp) = await generation.Failed;
        await DoAsync(async () =>
        {
            if (_current == generation)
            {
                await HoldOnAsync();
                await LeaveAsync(wait: true);
                Become(isOfApp ? AppState.Held : AppState.Waiting, reason, isOfApp ? $"held: {reason}" : $"it does not run: {reason}");
                if (!isOfApp)
                {
                    TryAgainLater(_deployments);
                }
            }
            return null;
        });
    }

    // Unless somebody has asked meanwhile: what he has begun tries again by itself.
    private void TryAgainLater(int deployment)
    {
        if (!Settings.TriesAgain)
        {
            return;
        }
        double pauseMs = Math.Min(s_tryAgainMax.TotalMilliseconds, s_tryAgainMin.TotalMilliseconds * Math.Pow(2, _attempts++));
        _ = Task.Run(async () =>
        {
            if (await PassesAsync(TimeSpan.FromMilliseconds(pauseMs)))
            {
                await DoAsync(async () => State == AppState.Waiting && _deployments == deployment ? await (_listeners is null ? BeginOnceAsync() : DeployOnceAsync()) : null);
            }
        });
    }

    // Unless it ends before.
    private async Task<bool> PassesAsync(TimeSpan pause)
    {
        await Task.Delay(pause, _turns.Ending).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        return !_turns.IsEnding;
    }

    private async Task LeaveAsync(bool wait, bool hasSuccessor = false)
    {
        var before = _current;
        _current = null;
        _ = before is null ? null : _leaving.Add(before, hasSuccessor);
        await (wait ? _leaving.Ended : Task.CompletedTask);
    }

    private async Task HoldOnAsync() => _held ??= _listeners is not null && _heldBefore.IsCompleted ? await HeldResponder.StartAsync(_listeners) : null;

    private async Task LetGoAsync()
    {
        if (_held is { } held)
        {
            _held = null;
            _heldBefore = await held.EndAsync(_listeners);
        }
    }
}
