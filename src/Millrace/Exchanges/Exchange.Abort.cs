// How a request ends early: the peer goes away or aborts it, a time limit passes, or the application gives up. The token
// is made when somebody asks for it; its callbacks are user code and never run on a loop.

namespace Millrace.Exchanges;

[System.Diagnostics.CodeAnalysis.SuppressMessage("Reliability", "CA1001", Justification = "The token source is left to the garbage collector: a cancellation may be on its way to it. It holds no timer.")]
internal sealed partial class Exchange
{
    private readonly Lock _abortLock = new();
    private CancellationTokenSource? _abortSource;
    private CancellationToken? _abortToken;
    private volatile bool _aborted;
    private volatile bool _cancelled;

    /// <summary>The response is of no use to anybody any more: its bytes are dropped.</summary>
    public bool IsAborted => _aborted;

    /// <summary>Fires when the peer has gone, has aborted the request, or a limit has passed.</summary>
    public CancellationToken RequestAborted
    {
        get
        {
            lock (_abortLock)
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
            lock (_abortLock)
            {
                _abortToken = value;
            }
        }
    }

    /// <summary>Tells the handler; the response may still be wanted (a peer that has only finished sending still listens).</summary>
    /// <returns>False when it has been told before.</returns>
    public bool CancelHandler()
    {
        CancellationTokenSource? source;
        lock (_abortLock)
        {
            if (_cancelled)
            {
                return false;
            }

            _cancelled = true;
            source = _abortSource;
        }

        if (source is not null)
        {
            Services.RunUserCode(static state => ((Cancellation)state!).Run(), new Cancellation(source, Services.Log));
        }

        return true;
    }

    // Callbacks are the application's: one that throws is its fault, and must not become the process's end on a pool thread.
    private sealed class Cancellation(CancellationTokenSource source, Observe.Log log)
    {
        public void Run()
        {
            try
            {
                source.Cancel();
            }
            catch (Exception error)
            {
                log.AbortCallbackFailed(error);
            }
        }
    }

    /// <summary>The handler has been told that nobody may be waiting any more.</summary>
    public bool IsCancelled => _cancelled;

    /// <summary>Nobody waits for the response any more.</summary>
    public void Abort()
    {
        _aborted = true;
        CancelHandler();
    }

    /// <summary>The application gives the connection up (HttpContext.Abort).</summary>
    public void AbortByApplication()
    {
        IsCut = true;
        AppStatus = 1;
        Abort();
        Connection.Cut();
    }

    private bool ResetAbort()
    {
        lock (_abortLock)
        {
            // Used again only when nothing can be on its way to it any more, and never disposed.
            if (_cancelled || _abortSource?.TryReset() != true)
            {
                _abortSource = null;
            }

            _abortToken = null;
            _aborted = _cancelled = false;
        }

        return true;
    }
}
