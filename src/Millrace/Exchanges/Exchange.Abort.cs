// How a request ends early: the peer goes away or aborts it, a time limit passes, or the application gives up. The token
// is made when somebody asks for it; its callbacks are user code and never run on a loop.

using Millrace.Platform;

namespace Millrace.Exchanges;

[System.Diagnostics.CodeAnalysis.SuppressMessage("Reliability", "CA1001", Justification = "The token source is left to the garbage collector: a cancellation may be on its way to it. It holds no timer.")]
internal sealed partial class Exchange
{
    private readonly SteadyLock _aborting = new();       // taken within the send lock, never around it: a send that fails aborts
    private CancellationTokenSource? _abortSource;      // the request's own: a token may be kept for ever
    private CancellationToken? _abortToken;
    private volatile bool _aborted;
    private volatile bool _givenUp;
    private volatile bool _cancelled;

    // Written under the lock, or while nobody else is there (Begin, SealInline).
    private bool _answered;         // nobody is left to tell that the peer has gone
    private bool _sealed;           // the connection is no longer the application's to abort

    /// <summary>The response is of no use to anybody any more: its bytes are dropped.</summary>
    public bool IsAborted => _aborted;

    /// <summary>Fires when the peer has gone, has aborted the request, or a limit has passed, while the handler is at work. Once it has ended and the end of its response is being sent, a peer that leaves has aborted nothing.</summary>
    public CancellationToken RequestAborted
    {
        get
        {
            using (_aborting.Hold())
            {
                if (_abortToken is { } token)
                {
                    return token;
                }

                if (_cancelled)
                {
                    _abortToken = new CancellationToken(canceled: true);
                }
                else
                {
                    _abortSource ??= new CancellationTokenSource();
                    _abortToken = _abortSource.Token;
                }

                return _abortToken.Value;
            }
        }

        set
        {
            using (_aborting.Hold())
            {
                _abortToken = value;
            }
        }
    }

    /// <summary>Tells the handler; the response may still be wanted (a peer that has only finished sending still listens).</summary>
    /// <returns>False when it has been told before, or has ended.</returns>
    public bool CancelHandler()
    {
        using (_aborting.Hold())
        {
            if (_cancelled || _answered)
            {
                return false;
            }

            _cancelled = true;
            if (_abortSource is { } source)
            {
                Services.Cancel(source);
            }
        }

        return true;
    }

    /// <summary>A time limit came first: the peer still waits.</summary>
    public bool HasTimedOut { get; set; }

    /// <summary>The handler has been told that nobody may be waiting any more.</summary>
    public bool IsCancelled => _cancelled;

    /// <summary>Nobody waits for the response any more.</summary>
    public void Abort()
    {
        _aborted = true;
        CancelHandler();
    }

    /// <summary>The peer has given the request up and the connection goes on: half a response will not be taken for a whole one.</summary>
    public void GiveUp()
    {
        _givenUp = true;
        Abort();
    }

    /// <summary>The peer waits for the end of the request alone, however much of the response it has.</summary>
    public bool IsGivenUp => _givenUp;

    /// <summary>The application gives the connection up (HttpContext.Abort).</summary>
    /// <param name="ticket">Says for which request; nothing happens when it is over.</param>
    public void AbortByApplication(long ticket)
    {
        if (!TryUse(ticket, out ExchangeUse use))
        {
            return;
        }

        // Within the use: afterwards the descriptor may be another connection's.
        using (use)
        {
            using (_sending.Hold())
            {
                using (_aborting.Hold())
                {
                    if (_sealed)
                    {
                        return;
                    }

                    IsCut = true;
                    AppStatus = 1;
                    _aborted = true;
                    Connection.BreakOff(this, atOnce: false);
                    CancelHandler();
                }

                EndWaitSoon();      // the peer may be given more time, whoever writes for it has no reason to wait
            }
        }
    }

    /// <summary>The handler has ended, and the end of its response is about to be sent: from here on the peer may leave.</summary>
    private void StopCancelling()
    {
        using (_aborting.Hold())
        {
            _answered = true;
        }
    }

    /// <summary>All that the application does for the request is over: its connection is about to be given back, and cannot be aborted through this request any more.</summary>
    public void Seal()
    {
        using (_aborting.Hold())
        {
            _answered = _sealed = true;
        }
    }

    /// <summary>The same for a request that has ended in its driver's turn: its connection is given on when the last use of the exchange has ended.</summary>
    public void SealInline() => _answered = _sealed = true;

    // After Seal, and after the loop has let go: nobody else is here.
    private void ResetAbort()
    {
        _abortSource = null;
        _abortToken = null;
        _aborted = _givenUp = _cancelled = HasTimedOut = false;
    }
}
