// How the connection of a request that has outlived its turn comes back: its exchange sends what there is to send, and gives it to the loop by one
// compare-exchange, or, where the loop has something to do then, by way of its posted work. Any thread.

using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connections;

internal abstract partial class SendingConnection<TKernel>
{
    private protected OutputBuffer? _rest;          // what an exchange that is away could not send
    private protected bool _keepsOpenBehindRest;
    private protected bool _hasLeftBefore;          // its peer has had all of the response since before the exchange ended, and may be sending its next request (Sender.IsEndSent does not tell: an end without bytes is never sent)
    private protected bool _countedByGate;

    // The loop's: what there is to go on with when nobody reads. An exchange that ends looks whether it has left something there, and gives
    // the connection back by way of the loop then. What the loop leaves there while the connection is lent it notes in the word as well
    // (NoteInput), since the exchange may have looked already. PostReason.Continue has the loop look at both in a later turn: held bytes first.
    private protected HeldInput _held;              // bytes that have been read, and that nobody could take yet
    private protected bool _readable;               // the socket may have more, or an end, of which no further event tells
    private protected volatile bool _receivingEnded;     // by this side (EndReceiving): the end that shows is no sign of the peer's

    protected bool IsHolding => !_held.IsEmpty;

    /// <summary>Whether the connection serves further requests after this one, as far as the protocol says. A question that changes nothing, asked by whoever ends the exchange, on any thread.</summary>
    protected abstract bool KeepsOpen(Exchange exchange);

    /// <summary>The response is not whole, and its exchange is over: what its peer is to see of that. Once, by whoever ends the exchange.</summary>
    protected abstract void NoteBroken(Exchange exchange);

    private protected void NoteIfBroken(Exchange exchange)
    {
        if (exchange.IsBroken)
        {
            NoteBroken(exchange);
        }
    }

    /// <summary>Of the next request something has come, or may have, while this one was running: a drain waits for it too. The loop, or the exchange as it ends.</summary>
    protected abstract bool HasNextRequest { get; }

    /// <summary>Whether bytes wait that belong to no exchange, and that <see cref="SendOutput"/> sends behind its own.</summary>
    protected virtual bool HasMoreToSend => false;

    // Nothing may escape from here: the caller is a thread of the application's, a driver without a loop, or the loop in the middle of an event.
    public sealed override void FinishAway(Exchange exchange)
    {
        try
        {
            SendRest(exchange);
        }
        catch (Exception error)
        {
            LeaveGate();
            Cut();          // what has been sent must not pass for a whole answer
            Services.Log.InternalError(error);
            _rest = null;
            _keepsOpenBehindRest = false;
            _owner.GiveBack();
            PostSelf(PostReason.TakeBack);
        }
    }

    private void SendRest(Exchange exchange)
    {
        exchange.IsInline = false;
        exchange.EnsureEnded();
        exchange.Life.Seal();
        OutputBuffer? rest;
        NoteIfBroken(exchange);
        bool keepsOpen = !exchange.IsBroken && KeepsOpen(exchange);
        using (exchange.Sending.Hold())
        {
            _hasLeftBefore = exchange.Output.IsEmpty;
            SendResult sent = SendOutput(exchange, exchange.Output);
            if (sent == SendResult.Broken)
            {
                exchange.Output.Clear();
            }

            keepsOpen &= sent != SendResult.Broken && !exchange.Life.IsUseless;
            _rest = rest = exchange.TakeUnsent();
            if (keepsOpen && rest is null && !_hasLeftBefore)
            {
                OnEndSent(exchange);
            }
        }

        LeaveGate();
        if (SaysSlow)
        {
            LogIfSlow(exchange, Loop.Kernel.NowMs);
        }

        CountEnd(exchange);
        _ownRates = exchange.OwnRates;
        Services.OffLoop.CountStatusShared(exchange.Answer.StatusCode);

        // Nobody acts for the request from here on: its connection may serve the next at once.
        exchange.Retire();

        // Read without the lock: what the loop adds from now on it notes in the word.
        if (rest is null && !HasMoreToSend && keepsOpen && !Loop.IsDraining && !_readable && !_receivingEnded && !IsHolding && exchange.Body.State == BodyState.Complete && TryGiveBack(exchange))
        {
            Recycle(exchange);
            return;
        }

        _keepsOpenBehindRest = keepsOpen;
        _owner.GiveBack();
        PostSelf(PostReason.TakeBack);
    }

    private void Recycle(Exchange exchange)
    {
        try
        {
            if (exchange.Reset())
            {
                Services.Return(exchange);
            }
        }
        catch (Exception error)
        {
            Services.Log.InternalError(error);      // the connection is the loop's again
        }
    }

    private protected bool SaysSlow => Services.SlowRequestMs != long.MaxValue;

    // Calls the logger: on a loop only between Enter and Leave.
    private protected void LogIfSlow(Exchange exchange, long nowMs)
    {
        try
        {
            exchange.LogIfSlow(nowMs);
        }
        catch (Exception error)
        {
            Services.Log.InternalError(error);      // the loop must still be left
        }
    }

    private protected void CountEnd(Exchange exchange)
    {
        if (Loop.IsDraining)
        {
            exchange.EndedInDrain();
        }
    }

    // One compare-exchange, if the loop has noted nothing and the wheel will look in time. Where it is true the connection may not be touched any more.
    private bool TryGiveBack(Exchange exchange)
    {
        if (exchange.Sender.IsFlushPending || Options.IdleTimeout.TotalMilliseconds < DeadlineWheel.HorizonMs)
        {
            return false;
        }

        DeadlineMs = Loop.Kernel.NowMs + (long)Options.IdleTimeout.TotalMilliseconds;
        return _owner.TryGiveBack();
    }

    private protected void LeaveGate()
    {
        if (_countedByGate)
        {
            _countedByGate = false;
            Services.Gate!.Leave();
        }
    }

    /// <summary>
    /// The peer can send nothing more, and knows of each request whether it has been sent: no close is over one that nobody has read. Unix sockets alone can do
    /// that. Then the socket is read to its end, which closes the connection. Whoever owns the connection.
    /// </summary>
    private protected void EndReceiving()
    {
        if (!IsTcp && !_receivingEnded)
        {
            _receivingEnded = true;
            Loop.Kernel.EndReceiving(Descriptor);
        }
    }

    // ---- the drain: what a peer may have sent behind a request ----
    //
    //               its body is whole                                      ... is not
    //   Unix socket   the socket is shut for receiving before the end of       stays until the rest has come, or the peer has been quiet
    //                 the response leaves, and for sending behind it
    //   TCP           the socket is looked at once more behind the response:   closes behind the response, and lingers: a close would lose what comes
    //                 what lies there is served, else it is closed             all the same
    //
    // So it is where the head went before the drain. Over HTTP one that goes in it says `close`, and ends its connection as such a response does without a drain: the socket is shut for sending behind it,
    // and what comes all the same is thrown away while the connection lingers.

    // Before the peer has the whole answer, and thinks of its next request. Who sends what is left of the response, with its end.
    private void EndReceivingBehindEnd(Exchange? exchange, OutputBuffer output)
    {
        if (exchange is { Answer.IsWritten: true } && !output.IsEmpty && EndsReceivingBehind(exchange))
        {
            EndReceiving();
        }
    }

    // The end of the connection comes with that of the response: nginx has not taken it for an idle one by then, and tries no POST on it. A next request
    // that has come has its answer first. The order of the questions counts: first the socket, since what is not in it any more has been read; then the pin, since what the loop has read
    // is in its hands as long as it holds that; then HasNextRequest, where it is in sight afterwards.
    public sealed override void OnEndSent(Exchange exchange)
    {
        if (_receivingEnded && Loop.Kernel.Unread(Descriptor) == 0 && !_owner.IsPinned && EndsReceivingBehind(exchange) && !HasMoreToSend)
        {
            Loop.Kernel.Shutdown(Descriptor, both: false);
        }
    }

    private bool EndsReceivingBehind(Exchange exchange) =>
        Loop.IsDraining && !IsTcp && !exchange.IsBroken && !HasNextRequest && !IsHolding && IsBodyWhole(exchange) && KeepsOpen(exchange);

    // A peer that has not been told of the end may have sent its next request when it gets an answer. Behind a body that is not whole that cannot be seen.
    private static bool IsBodyWhole(Exchange exchange) => exchange.Body.State == BodyState.Complete;

    /// <summary>The connection need not close behind this response: it leaves as one that is idle, when all has come.</summary>
    private protected bool ClosesInOrder(Exchange exchange) => !IsTcp || IsBodyWhole(exchange);
}
