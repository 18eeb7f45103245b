// The addresses of an application: opened when it is needed first, and closed when it is stopped, unless somebody keeps them for the next daemon.

using Millrace.Command.Running;

namespace Millrace.Command.Serving;

internal sealed partial class HostedApp
{
    private volatile bool _isForNext;   // what it listens on stays open for another daemon

    /// <summary>Stops it for good, while somebody keeps its addresses open for the next daemon, and the channel into which its connections go.</summary>
    public Task EndForNextAsync()
    {
        _isForNext = true;
        return DisposeAsync().AsTask();
    }

    /// <summary>Has whoever keeps them for the next daemon keep its addresses.</summary>
    public void KeepAddresses()
    {
        if (_listeners is { } listeners)
        {
            _folders.Stored.Keep(Settings.Name, listeners.State);
        }
    }

    private async Task<string?> TryOpenAsync()
    {
        try
        {
            if (_listeners is null)
            {
                _listeners = await AppListeners.OpenAsync(Settings, _folders);
                KeepAddresses();
            }
            return null;
        }
        catch (Exception error) when (error is MillraceStartException or FormatException or CommandFailure or StandstillException)
        {
            return error.Message;
        }
    }

    private async Task CloseListenersAsync()
    {
        if (_isForNext)
        {
            await LetGoAsync();
            await LeaveDoorAsync();
            _listeners?.Leave();
            _listeners = null;
            return;
        }
        _doorman?.Dispose();
        _doorman = null;
        _heldBefore = _held is { } held ? await held.EndAsync(successor: null) : _heldBefore;
        _held = null;
        if (_listeners is { } listeners)
        {
            _folders.Stored.Forget(Settings.Name, listeners.State);
            listeners.Dispose();
            _listeners = null;
        }
    }
}
