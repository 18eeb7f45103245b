// Applications that somebody holds: their processes end, and who comes is answered 503 until they are released; or waits first, for as long as the hold says.

namespace Millrace.Command.Serving;

internal sealed partial class HostedApp
{
    /// <summary>For how long visitors may wait while it is held.</summary>
    public static readonly (TimeSpan Min, TimeSpan Max) QueueTimes = (TimeSpan.FromSeconds(1), TimeSpan.FromHours(1));

    private bool _isHeldOnRequest;
    private int _holds;
    private DateTimeOffset? _queueUntil;     // of a hold in which visitors wait, and what becomes of it then
    private byte[]? _page;      // null: the daemon's own
    private string _queueReason = "";

    /// <summary>Ends its processes; its addresses answer 503.</summary>
    /// <param name="reason">Who wants that, or why.</param>
    /// <param name="page">What visitors see; null: a page of the daemon's.</param>
    /// <param name="queue">For how long visitors wait before that, for the release; null: not at all.</param>
    public Task<string?> HoldAsync(string reason, byte[]? page, TimeSpan? queue) => DoInsteadAsync(async () =>
    {
        if ((await TryOpenAsync(LostAddress.GoesOn) ?? (queue is null ? await AnswerHeldAsync(page) : await _standIns.TryWaitAsync(_listeners!))) is { } error)
        {
            return error;
        }
        var left = Leave(hasSuccessor: queue is not null);
        string until = queue is { } time ? $"; who comes waits for up to {Duration.Text(time)}" : "";
        (_isHeldOnRequest, _page, _queueReason, _queueUntil) = (true, page, reason, DateTimeOffset.UtcNow + queue);
        Become(AppState.Held, reason + until, $"held: {reason}{until}");
        _changed();
        string? givenUp = await WaitAsync(queue is { } most ? Task.WhenAny(left, Task.Delay(most)) : left, _turns.WhilePatient());
        if (givenUp is null && !left.IsCompleted)
        {
            await EndQueueAsync();      // they have waited for the end of what is in progress for as long as they were to wait
            givenUp = await WaitAsync(left, _turns.WhilePatient());
        }
        _ = _queueUntil is { } end ? EndQueueAsync(++_holds, end) : null;
        return givenUp;
    });

    // From now on who comes is answered, and so is who has waited.
    private async Task<string?> AnswerHeldAsync(byte[]? page)
    {
        _holds++;
        await _standIns.AnswerAsync(_listeners, page);
        await _standIns.LeaveDoorAsync();
        return null;
    }

    private async Task EndQueueAsync(int hold, DateTimeOffset end)
    {
        TimeSpan left = end - DateTimeOffset.UtcNow;
        if (!await PassesAsync(left > TimeSpan.Zero ? left : TimeSpan.Zero))
        {
            return;
        }
        await DoAsync(async () =>
        {
            if (State == AppState.Held && _isHeldOnRequest && _holds == hold)
            {
                await EndQueueAsync();
            }
            return null;
        });
    }

    private async Task EndQueueAsync()
    {
        _queueUntil = null;
        await AnswerHeldAsync(_page);
        Become(AppState.Held, _queueReason, "held for as long as visitors were to wait: who waits, and who comes, is answered 503");
    }
}
