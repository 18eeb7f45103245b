// How a request ends whose handler has been told that nobody may be waiting any more, and gives up before the first byte:
//
//   a time limit has passed                           504: the peer still waits
//   the body ended too early, or is otherwise refused its status: a peer that has only finished sending still listens
//   the peer has gone, or has finished sending        nothing; hosting sees 499, which is no status of HTTP and never leaves

using Microsoft.AspNetCore.Http;

namespace Millrace.Exchanges;

internal sealed partial class Exchange
{
    /// <summary>Why the request was refused: what the application let pass, or reading its body threw.</summary>
    public BadHttpRequestException? Rejection { get; private set; }

    // Code of the application where the exception is its own, and the response has yet to end.
    private static string MessageOf(BadHttpRequestException bad)
    {
        try
        {
            return bad.Message;
        }
        catch (Exception error)
        {
            return $"(its message: {error.GetType().FullName})";
        }
    }

    /// <summary>No byte of this response leaves, and its connection ends: the handler has given up, and there is nothing to say.</summary>
    public bool IsUnanswered { get; private set; }

    // The exception handler of ASP.NET Core makes 499 of it before the server sees anything.
    private bool IsGivenUpByStatus => Life.IsCancelled && StatusCode == StatusCodes.Status499ClientClosedRequest;

    private void ReplaceGivenUp(Exception? error)
    {
        if (Life.HasTimedOut)
        {
            ReplaceByStatus(StatusCodes.Status504GatewayTimeout);
            return;
        }

        if ((Body.Error ?? error) is BadHttpRequestException bad)
        {
            ReplaceByError(bad);
            return;
        }

        ReplaceByStatus(StatusCodes.Status499ClientClosedRequest);
        IsUnanswered = true;
        IsCut |= !Life.IsGivenUp;
    }

    // The response has been completed, and may have arrived: it stays what it is, and what is sent behind it is the next one.
    private void FailBehindEnd(Exception error)
    {
        Rejection = error as BadHttpRequestException;
        if (!Life.IsCancelled || error is not (OperationCanceledException or IOException))
        {
            Services.Log.HandlerFailed(TraceIdentifier, error);
        }
    }
}
