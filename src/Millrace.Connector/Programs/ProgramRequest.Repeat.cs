// Which request is sent once more, when a connection or a process has ended: one of which nothing has been sent, or that may be sent twice, has been once, and has no answer yet.

using System.Net.Sockets;
using System.Runtime.ExceptionServices;

namespace Millrace.Connector;

internal sealed partial class ProgramRequest
{
    /// <summary>A request that ends whoever has it does so to no more of them.</summary>
    private const int TimesMax = 2;

    /// <summary>Processes that have ended before it could be asked of them: of a pool several may end at a time, and it learns of that a little later.</summary>
    private const int GoneMax = 8;

    private int _timesSent;         // connections over which bytes of it have gone

    /// <summary>Has one of several processes answer. Where it has died before it could another one is asked: of those that it was sent to, once.</summary>
    /// <param name="runAtFree">Gives the first that is free to the request.</param>
    public async Task RunAtFreeAsync(Func<Func<IProgramConnections, CancellationToken, Task<bool>>, Task> runAtFree)
    {
        for (int tries = 1; ; tries++)
        {
            try
            {
                await AnswerOrHandOverAsync(runAtFree).ConfigureAwait(false);
                return;
            }
            catch (ConnectorException error) when (!error.IsShortage && tries <= GoneMax && MayGoElsewhere)
            {
                // See above.
            }
            finally
            {
                await EndTurnAsync().ConfigureAwait(false);     // the pool has answered; the request may have been given up just now
            }
            OpenTurn();
        }
    }

    private bool MayGoElsewhere => !_context.RequestAborted.IsCancellationRequested && _upload is null && !_hasAnswered && (_timesSent == 0 || (_timesSent < TimesMax && IsRepeatable));

    // A process that had it and has ended the connection is most often ending itself: its second send is another process's.
    private bool MayBeSentAgain(PooledConnection connection, bool settles) =>
        !connection.HasAnswered && _upload is null && (!connection.HasSent || (!settles && _timesSent + 1 < TimesMax && IsRepeatable));

    // RFC 9110 §9.2.2: what may be sent twice.
    private bool IsRepeatable => _context.Request.Method is "GET" or "HEAD" or "OPTIONS";

    // ---- what it has failed by ----

    private bool IsOfConnection(Exception error, PooledConnection connection) => error switch
    {
        SocketException or OperationCanceledException or EndOfAnswerException => true,
        ObjectDisposedException => connection.IsClosed || _isSilent || HasLeft,
        ConnectorException => HasLeft,
        _ => false,
    };

    // Returns where the connection was one that the program had just ended, and nothing of the request can have been acted upon, or may be twice.
    private void ThrowUnlessAgain(Exception error, PooledConnection connection, bool settles)
    {
        if (error is not EndOfAnswerException)
        {
            if (HasLeft)
            {
                throw new OperationCanceledException("The visitor has left.", error, LeftToken);
            }
            if (_isSilent)
            {
                throw new TimeoutException(FormattableString.Invariant($"It has said nothing for {_options.ReadTimeout.TotalSeconds:0.###} s (ReadTimeout)."), error);
            }
        }
        _uploadFailure?.Throw();
        if (error is OperationCanceledException)
        {
            ExceptionDispatchInfo.Throw(error);
        }
        if (!connection.IsUsed || !MayBeSentAgain(connection, settles))
        {
            throw new ConnectorException(ConnectorFault.BrokenResponse, connection.HasForeign
                ? "It has answered another request than this one: a process that it has forked may write on its connection."
                : connection.HasAnswered
                ? "It has ended the connection in the middle of its response."
                : "It has ended the connection without an answer.", error);
        }
    }

    private sealed class EndOfAnswerException : IOException;
}
