// One kept connection to a responder, and how its bytes are cut into records.

using System.Net.Sockets;
using Millrace.Loops;
using Millrace.Protocols;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connector;

internal sealed class PooledConnection(ITransport transport) : IDisposable
{
    // So much is taken by the empty buffer of a connection that nobody has used for a moment, or not at all: a socket that throws in the middle of more does not say how much it has sent.
    private const int FirstMax = 16 * 1024;

    private readonly byte[] _input = new byte[16 * 1024];
    private RecordReader _records;
    private int _start;
    private int _end;
    private long _idleSince;
    private bool _hasOwn;       // records of the request that it has
    private ushort _lastId;     // 0: it has had none

    /// <summary>Whether a request has been answered over it before.</summary>
    public bool IsUsed { get; private set; }

    /// <summary>Whether bytes of an answer have come since <see cref="BeginRequest"/>.</summary>
    public bool HasAnswered { get; private set; }

    /// <summary>Which tells of it; null: the runtime.</summary>
    public LoopSources? Loop => (transport as LoopTransport)?.Loop;

    public bool IsIdleSinceLaterThan(PooledConnection other) => _idleSince > other._idleSince;

    /// <summary>Takes those that nobody has used for longer out of a list in which the oldest come first.</summary>
    public static PooledConnection[] TakeOld(List<PooledConnection> idle, TimeSpan limit)
    {
        int count = 0;
        while (count < idle.Count && Environment.TickCount64 - idle[count]._idleSince > limit.TotalMilliseconds)
        {
            count++;
        }
        PooledConnection[] old = [.. idle.Take(count)];
        idle.RemoveRange(0, count);
        return old;
    }

    /// <summary>A kept connection on which nothing has come: an answer nobody has asked for, or its end, makes it useless.</summary>
    public bool IsUsable
    {
        get
        {
            try
            {
                return !IsClosed && !HasForeign && !transport.HasInput;
            }
            catch (Exception error) when (error is SocketException or ObjectDisposedException)
            {
                return false;
            }
        }
    }

    /// <summary>Bytes that have come, and belong to no record that has been read.</summary>
    public bool HasRest => _start < _end || !_records.AtRecordStart;

    /// <summary>Whether bytes have been sent since <see cref="BeginRequest"/>: the responder may have acted upon them.</summary>
    public bool HasSent { get; private set; }

    /// <summary>Measures how long the responder is silent; made by the first request that needs it.</summary>
    public SilenceTimer? Silence { get; set; }

    /// <summary>Of the request that it has: what comes under another one is somebody else's.</summary>
    public ushort RequestId { get; private set; } = RecordWriter.RequestId;

    /// <summary>Records have come of another request than the one that it has (a process that a program has forked writes what it has copied of an answer): who has read nothing else of the answer has none.</summary>
    public bool HasForeign { get; private set; }

    public void BeginRequest(ushort id = RecordWriter.RequestId)
    {
        RequestId = id;
        HasAnswered = HasSent = _hasOwn = false;
    }

    /// <summary>One whose id is another than that of the request before it: what comes late of that must not pass for an answer to this. The first one's is what web servers give, who know no other.</summary>
    /// <returns>The id.</returns>
    public ushort BeginNextRequest()
    {
        BeginRequest(_lastId = (ushort)((_lastId % ushort.MaxValue) + 1));
        return _lastId;
    }

    public void BecomeIdle()
    {
        IsUsed = true;
        _idleSince = Environment.TickCount64;
    }

    /// <summary>Whether the responder may be waiting for the rest of a record.</summary>
    public bool IsTorn { get; private set; }

    /// <exception cref="SocketException">The responder takes no more.</exception>
    /// <exception cref="ObjectDisposedException">The request has been given up.</exception>
    /// <exception cref="OperationCanceledException">The same.</exception>
    public ValueTask SendAsync(ReadOnlyMemory<byte> bytes, CancellationToken ct = default)
    {
        ct.ThrowIfCancellationRequested();
        IsTorn = true;
        ValueTask<int> sending = transport.SendAsync(HasSent || bytes.Length <= FirstMax ? bytes : bytes[..FirstMax], ct);
        return sending.IsCompletedSuccessfully ? SendOnAsync(sending.Result, bytes, ct) : AwaitPieceAsync(sending, bytes, ct);
    }

    private ValueTask SendOnAsync(int sent, ReadOnlyMemory<byte> bytes, CancellationToken ct)
    {
        HasSent = true;
        if (sent < bytes.Length)
        {
            return SendAsync(bytes[sent..], ct);
        }
        IsTorn = false;
        return default;
    }

    private async ValueTask AwaitPieceAsync(ValueTask<int> sending, ReadOnlyMemory<byte> bytes, CancellationToken ct)
    {
        int sent;
        try
        {
            sent = await sending.ConfigureAwait(false);
        }
        catch (SocketException)
        {
            IsTorn = false;     // its end of the connection is closed: it waits for no more of a record
            throw;
        }
        await SendOnAsync(sent, bytes, ct).ConfigureAwait(false);
    }

    /// <summary>The next piece of a record that is here already.</summary>
    /// <exception cref="ConnectorException">It is no record.</exception>
    public bool TryRead(out RecordPart part, out ReadOnlyMemory<byte> content)
    {
        var result = _records.Read(_input.AsSpan(_start, _end - _start), out int consumed, out part);
        if (result == ReadResult.Faulty)
        {
            throw new ConnectorException(ConnectorFault.BrokenResponse, "What it answers is no FastCGI, or it has broken its response off.");
        }
        content = _input.AsMemory(_start + part.Start, part.Length);
        _start += consumed;
        if (result != ReadResult.Done)
        {
            return false;
        }
        if (part.RequestId == RequestId)
        {
            _hasOwn = true;
        }
        else if (part.RequestId != RecordHeader.NullRequestId)
        {
            HasForeign = true;
            HasAnswered = _hasOwn;
        }
        return true;
    }

    /// <summary>Waits for more. False: the responder has ended the connection.</summary>
    /// <exception cref="SocketException">It has reset it.</exception>
    /// <exception cref="ObjectDisposedException">The request has been given up.</exception>
    /// <exception cref="OperationCanceledException">The same.</exception>
    public async ValueTask<bool> ReceiveAsync(CancellationToken ct = default) => Take(await ReceivePieceAsync(ct).ConfigureAwait(false));

    /// <summary>The same in two steps, for whoever awaits it for each answer: what has come is given to <see cref="Take"/>.</summary>
    public ValueTask<int> ReceivePieceAsync(CancellationToken ct)
    {
        _start = 0;
        _end = 0;
        return transport.ReceiveAsync(_input, ct);
    }

    /// <param name="count">What <see cref="ReceivePieceAsync"/> has said.</param>
    /// <returns>See <see cref="ReceiveAsync"/>.</returns>
    public bool Take(int count)
    {
        _end = count;
        HasAnswered |= count > 0;
        return count > 0;
    }

    /// <summary>Has it be as one that the responder has ended, whoever has its other end: what has come is there to be read, and then its end. Any thread; whoever waits on it goes on.</summary>
    public void Shut()
    {
        try
        {
            transport.Shut();
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException)
        {
            // It has ended, or is closed.
        }
    }

    /// <summary>Whether it is of no use any more, whoever has said so.</summary>
    public bool IsClosed { get; private set; }

    public void Dispose()
    {
        IsClosed = true;        // before whoever waits on it goes on
        transport.Dispose();
        Silence?.Dispose();
    }
}
