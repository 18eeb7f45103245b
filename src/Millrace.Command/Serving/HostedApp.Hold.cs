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
            await LeaveAsync(wait: true, hasSuccessor: queue is not null);
            _isHeldOnRequest = true;
            string until = queue is { } time ? $"; who comes waits for up to {Duration.Text(time)}" : "";
            Become(AppState.Held, reason + until, $"held: {reason}{until}");
            _queueUntil = queue is { } most ? DateTimeOffset.UtcNow + most : null;
            (_page, _queueReason) = (page, reason);
            _ = queue is { } all ? EndQueueAsync(++_holds, all) : null;
        }
        return error;
    });

    // From now on who comes is answered, and so is who has waited.
    private async Task<string?> AnswerHeldAsync(byte[]? page)
    {
        _holds++;
        await HoldOnAsync();
        await LeaveDoorAsync();
        if (_held is { } held)
        {
            held.Page = page;
        }
        return null;
    }

    private async Task EndQueueAsync(int hold, TimeSpan queue)
    {
        try
        {
            await Task.Delay(queue, _ending.Token);
        }
        catch (OperationCanceledException)
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
