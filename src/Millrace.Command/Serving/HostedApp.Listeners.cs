// The addresses of an application: opened when it is needed first, and closed when it is stopped, unless somebody keeps them for the next daemon.

using Millrace.Command.Running;

namespace Millrace.Command.Serving;

internal sealed partial class HostedApp
{
    private volatile bool _isForNext;   // what it listens on stays open for another daemon

    /// <summary>By whom they are looked at.</summary>
    public PatientLook Addresses { get; } = new();

    /// <summary>Stops it for good, while somebody keeps its addresses open for the next daemon, and the channel into which its connections go.</summary>
    public Task EndForNextAsync()
    {
        _isForNext = true;
        return DisposeAsync().AsTask();
    }

    /// <summary>Whether routers do not find it any more, or it is one and does not find its applications, because somebody has removed sockets.</summary>
    public bool IsLost => State is AppState.Serving or AppState.Idle or AppState.Held && (_listeners?.IsLost(_folders) == true || IsOnOtherWay);

    private bool IsOnOtherWay => _current is { } current && current.Way != Way;

    // From routers to applications: another number, another way.
    private int Way => Settings.IsRouter ? _folders.SharedWay : _listeners?.Way ?? 0;

    /// <summary>Where it is lost: has its next generation, or what stands in for it, be found. The answer is why that has not come about, or null.</summary>
    public Task<string?> RenewAsync() => DoAsync(async () => !IsLost ? null : State == AppState.Held ? await TryOpenAsync(LostAddress.GoesOn) : await BeginOnceAsync());

    /// <summary>Has whoever keeps them for the next daemon keep its addresses.</summary>
    public void KeepAddresses()
    {
        if (_listeners is { } listeners)
        {
            _folders.Stored.Keep(listeners.StoredAs, listeners.State);
        }
    }

    private async Task<string?> TryOpenAsync(LostAddress lost)
    {
        using var wanted = _turns.WhileWanted();
        return await TryOpenAsync(lost, wanted.Token);
    }

    private async Task<string?> TryOpenAsync(LostAddress lost, CancellationToken ct)
    {
        try
        {
            if (_listeners is null)
            {
                _listeners = await AppListeners.OpenAsync(Settings, _folders, Addresses, which: null, ct);
                KeepAddresses();
            }
            else if (await OpenAgainAsync(lost, ct))
            {
                return await _standIns.BeginAgainAsync(_listeners, _page);      // it has copies of what was shut down, or lost
            }
            return null;
        }
        catch (Exception error) when (error is MillraceStartException or FormatException or CommandFailure or StandstillException or OperationCanceledException)
        {
            return error is OperationCanceledException ? _turns.WhyGivenUp : error.Message;
        }
    }

    // Processes that accept are given what has been opened anew: their visitors find them there at once.
    private async Task<bool> OpenAgainAsync(LostAddress lost, CancellationToken ct)
    {
        if (_listeners is not { } listeners || !await listeners.OpenAgainAsync(_folders, Addresses, lost, Happened, ct))
        {
            return false;
        }
        await Task.WhenAll((_current?.Instances ?? []).Where(static instance => instance.ServesSince > 0).Select(instance => GiveAnewAsync(instance, ct)));
        return true;
    }

    private async Task GiveAnewAsync(AppInstance instance, CancellationToken ct)
    {
        try
        {
            await instance.TakeAnewAsync(ct);
        }
        catch (InstanceException error) when (!instance.Exited.IsCompleted)
        {
            Happened($"process {instance.ProcessId} does not listen at what has been opened anew, and the next one will: {error.Message}");
        }
        catch (InstanceException)
        {
            // Whatever comes in its place has it.
        }
    }

    private async Task CloseListenersAsync()
    {
        if (_isForNext)
        {
            await _standIns.LetGoAsync(_listeners);
            await _standIns.LeaveDoorAsync();
            _listeners?.Leave();
            return;
        }
        await _standIns.EndAsync();
        if (_listeners is { } listeners)
        {
            _folders.Stored.Forget(listeners.StoredAs, listeners.State);
            await listeners.CloseAsync(Addresses);
        }
    }
}
