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
    public Task<string?> RenewAsync() => DoAsync(async () => !IsLost ? null : State == AppState.Held ? await TryOpenAsync() : await BeginOnceAsync());

    /// <summary>Has whoever keeps them for the next daemon keep its addresses.</summary>
    public void KeepAddresses()
    {
        if (_listeners is { } listeners)
        {
            _folders.Stored.Keep(listeners.StoredAs, listeners.State);
        }
    }

    private async Task<string?> TryOpenAsync()
    {
        using var wanted = _turns.WhileWanted();
        return await TryOpenAsync(wanted.Token);
    }

    private async Task<string?> TryOpenAsync(CancellationToken ct)
    {
        try
        {
            if (_listeners is null)
            {
                _listeners = await AppListeners.OpenAsync(Settings, _folders, Addresses, which: null, ct);
                KeepAddresses();
            }
            else if (await OpenAgainAsync(ct))
            {
                return await StandInAgainAsync();
            }
            return null;
        }
        catch (Exception error) when (error is MillraceStartException or FormatException or CommandFailure or StandstillException or OperationCanceledException)
        {
            return error is OperationCanceledException ? _turns.WhyGivenUp : error.Message;
        }
    }

    // Who stands in for processes has copies of what was shut down, or lost.
    private async Task<string?> StandInAgainAsync()
    {
        if (_held is not null)
        {
            await LetGoAsync();
            await HoldOnWithPageAsync();
        }
        if (_doorman is null)
        {
            return null;
        }
        await LeaveDoorAsync();
        return await TryWaitAtDoorAsync();
    }

    private Task<bool> OpenAgainAsync(CancellationToken ct) => _listeners!.OpenAgainAsync(_folders, Addresses, Happened, ct);

    private async Task CloseListenersAsync()
    {
        if (_isForNext)
        {
            await LetGoAsync();
            await LeaveDoorAsync();
            _listeners?.Leave();
            return;
        }
        _doorman?.Dispose();
        _doorman = null;
        _heldBefore = _held is { } held ? await held.EndAsync(successor: null) : _heldBefore;
        _held = null;
        if (_listeners is { } listeners)
        {
            _folders.Stored.Forget(listeners.StoredAs, listeners.State);
            await listeners.CloseAsync(Addresses);
        }
    }
}
