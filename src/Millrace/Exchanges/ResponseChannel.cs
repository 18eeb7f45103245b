// A connection as its exchange sees it: how a response leaves, and what of its peer a request may ask for. How it looks in the
// protocol of the connection is the ResponseFraming's to say.

namespace Millrace.Exchanges;

internal abstract class ResponseChannel(ResponseFraming framing)
{
    private string? _id;
    private uint _requests;

    /// <summary>Made when somebody asks. No other connection has it, of this process or of one before it.</summary>
    public string Id => Volatile.Read(ref _id) ?? Interlocked.CompareExchange(ref _id, ConnectionIds.Next(), null) ?? _id;

    /// <summary>Counts the requests that begin. The loop's driver.</summary>
    public uint NextRequestNumber() => ++_requests;

    // ---- called by the exchange, on any thread, while it owns the connection ----

    /// <summary>The handler has ended after its turn, on any thread: a pool's, a driver's without a loop, or the loop's own, in what it resumed.</summary>
    public abstract void FinishAway(Exchange exchange);

    public abstract void PostResumeReading();

    /// <summary>The time, in milliseconds of the clock of its loop; any thread.</summary>
    public abstract long NowMs { get; }

    /// <summary>The handler starts reading the body.</summary>
    public virtual void OnBodyWanted(Exchange exchange)
    {
    }

    /// <summary>Sends all of it; what the socket does not take stays where it is. Without an exchange: the output of the loop's own.</summary>
    public abstract SendResult SendOutput(Exchange? exchange, OutputBuffer output);

    /// <summary>Sends what lies before <paramref name="end"/>.</summary>
    public abstract void SendUpTo(Exchange exchange, OutputBuffer output, int end);

    /// <summary>The response has ended, and all of it is in the socket; something may still happen behind it, the handler's work included. Within the exchange's send lock.</summary>
    public abstract void OnEndSent(Exchange exchange);

    /// <summary>The loop continues the sending when the socket takes bytes again.</summary>
    public abstract void WantWritable(Exchange exchange);

    /// <summary>Bytes of a file, without a copy through managed memory. <paramref name="offset"/> moves on.</summary>
    public abstract SendResult SendFilePart(int file, ref long offset, ref int count);

    /// <summary>Sends raw bytes ahead of a file part. All or nothing is not promised: what stays is in the buffer.</summary>
    public abstract SendResult SendAhead(OutputBuffer output);

    /// <summary>Within the exchange's send lock, which has nothing on its way: what waits besides may leave.</summary>
    public virtual void SendBesides(Exchange exchange)
    {
    }

    /// <summary>Ends the connection so that the peer does not take what it has got of the response for a whole one. Within the exchange's send lock.</summary>
    /// <param name="exchange">The one whose response it is.</param>
    /// <param name="atOnce">There is no time left; otherwise answers to earlier requests go first.</param>
    public abstract void BreakOff(Exchange exchange, bool atOnce);

    /// <summary>The socket takes bytes again. False: the connection is not being broken off. Within the exchange's send lock.</summary>
    public abstract bool ContinueBreakingOff(Exchange exchange);

    // ---- what only some protocols can do ----

    /// <summary>Whether the request in progress may switch protocols (RFC 9110 §7.8).</summary>
    public virtual bool IsUpgradable => false;

    /// <summary>The exchange has switched protocols: its bytes are read from now on.</summary>
    public virtual void OnUpgraded(Exchange exchange)
    {
    }

    /// <summary>Whether the connection ends behind the response whose head is being written, whatever that says. For a protocol whose heads tell of that.</summary>
    /// <param name="exchange">The one whose response it is.</param>
    /// <param name="nowMs">The time at which it is written, by the clock of the loops.</param>
    public virtual bool EndsBehind(Exchange exchange, out long nowMs) => throw new NotSupportedException();

    /// <summary>The connection ends with the response in progress.</summary>
    public virtual void RequestClose()
    {
    }

    /// <summary>What an application keeps with the connection, from request to request. Made when somebody asks.</summary>
    public IDictionary<object, object?> State => _state ??= new Dictionary<object, object?>();

    private Dictionary<object, object?>? _state;

    /// <summary>What an application is told of the end of the connection; null unless it has asked.</summary>
    public ConnectionEnd? ToldOfEnd => Volatile.Read(ref _end);

    /// <summary>The same, made for the first who asks. On any thread, while an exchange owns the connection.</summary>
    public ConnectionEnd EndFor(ExchangeServices services)
    {
        if (ToldOfEnd is null)
        {
            Interlocked.CompareExchange(ref _end, new ConnectionEnd(services), null);
            if (_isPeerGone)
            {
                _end.Close();       // nobody else does: the peer may have left long ago
            }
        }

        return _end!;
    }

    /// <summary>
    /// The peer has gone or finished sending, or has been given up: the connection ends when the request in progress does, whatever that one has been told of it. Any
    /// thread that keeps the connection from being closed, any number of times.
    /// </summary>
    public void TellOfPeerEnd()
    {
        _isPeerGone = true;
        Interlocked.MemoryBarrier();    // EndFor looks the other way round
        ToldOfEnd?.Close();
    }

    private ConnectionEnd? _end;
    private volatile bool _isPeerGone;

    /// <summary>What AspNetCore/ConnectionLogScope.cs keeps with the connection.</summary>
    public object? LogContext { get; set; }

    // ---- how a response looks ----

    public ResponseFraming Framing => framing;

    // ---- its ends ----

    public abstract System.Net.IPEndPoint? RemoteEndPoint { get; }

    public abstract System.Net.IPEndPoint? LocalEndPoint { get; }

    /// <summary>The path that the listening socket is bound to, where HTTP is spoken over a Unix socket; null otherwise.</summary>
    public virtual string? LocalPath => null;
}
