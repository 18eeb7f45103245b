// What a connection is doing. Its loop's field: who else may do what meanwhile is in the word (Ownership.cs).
//
//                 handler called          ended in its turn
//   Receiving ─────────────────▶ Inline ───────────────────▶ Receiving
//     │  ▲  ▲                       │ it, or the loop, goes on elsewhere
//     │  │  └──────── Away ◀────────┘                    or from Receiving at once: to a worker, or a relay
//     │  │              │ not all of it has left
//     │  │ taken        ▼
//     │  └─────────── Sending
//     │ must wait     │ the last answer
//     ├────▶ Queued   ▼
//     └─────────▶ Lingering ──▶ Closed                   Closed: from every stage but Inline; from Away by a fault of the server alone
//
// By way of Receiving, which lasts no longer than the method: from Sending to Lingering, and from Queued to Inline or Away, or, where it is not served, to Sending or Lingering; it may stay there. Receiving goes to Sending
// too, where an answer that ended in its turn does not all leave. Lingering begins once more when a sign has been shown, and goes back to Receiving where
// the peer waits no longer for the response that failed.

namespace Millrace.Connections;

internal enum Stage : byte
{
    /// <summary>Between requests, in the middle of one that has not been given to a handler, or in the rest of one that has been answered.</summary>
    Receiving,

    /// <summary>A whole head has been read, and the limit of concurrent requests is reached.</summary>
    Queued,

    /// <summary>The handler is in its first, synchronous part on the loop. (An exchange, or a request, runs where it has a handler or a relay: in this stage or Away.)</summary>
    Inline,

    /// <summary>The exchange has outlived its turn, or was sent elsewhere at once. Still so when it has given the connection back, until the loop settles: then the word says that the loop owns it, and its exchange may serve another one.</summary>
    Away,

    /// <summary>The socket has not taken all of what the loop has to send. An exchange that waits for the socket itself is Away.</summary>
    Sending,

    /// <summary>The last answer is in the socket, and what still comes is thrown away, unless the peer may give a failed response up by it; where a response is broken, first until its bytes have reached the peer, then until the peer has seen the sign.</summary>
    Lingering,

    /// <summary>The descriptor is closed, or another server's.</summary>
    Closed,
}

/// <summary>How far the peer's end is known. The loop's.</summary>
internal enum PeerEnd : byte
{
    Open,

    /// <summary>An event has said that the peer has finished, or gone: what it sent before is read until the end shows.</summary>
    Noted,

    /// <summary>Nothing comes any more, also where this side has ended it (EndReceiving).</summary>
    Seen,
}

/// <summary>Whether the connection is about to end of itself.</summary>
internal enum Ending : byte
{
    None,

    /// <summary>It has answered in a drain, and is closed when its socket has been looked at. (One that was idle when the drain began has no ending: that it awaits its last look its deadline says,
    /// <c>ClosingConnection.AwaitsLastLook</c>, which whatever comes meanwhile replaces.)</summary>
    Leaving,

    /// <summary>The last answer has been written.</summary>
    WhenSent,
}

internal static class Stages
{
    /// <summary>It goes one way; but a connection whose response failed ends no more where its peer waits no longer for that response.</summary>
    public static bool MayFollow(this Ending next, Ending now, bool isBreaking) => (now, next) switch
    {
        (Ending.None, Ending.Leaving) => true,
        (_, Ending.WhenSent) => true,
        (Ending.WhenSent, Ending.None) => isBreaking,
        _ => false,
    };

    /// <summary>Whether a connection may go from one stage to another.</summary>
    public static bool MayFollow(this Stage next, Stage now) => (now, next) switch
    {
        (Stage.Receiving, Stage.Queued or Stage.Inline or Stage.Away or Stage.Sending or Stage.Lingering or Stage.Closed) => true,
        (Stage.Queued, Stage.Receiving or Stage.Closed) => true,
        (Stage.Inline, Stage.Receiving or Stage.Away) => true,
        (Stage.Away, Stage.Receiving or Stage.Sending or Stage.Closed) => true,
        (Stage.Sending, Stage.Receiving or Stage.Closed) => true,
        (Stage.Lingering, Stage.Lingering or Stage.Receiving or Stage.Closed) => true,
        _ => false,
    };
}
