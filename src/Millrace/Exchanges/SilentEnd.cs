// Handlers that have been told that nobody may be waiting any more, and end as if nothing were. Much of the framework passes the request's own
// token on and swallows the exception (WriteAsJsonAsync, SendFileAsync, what writes an IAsyncEnumerable): what there is of the response by then
// is not all, and must not pass for it. Where a handler goes on after it has been told, its response is what it says.
//
//   the peer has finished sending      it may still listen: a write with the request's own token is none too many, and is written
//   a time limit has passed            it is refused, as any write with a cancelled token is

using Microsoft.Net.Http.Headers;

namespace Millrace.Exchanges;

internal static class SilentEnd
{
    /// <summary>For a write, a flush or a file that comes with a token which has been cancelled.</summary>
    /// <exception cref="OperationCanceledException">It is refused.</exception>
    public static void CheckWanted(this Exchange exchange, long ticket, CancellationToken cancelled)
    {
        if (!exchange.IsWantedStill(ticket, cancelled))
        {
            exchange.NoteRefusal(ticket);
            cancelled.ThrowIfCancellationRequested();
        }
    }

    /// <summary>The token is the request's own, and says no more than that the peer has finished sending.</summary>
    public static bool IsWantedStill(this Exchange exchange, long ticket, CancellationToken cancelled)
    {
        if (!exchange.TryUse(ticket, out ExchangeUse use))
        {
            return false;
        }

        using (use)
        {
            return exchange.Life.IsHalfClosed(cancelled);
        }
    }

    private static void NoteRefusal(this Exchange exchange, long ticket)
    {
        if (exchange.TryUse(ticket, out ExchangeUse use))
        {
            using (use)
            {
                exchange.Answer.NoteRefusal();
            }
        }
    }

    /// <summary>The handler has ended. What it has left off because it was told is as if it had let the exception pass.</summary>
    public static void ReportSilentEnd(this Exchange exchange)
    {
        if (HasGivenUp(exchange))
        {
            exchange.Report(new OperationCanceledException("The handler was told that nobody may be waiting any more, and ended without going on."));
        }
    }

    // A whole response is one, however it came about; so is one without a body where nothing speaks of one.
    private static bool HasGivenUp(Exchange exchange)
    {
        Answer answer = exchange.Answer;
        return exchange.Life.IsCancelled && exchange.Life.IsWatched && !exchange.Life.IsAborted && !exchange.IsUpgraded && !answer.WentOn && !answer.IsWhole
            && (answer.WasRefused || answer.Written > 0 || answer.Headers.ContainsKey(HeaderNames.ContentType));
    }
}
