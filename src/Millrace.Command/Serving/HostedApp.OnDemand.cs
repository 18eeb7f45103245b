// Applications that are started by whoever comes, and stopped when nobody has come for a while. Their addresses stay open, and their kept connections too.

namespace Millrace.Command.Serving;

internal sealed partial class HostedApp
{
    private Doorman? _doorman;

    /// <summary>As <see cref="DeployAsync"/>; one that is started on demand waits for its first visitor.</summary>
    public Task<string?> BeginAsync(AppSettings? settings = null) => settings is null || settings.IsSame(Settings) ? DoAsync(() => BeginWithAsync(settings)) : DoInsteadAsync(() => BeginWithAsync(settings));

    private async Task<string?> BeginWithAsync(AppSettings? settings)
    {
        _scaled = settings is null || settings.Instances == Settings.Instances ? _scaled : null;
        Settings = settings ?? Settings;
        _attempts = 0;
        _watching ??= Task.Run(DeployChangesAsync);
        return await BeginOnceAsync();
    }

    private async Task<string?> BeginOnceAsync()
    {
        if (!Settings.OnDemand || _current is not null)
        {
            return await DeployOnceAsync();
        }
        int number = ++_deployments;
        _isHeldOnRequest = false;
        string? error = await TryOpenAsync() ?? await TryWaitAtDoorAsync();
        if (error is null)
        {
            Become(AppState.Idle, reason: null, "waits for its first visitor");
            return null;
        }
        Become(AppState.Waiting, error, $"it did not start: {error}");
        TryAgainLater(number);
        return error;
    }

    private async Task<string?> TryWaitAtDoorAsync()
    {
        try
        {
            _doorman ??= new Doorman(_listeners!, Ring);
        }
        catch (MillraceStartException error)
        {
            return error.Message;
        }
        await LetGoAsync();
        return null;
    }

    private void Ring() => _ = Task.Run(() => DoAsync(async () =>
    {
        if (State != AppState.Idle)
        {
            return null;        // somebody else has rung, or it is stopped
        }
        Happened("somebody has come");
        _attempts = 0;
        return await DeployOnceAsync();
    }));

    // Who takes what the doorman has kept is there by now.
    private async Task LeaveDoorAsync()
    {
        var doorman = _doorman;
        _doorman = null;
        await (doorman?.LeaveAsync() ?? Task.CompletedTask);
    }

    private Task StopWhenIdleAsync(Generation generation, TimeSpan idle) =>
        IdleWatch.RunAsync(generation, idle, () => _current == generation, requests => DoAsync(() => StopIdleAsync(generation, requests, idle)), _turns.Ending);

    // Null: it is over with it, in one way or another.
    private async Task<string?> StopIdleAsync(Generation generation, long requests, TimeSpan idle)
    {
        if (_current != generation || State != AppState.Serving || _turns.IsEnding)
        {
            return null;
        }
        var visits = await generation.VisitsAsync(_turns.Ending);       // what was asked for before this may have taken its time
        if (visits.IsUnknown || visits.Count.Running > 0 || visits.Count.Requests != requests)
        {
            return "it is not idle";
        }
        if ((await TryOpenAsync() ?? await TryWaitAtDoorAsync()) is { } error)
        {
            Happened($"nobody comes, and it goes on: {error}");
            return error;
        }
        _current = null;
        _code.LeaveUnwatched();
        _ = _leaving.Add(generation, hasSuccessor: true);
        Become(AppState.Idle, reason: null, $"nobody has come for {Duration.Text(idle)}: its processes end, and the next visitor starts it");
        return null;
    }
}
