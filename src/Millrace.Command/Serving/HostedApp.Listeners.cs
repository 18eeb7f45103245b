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

    /// <summary>Whether routers do not find it any more, though it could serve.</summary>
    public bool IsLost => State is AppState.Serving or AppState.Idle && _listeners?.IsLost(_folders) == true;

    /// <summary>Has whoever keeps them for the next daemon keep its addresses.</summary>
    public void KeepAddresses() => _folders.Stored.Keep(Settings.Name, _listeners?.State);

    private async Task<string?> TryOpenAsync()
    {
        using var wanted = WhileWanted();
        try
        {
            if (_listeners is null)
            {
                _listeners = await AppListeners.OpenAsync(Settings, _folders, Addresses, which: null, wanted.Token);
                KeepAddresses();
            }
            else if (await OpenAgainAsync(wanted.Token) && _held is not null)
            {
                await LetGoAsync();     // it has copies of what was shut down
                await HoldOnAsync();
            }
            return null;
        }
        catch (Exception error) when (error is MillraceStartException or FormatException or CommandFailure or StandstillException or OperationCanceledException)
        {
            return error is OperationCanceledException ? WhyGivenUp : error.Message;
        }
    }

    private Task<bool> OpenAgainAsync(CancellationToken ct) => _listeners!.OpenAgainAsync(Settings.Name, _folders, Addresses, Happened, ct);

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
            _folders.Stored.Forget(Settings.Name, listeners.State);
            await listeners.CloseAsync(Addresses);
        }
    }
}
