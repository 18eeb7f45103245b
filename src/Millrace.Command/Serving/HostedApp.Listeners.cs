// The addresses of an application: opened when it is needed first, and closed when it is stopped, unless somebody keeps them for the next daemon.

using Millrace.Command.Running;

namespace Millrace.Command.Serving;

internal sealed partial class HostedApp
{
    private readonly PatientLook _addresses = new();
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

    /// <summary>Why some of the addresses of these settings cannot be listened on, or null.</summary>
    public async Task<string?> WhyNotListenAsync(AppSettings settings, Func<string, bool> which)
    {
        try
        {
            await (await AppListeners.OpenAsync(settings, _folders, _addresses, which, _ending.Token)).CloseAsync(_addresses);
            return null;
        }
        catch (Exception error) when (error is MillraceStartException or CommandFailure or StandstillException)
        {
            return error.Message;
        }
        catch (OperationCanceledException)
        {
            return WhyGivenUp;
        }
    }

    private async Task<string?> TryOpenAsync()
    {
        using var wanted = WhileWanted();
        try
        {
            if (_listeners is null)
            {
                _listeners = await AppListeners.OpenAsync(Settings, _folders, _addresses, which: null, wanted.Token);
                KeepAddresses();
            }
            return null;
        }
        catch (Exception error) when (error is MillraceStartException or FormatException or CommandFailure or StandstillException)
        {
            return error.Message;
        }
        catch (OperationCanceledException)
        {
            return WhyGivenUp;
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
            _listeners = null;
            await listeners.CloseAsync(_addresses);
        }
    }
}
