// The answer of a program on its way to a visitor who may be slower.

using System.IO.Pipelines;

namespace Millrace.Connector;

internal sealed partial class ProgramRequest
{
    private AnswerAhead? _ahead;        // null: the visitor has kept pace
    private CancellationTokenSource? _sendStop;
    private long _roomTaken;

    /// <summary>Where what a slow visitor has not taken yet is kept; null: nowhere.</summary>
    public AnswerRoom? Room { get; init; }

    /// <summary>Where what does not fit there is kept; null: nowhere.</summary>
    public AnswerFiles? Files { get; init; }

    /// <summary>Ends when the visitor has what the program has answered. The program is free before.</summary>
    public Task SentAsync() => _ahead?.Sent ?? Task.CompletedTask;

    // No further than the visitor, and what may be kept for him.
    private async ValueTask ShowAsync(bool settles)
    {
        BeginVisitorWait();
        try
        {
            if (_ahead is { } ahead)
            {
                await ahead.WaitForRoomAsync(StopToken).ConfigureAwait(false);
                return;
            }
            ShowFirst();
            if (Room is null || !settles)
            {
                await _context.Response.BodyWriter.FlushAsync(Leaving).ConfigureAwait(false);
                return;
            }
            _sendStop ??= CancellationTokenSource.CreateLinkedTokenSource(_context.RequestAborted);
            ValueTask<FlushResult> flush = _context.Response.BodyWriter.FlushAsync(_sendStop.Token);
            if (!flush.IsCompleted && Room.TryTake(_options.AnswerBufferMax))
            {
                _roomTaken = _options.AnswerBufferMax;
                _ahead = new AnswerAhead(_context, _options.AnswerBufferMax, Files, flush.AsTask(), _sendStop);
                return;
            }
            using CancellationTokenRegistration leaving = Leaving.UnsafeRegister(static stop => ((CancellationTokenSource)stop!).Cancel(), _sendStop);
            await flush.ConfigureAwait(false);
        }
        finally
        {
            EndVisitorWait();
        }
    }

    /// <summary>Ends what is being sent yet: the context is not touched afterwards. Does nothing where all of it has been.</summary>
    public ValueTask StopSendingAsync() => _ahead is { Sent.IsCompleted: false } ahead ? ahead.StopAsync() : default;

    private void DisposeOfAhead()
    {
        _ahead?.Dispose();
        _sendStop?.Dispose();
        Room?.Return(_roomTaken);
    }
}
