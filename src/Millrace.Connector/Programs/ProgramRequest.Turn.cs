// The turn of a request at its program. It begins or it is over, whichever comes first: a pool that has answered for it may still have a process begin it.

namespace Millrace.Connector;

internal sealed partial class ProgramRequest
{
    private static readonly TaskCompletionSource s_neverBegun = NeverBegun();

    private TaskCompletionSource? _turn;        // null: it has not begun, and may

    /// <summary>Has the program answer. Where it hands over to a file nothing of a body has been written.</summary>
    /// <param name="connections">To the program.</param>
    /// <param name="leaving">The request is given up: the visitor has left, or its time is over. The context is not touched any more soon after.</param>
    /// <exception cref="ConnectorException">There is no whole answer. The response may have started.</exception>
    /// <exception cref="TimeoutException">The program has said nothing for too long. The response may have started.</exception>
    /// <exception cref="OperationCanceledException">The request has been given up.</exception>
    public async Task<bool> RunAsync(IProgramConnections connections, CancellationToken leaving)
    {
        var turn = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        if (Interlocked.CompareExchange(ref _turn, turn, null) is not null)
        {
            throw new OperationCanceledException("The request is over.");
        }
        try
        {
            Leaving = leaving;
            await AskAsync(connections).ConfigureAwait(false);
            return true;
        }
        finally
        {
            _ = turn.TrySetResult();
        }
    }

    /// <summary>Ends when the context is not touched any more, although <see cref="RunAsync"/> may wait for the program yet.</summary>
    public Task Released => _turn?.Task ?? Task.CompletedTask;

    /// <summary>See <see cref="Released"/>. Where <see cref="RunAsync"/> has not begun by now it never will.</summary>
    public Task EndTurnAsync() => (Interlocked.CompareExchange(ref _turn, s_neverBegun, null) ?? s_neverBegun).Task;

    /// <summary>Another process is asked.</summary>
    public void OpenTurn() => _turn = null;

    private static TaskCompletionSource NeverBegun()
    {
        var turn = new TaskCompletionSource();
        turn.SetResult();
        return turn;
    }
}
