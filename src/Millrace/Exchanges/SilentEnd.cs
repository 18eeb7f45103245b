// Handlers that the time limit of their request (RequestTimeout) has been told to, and that end as if nothing were. Much of the framework passes the
// token of the request on and swallows its exception (WriteAsJsonAsync, SendFileAsync, what writes an IAsyncEnumerable): what there is of the response
// by then is not all, and must not pass for it. A handler that goes on after it has been told, and writes or sets a status, says what its response is.
// Where another body stands before the server's, bytes that come late may be no more than what that one had still in hand, and its proper end.
//
// Not where the peer has finished sending: its handlers are told as well, and their response is what they make of it. Since it may still listen, the request's own
// token neither refuses a write then nor ends one that waits, or SendFileAsync and WriteAsJsonAsync, which take it where they are given none, would make an
// empty 200 of it, or half of one.

using Microsoft.AspNetCore.Http;
using Microsoft.Net.Http.Headers;

namespace Millrace.Exchanges;

internal static class SilentEnd
{
    /// <summary>For a write, a flush or a file that comes with a token.</summary>
    /// <exception cref="OperationCanceledException">The token has been cancelled: it is refused.</exception>
    public static void CheckWanted(this Exchange exchange, long ticket, CancellationToken cancellationToken)
    {
        if (!cancellationToken.IsCancellationRequested)
        {
            return;
        }

        if (exchange.TryUse(ticket, out ExchangeUse use))
        {
            using (use)
            {
                if (exchange.Life.HasTimedOut)
                {
                    exchange.Answer.NoteRefusal();
                }
                else if (exchange.Life.Excuses(cancellationToken))
                {
                    return;
                }
            }
        }

        cancellationToken.ThrowIfCancellationRequested();
    }

    /// <summary>Whether a token that has been cancelled ends nothing of the response all the same: see <see cref="RequestLife.Excuses"/>.</summary>
    public static bool IsExcused(this Exchange exchange, long ticket, CancellationToken cancelled)
    {
        if (!exchange.TryUse(ticket, out ExchangeUse use))
        {
            return false;
        }

        using (use)
        {
            return exchange.Life.Excuses(cancelled);
        }
    }

    /// <summary>The handler has ended behind its time limit. What it has left off is as if it had let the exception pass.</summary>
    public static void Report(Exchange exchange)
    {
        try
        {
            if (exchange.Life.HasTimedOut && !exchange.Answer.IsWritten && HasLeftOff(exchange))
            {
                exchange.Report(new OperationCanceledException("The time limit of the request had passed, and its handler ended without going on."));
            }
        }
        catch (Exception error)
        {
            exchange.Report(error);     // two threads of the application have changed the fields at once
        }
    }

    // A whole response is one, however it came about; so is a status that was set before, where nothing speaks of a body.
    private static bool HasLeftOff(Exchange exchange)
    {
        Answer answer = exchange.Answer;
        return exchange.Life.IsWatched && !exchange.Life.IsUnwanted && !exchange.IsUpgraded && !answer.WentOn && !answer.IsWhole
            && (answer.WasRefused || answer.HasStarted || answer.Written > 0 || answer.StatusCode == StatusCodes.Status200OK || answer.Headers.ContainsKey(HeaderNames.ContentType));
    }
}
