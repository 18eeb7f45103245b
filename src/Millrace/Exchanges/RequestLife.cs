// How a request ends early: the peer goes away or aborts it, a time limit passes, or the application gives up. Three matters, each of which goes
// one way, and none of which follows from another:
//
//   the handler is told that nobody may be waiting       None ──▶ Peer | TimeLimit                CancelCause
//   the response is of use                               Wanted ──▶ Useless ──▶ GivenUp            ResponseWorth
//   there is something left to end early                 Handling ──▶ Answered ──▶ Sealed          RequestPhase
//
// Given up is behind useless: who has given a request up waits for its end, so that what is lost of the response no longer matters, and a peer that leaves then changes nothing here.
//
// A peer that has only finished sending has the handler told, and still wants its response. One that leaves when the handler has ended makes the
// response useless, and there is nobody to tell. What is cut, and how the peer sees it, is the response's.
//
// The token is made when somebody asks for it; its callbacks are user code and never run on a loop.

using System.Diagnostics;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal enum CancelCause
{
    /// <summary>The handler has not been told anything.</summary>
    None,

    /// <summary>The peer has gone, has finished sending, or has aborted the request; or the application has.</summary>
    Peer,

    /// <summary>A time limit came first: the peer still waits.</summary>
    TimeLimit,
}

internal enum ResponseWorth
{
    Wanted,

    /// <summary>Nobody waits for the response any more: its bytes are dropped.</summary>
    Useless,

    /// <summary>The peer has given the request up and the connection goes on: it waits for the end of the request alone, however much of the response it has.</summary>
    GivenUp,
}

internal enum RequestPhase
{
    /// <summary>From the end of the head on: the handler is at work, or its request waits for its turn.</summary>
    Handling,

    /// <summary>The end of the response is about to be sent, most often because the handler has ended: nobody is left to tell that the peer has gone. Plain handlers, and those that end in their turn, go from Handling to Sealed.</summary>
    Answered,

    /// <summary>The connection is no longer the application's to abort.</summary>
    Sealed,
}

internal interface ICancelListener
{
    /// <summary>Within a lock: does no more than take note of it.</summary>
    void OnCancelled();
}

[System.Diagnostics.CodeAnalysis.SuppressMessage("Reliability", "CA1001", Justification = "The token source is left to the garbage collector: a cancellation may be on its way to it. It holds no timer.")]
internal struct RequestLife(ExchangeServices services)
{
    private readonly SteadyLock _lock = new();          // taken within the send lock, never around it: a send that fails aborts
    private CancellationTokenSource? _source;           // the request's own: a token may be kept for ever
    private CancellationToken? _token;
    private volatile CancelCause _cancelled;            // all three are written under the lock, or while nobody else is there (Begin, SealInline, Reset)
    private volatile ResponseWorth _worth;
    private RequestPhase _phase;
    private ICancelListener? _listener;                 // told as well; under the lock
    private bool _isTold;                               // somebody has been, or would have been, instead of by the token
    private bool _isWhole;                              // nothing is missing of what has been given to the socket, or is just now; under the lock
    private volatile bool _leftWithAll;                 // as it was then; written under the lock

    /// <summary>Nobody waits for the response any more, useless or given up: what is written from now on is dropped.</summary>
    public readonly bool IsUnwanted => _worth != ResponseWorth.Wanted;

    /// <summary>Nothing of the response reaches anybody: nor would that of a next request on its connection.</summary>
    public readonly bool IsUseless => _worth == ResponseWorth.Useless;

    /// <inheritdoc cref="ResponseWorth.GivenUp"/>
    public readonly bool IsGivenUp => _worth == ResponseWorth.GivenUp;

    /// <summary>The handler has been told that nobody may be waiting any more.</summary>
    public readonly bool IsCancelled => _cancelled != CancelCause.None;

    /// <summary>The peer has left, and nothing of the response was missing: what its handler lets go of because of that is no failure either.</summary>
    public readonly bool HasLeftWithAll => _leftWithAll;

    /// <inheritdoc cref="CancelCause.TimeLimit"/>
    public readonly bool HasTimedOut => _cancelled == CancelCause.TimeLimit;

    /// <summary>The handler has been told that nobody may be waiting any more, and somebody may: the peer has ended its side alone, as far as is known.</summary>
    public readonly bool HasFinishedSending => _cancelled == CancelCause.Peer && !IsUnwanted;

    /// <summary>
    /// Whether a token has been cancelled for nothing, as far as the response goes: it is the request's own, and not one that the application has made of it, and has
    /// fired for a peer that has finished sending and may still listen.
    /// </summary>
    public readonly bool Excuses(CancellationToken cancelled)
    {
        using (_lock.Hold())
        {
            return HasFinishedSending && _token == cancelled;
        }
    }

    /// <summary>Whether it is the request's own token, which fires, now or in a moment, where nobody waits for the response any more.</summary>
    public readonly bool Owns(CancellationToken token)
    {
        using (_lock.Hold())
        {
            return token.CanBeCanceled && _token == token;
        }
    }

    /// <summary>Fires when the peer has gone, has aborted the request, or a limit has passed, while the handler is at work. Once the end of its response is being sent, or the last byte of one as long as announced, a peer that leaves has aborted nothing.</summary>
    public CancellationToken Token
    {
        get
        {
            using (_lock.Hold())
            {
                if (_token is { } token)
                {
                    return token;
                }

                if (IsCancelled)
                {
                    _token = new CancellationToken(canceled: true);
                }
                else
                {
                    _source ??= new CancellationTokenSource();
                    _token = _source.Token;
                }

                return _token.Value;
            }
        }

        set
        {
            using (_lock.Hold())
            {
                _token = value;
            }
        }
    }

    /// <summary>The application has asked for the token, and may heed it.</summary>
    public readonly bool IsWatched => _source is not null || _token is not null || _isTold;

    // ---- what comes early ----

    /// <summary>Tells the handler; the response may still be wanted (a peer that has only finished sending still listens).</summary>
    /// <returns>False when it has been told before, or has ended.</returns>
    public bool Cancel(CancelCause cause = CancelCause.Peer)
    {
        using (_lock.Hold())
        {
            if (IsCancelled || _phase != RequestPhase.Handling)
            {
                return false;
            }

            _cancelled = cause;
            if (_source is { } source)
            {
                services.Cancel(source);
            }

            _listener?.OnCancelled();
        }

        return true;
    }

    /// <summary>The same for a peer that has finished sending, or has gone, by its own doing. One that may have all of its response has aborted nothing, whatever its handler does yet.</summary>
    public void NoteLeft()
    {
        using (_lock.Hold())
        {
            _leftWithAll = _isWhole;
            if (!_isWhole)
            {
                _ = Cancel();
            }
        }
    }

    /// <summary>The same where it has gone for sure.</summary>
    public void NoteGone()
    {
        using (_lock.Hold())
        {
            Lower(ResponseWorth.Useless);
            NoteLeft();
        }
    }

    /// <summary>Whether nothing is missing of the response behind the bytes that are sent next; false again where the socket does not take them, and who has left meanwhile has done so before.</summary>
    public void NoteWhole(bool isWhole)
    {
        using (_lock.Hold())
        {
            _isWhole = isWhole;
            if (!isWhole && _leftWithAll)
            {
                _leftWithAll = false;
                _ = Cancel();
            }
        }
    }

    /// <summary>Whoever answers on the loop itself hears of it there, and needs no token.</summary>
    public void Tell(ICancelListener listener)
    {
        using (_lock.Hold())
        {
            Listen(listener);
        }
    }

    /// <summary>The same for whoever would otherwise ask for the token. False: somebody has asked for it, and it may be another by now.</summary>
    public bool TryTell(ICancelListener listener)
    {
        using (_lock.Hold())
        {
            if (_token is not null)
            {
                return false;
            }

            _isTold = true;
            Listen(listener);
            return true;
        }
    }

    /// <summary>It is told no more; what it has been told is in the past.</summary>
    public void Untell()
    {
        using (_lock.Hold())
        {
            _listener = null;
        }
    }

    private void Listen(ICancelListener listener)
    {
        _listener = listener;
        if (IsCancelled)
        {
            listener.OnCancelled();
        }
    }

    /// <summary>Nobody waits for the response any more.</summary>
    public void LosePeer() => End(ResponseWorth.Useless);

    /// <summary>The peer has given the request up and the connection goes on: half a response will not be taken for a whole one.</summary>
    public void GiveUp() => End(ResponseWorth.GivenUp);

    private void End(ResponseWorth worth)
    {
        using (_lock.Hold())
        {
            Lower(worth);
            Cancel();
        }
    }

    private void Lower(ResponseWorth worth)
    {
        if (_worth < worth)
        {
            _worth = worth;
        }
    }

    /// <summary>Keeps the connection the application's to abort until the answer is disposed of; <see cref="TryDrop"/> says whether it is.</summary>
    public readonly SteadyLock.Holder Hold() => _lock.Hold();

    /// <summary>
    /// Within <see cref="Hold"/>. Nobody waits for the response any more, because the application says so. False when that is too late: the connection is not
    /// the application's any more, or its peer has given the request up before, and may have sent another client's on it already.
    /// </summary>
    public bool TryDrop()
    {
        if (_phase == RequestPhase.Sealed || IsGivenUp)
        {
            return false;
        }

        Lower(ResponseWorth.Useless);
        return true;
    }

    // ---- what comes in its time ----

    public void Begin()
    {
        Debug.Assert((_cancelled, _worth) == (CancelCause.None, ResponseWorth.Wanted));
        _phase = RequestPhase.Handling;
    }

    private void GoTo(RequestPhase next)
    {
        Debug.Assert(next >= _phase, $"from {_phase} to {next}");
        _phase = next;
    }

    /// <summary>The end of the response is about to be sent, most often because the handler has ended: from here on the peer may leave.</summary>
    public void StopCancelling()
    {
        using (_lock.Hold())
        {
            if (_phase == RequestPhase.Handling)
            {
                GoTo(RequestPhase.Answered);
            }
        }
    }

    /// <summary>All that the application does for the request is over: its connection is about to be given back, and cannot be aborted through this request any more.</summary>
    public void Seal()
    {
        using (_lock.Hold())
        {
            GoTo(RequestPhase.Sealed);
        }
    }

    /// <summary>The same for a request that has ended in its driver's turn: its connection is given on when the last use of the exchange has ended.</summary>
    public void SealInline() => GoTo(RequestPhase.Sealed);

    /// <summary>After the loop has let go: nobody else is here.</summary>
    public void Reset()
    {
        _source = null;
        _token = null;
        _listener = null;
        _isTold = _isWhole = _leftWithAll = false;
        _cancelled = CancelCause.None;
        _worth = ResponseWorth.Wanted;
    }
}
