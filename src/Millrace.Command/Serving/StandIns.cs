// Who stands in for the processes of an application while none of them serves: somebody who answers 503, or a doorman, with whom visitors wait.

using Millrace.Listeners;

namespace Millrace.Command.Serving;

/// <param name="ring">Is called when somebody has come to the doorman.</param>
internal sealed class StandIns(Action ring)
{
    private HeldResponder? _held;
    private Task _heldBefore = Task.CompletedTask;      // one that does not end is followed by none
    private Doorman? _doorman;

    /// <summary>Somebody answers 503.</summary>
    public bool IsAnswering => _held is not null;

    /// <summary>Visitors wait.</summary>
    public bool IsAtDoor => _doorman is not null;

    /// <summary>From now on who comes is answered 503.</summary>
    public async Task AnswerAsync(AppListeners? listeners) => _held ??= listeners is not null && _heldBefore.IsCompleted ? await HeldResponder.StartAsync(listeners) : null;

    /// <summary>The same with a page; null: the daemon's own.</summary>
    public async Task AnswerAsync(AppListeners? listeners, byte[]? page)
    {
        await AnswerAsync(listeners);
        _ = _held is { } held ? held.Page = page : null;
    }

    /// <summary>Nobody is answered 503 any more. Whom it has answered is given to whoever comes next.</summary>
    public async Task LetGoAsync(AppListeners? listeners)
    {
        if (_held is { } held)
        {
            _held = null;
            _heldBefore = await held.EndAsync(listeners);
        }
    }

    /// <summary>From now on who comes waits. The answer is why that cannot be, or null.</summary>
    public async Task<string?> TryWaitAsync(AppListeners listeners)
    {
        try
        {
            _doorman ??= new Doorman(listeners, ring);
        }
        catch (MillraceStartException error)
        {
            return error.Message;
        }
        await LetGoAsync(listeners);
        return null;
    }

    /// <summary>Who takes what the doorman has kept is there by now.</summary>
    public async Task LeaveDoorAsync()
    {
        var doorman = _doorman;
        _doorman = null;
        await (doorman?.LeaveAsync() ?? Task.CompletedTask);
    }

    /// <summary>Does what it does with what has been opened anew. The answer is why that cannot be, or null.</summary>
    public async Task<string?> BeginAgainAsync(AppListeners listeners, byte[]? page)
    {
        if (_held is not null)
        {
            await LetGoAsync(listeners);
            await AnswerAsync(listeners, page);
        }
        if (_doorman is null)
        {
            return null;
        }
        await LeaveDoorAsync();
        return await TryWaitAsync(listeners);
    }

    /// <summary>The addresses are about to be closed, and nobody comes next.</summary>
    public async Task EndAsync()
    {
        _doorman?.Dispose();
        _doorman = null;
        _heldBefore = _held is { } held ? await held.EndAsync(successor: null) : _heldBefore;
        _held = null;
    }

    /// <summary>The doorman of another program, with those whom it has kept.</summary>
    public void Resume(AppListeners listeners, IReadOnlyList<KeptState> kept) => _doorman = Doorman.Resume(listeners, ring, kept);

    /// <summary>For another program.</summary>
    /// <returns>Who waits; null: nobody does.</returns>
    public IReadOnlyList<KeptState>? PauseDoor() => _doorman?.Pause();

    /// <summary>No other program has come.</summary>
    public void GoOnAtDoor() => _doorman?.GoOn();
}
