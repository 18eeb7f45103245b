// The request of an exchange: what was asked, who may look at it, what ends it early, and how long it has taken. Its response is the exchange's.

using System.Diagnostics.CodeAnalysis;
using System.Runtime.CompilerServices;
using Microsoft.AspNetCore.Http;
using Millrace.Observe;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal abstract class RequestInProgress
{
    private protected UseWord _uses;
    private HandlerStack _handlerStack;
    private string? _traceIdentifier;
    private bool? _allowsSynchronousIO;
    private volatile bool _cutInDrain;
    private protected bool _saidSlow;
    private protected uint _number;

    protected RequestInProgress(ExchangeServices services)
    {
        Services = services;
        Gate = new ResponseGate(Sending);
        Life = new RequestLife(services);
        RequestHeaders = new RequestHeaders(Head);
    }

    public ExchangeServices Services { get; }

    /// <summary>The connection served at the moment.</summary>
    public ResponseChannel Connection { get; private protected set; } = null!;

    // ---- what was asked ----

    public RequestHead Head { get; } = new();

    public RequestHeaders RequestHeaders { get; }

    /// <summary>Whether the request is still wanted, and what of it. Used in place, never copied.</summary>
    public RequestLife Life;

    /// <summary>Fields behind a chunked body (RFC 9112 §7.1.2), there before the body is complete; null when none came.</summary>
    public IHeaderDictionary? Trailers { get; set; }

    /// <summary>Milliseconds of the loop's clock at which the head was complete.</summary>
    public long StartedMs { get; private protected set; }

    public string TraceIdentifier
    {
        get => _traceIdentifier ??= MakeIdentifier();
        set => _traceIdentifier = value;
    }

    // As Kestrel makes it: the connection, and the number of the request on it.
    private string MakeIdentifier()
    {
        const int Digits = 8;
        Span<char> tail = stackalloc char[1 + Digits];
        uint number = _number;
        for (int i = Digits; i > 0; i--)
        {
            tail[i] = "0123456789ABCDEF"[(int)(number & 15)];
            number >>= 4;
        }

        tail[0] = ':';
        return string.Concat(Connection.Id, tail);
    }

    /// <summary>What the handler keeps for the request: the feature collection.</summary>
    public object? HandlerState { get; set; }

    // ---- who may look at it: whoever bears its ticket ----

    /// <summary>Protects what the handler's thread and the loop both send.</summary>
    public SendLock Sending { get; } = new();

    /// <summary>Who may write the response. Used in place, never copied.</summary>
    public ResponseGate Gate;

    /// <inheritdoc cref="ResponseGate.Ticket"/>
    public long Ticket => Gate.Ticket;

    // The request is over: its ticket opens nothing any more, and what it opened has ended.
    private protected void NextTicket() => Gate.Renew(_uses.EndAll(Ticket));

    /// <inheritdoc cref="HandlerStack.Enter"/>
    public void EnterHandler() => _handlerStack.Enter();

    /// <inheritdoc cref="HandlerStack.Leave"/>
    public void LeaveHandler() => _handlerStack.Leave();

    /// <summary>Whether the calling thread runs the handler's synchronous part, of whichever request the exchange serves.</summary>
    public bool IsHandlerThread
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        get => _handlerStack.IsHere;
    }

    /// <summary>Begins to look at the exchange, for the request that <paramref name="ticket"/> was given to; the answer must be disposed of.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public ExchangeUse Use(long ticket) =>
        IsHandlerThread && ticket == Ticket ? default : UseElsewhere(ticket);

    /// <summary>Says no when the request has ended: for what touches nothing of the exchange.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void CheckCurrent(long ticket)
    {
        if (ticket != Ticket)
        {
            ThrowEnded();
        }
    }

    /// <summary>The same where the end of the request is no error.</summary>
    public bool TryUse(long ticket, out ExchangeUse use)
    {
        if (IsHandlerThread && ticket == Ticket)
        {
            use = default;
            return true;
        }

        use = new ExchangeUse(this);
        return _uses.TryBegin(ticket);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private ExchangeUse UseElsewhere(long ticket)
    {
        if (!_uses.TryBegin(ticket))
        {
            ThrowEnded();
        }

        return new ExchangeUse(this);
    }

    internal void EndUse() => _uses.End();

    [DoesNotReturn]
    internal static void ThrowEnded() =>
        throw new ObjectDisposedException("HTTP request", "The request has ended. What belonged to it cannot be used any more: copy what is needed longer, and await what is begun.");

    // ---- what it may do, and how long it takes ----

    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    /// <exception cref="InvalidOperationException">Synchronous body I/O is not allowed.</exception>
    public void CheckSynchronousIO(string instead, long ticket)
    {
        using ExchangeUse use = Use(ticket);
        if (!AllowsSynchronousIO)
        {
            throw new InvalidOperationException(
                $"Synchronous operations are disallowed. Call {instead} or set AllowSynchronousIO to true instead.");
        }
    }

    public bool AllowsSynchronousIO
    {
        get => _allowsSynchronousIO ?? Services.Options.AllowSynchronousIO;
        set => _allowsSynchronousIO = value;
    }

    /// <summary>Milliseconds of the loop's clock at which the handler was called.</summary>
    public long RunsSinceMs { get; set; }

    /// <summary>Milliseconds the handler has waited for its peer to take what it wrote.</summary>
    public long BlockedMs { get; set; }

    /// <summary>The drain time is over: the request is counted as cut, and nobody waits for its response any more. Loop.</summary>
    public void NoteDrainOver(LoopCounters counters)
    {
        if (!_cutInDrain)
        {
            _cutInDrain = true;
            counters.CutInDrain++;
        }

        LosePeer();
    }

    /// <summary>Nobody waits for the response any more, nor for another on its connection. While the exchange is kept from ending.</summary>
    /// <param name="byItself">It has gone, and may have all that it has asked for: nothing has been tried in vain, or been given up here.</param>
    public void LosePeer(bool byItself = false)
    {
        if (byItself)
        {
            Life.NoteGone();
        }
        else
        {
            Life.LosePeer();
        }

        Connection.TellOfPeerEnd();
    }

    /// <summary>Counts the end of the request during a drain, on whatever thread.</summary>
    public void EndedInDrain()
    {
        if (!_cutInDrain)
        {
            Interlocked.Increment(ref Services.OffLoop.EndedInDrain);
        }
    }

    /// <summary>How fast the peer must be; set by the application for this request alone, or the server's.</summary>
    public PeerRates Rates
    {
        get => OwnRates ?? (Head.IsFastCgi ? Services.FastCgiRates : Services.HttpRates);
        set => OwnRates = value;
    }

    /// <summary>Null where the server's rates apply.</summary>
    public PeerRates? OwnRates { get; private set; }

    private protected void ResetRequest()
    {
        OwnRates = null;
        _cutInDrain = _saidSlow = false;
        BlockedMs = 0;
        Trailers = null;
        _allowsSynchronousIO = null;
        _traceIdentifier = null;
    }
}
