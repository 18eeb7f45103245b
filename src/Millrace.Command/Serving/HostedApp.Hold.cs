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
        string? error = await TryOpenAsync() ?? (queue is null ? await AnswerHeldAsync(page) : await TryWaitAtDoorAsync());
        if (error is null)
        {
            DateTimeOffset? queueUntil = DateTimeOffset.UtcNow + queue;
            var left = LeaveAsync(wait: true, hasSuccessor: queue is not null);
            if (queue is { } most && await Task.WhenAny(left, Task.Delay(most)) != left)
            {
                queueUntil = null;      // they have waited for the end of what is in progress for as long as they were to wait
                _ = await AnswerHeldAsync(page);
            }
            await left;
            _isHeldOnRequest = true;
            string until = queueUntil is not null ? $"; who comes waits for up to {Duration.Text(queue!.Value)}" : "";
            Become(AppState.Held, reason + until, $"held: {reason}{until}");
            (_page, _queueReason, _queueUntil) = (page, reason, queueUntil);
            _ = queueUntil is { } end ? EndQueueAsync(++_holds, end) : null;
        }
        return error;
    });

    // From now on who comes is answered, and so is who has waited.
    private async Task<string?> AnswerHeldAsync(byte[]? page)
    {
        _holds++;
        await HoldOnAsync();
        await LeaveDoorAsync();
        _ = _held is { } held ? held.Page = page : null;
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
                _queueUntil = null;
                await AnswerHeldAsync(_page);
                Become(AppState.Held, _queueReason, "held for as long as visitors were to wait: who waits, and who comes, is answered 503");
            }
            return null;
        });
    }
}
