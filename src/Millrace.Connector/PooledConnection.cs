// One kept connection to a responder, and how its bytes are cut into records.

using System.Diagnostics;
using System.Net.Sockets;
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

    /// <summary>Whether a request has been answered over it before.</summary>
    public bool IsUsed { get; private set; }

    /// <summary>Whether bytes of an answer have come since <see cref="BeginRequest"/>.</summary>
    public bool HasAnswered { get; private set; }

    public bool IsOf(TransportKind kind) => kind.IsOf(transport);

    public TimeSpan IdleFor => Stopwatch.GetElapsedTime(_idleSince);

    /// <summary>A kept connection on which nothing has come: an answer nobody has asked for, or its end, makes it useless.</summary>
    public bool IsUsable
    {
        get
        {
            try
            {
                return !transport.HasInput;
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

    public void BeginRequest() => HasAnswered = HasSent = false;

    public void BecomeIdle()
    {
        IsUsed = true;
        _idleSince = Stopwatch.GetTimestamp();
    }

    /// <summary>Whether the responder may be waiting for the rest of a record.</summary>
    public bool IsTorn { get; private set; }

    /// <exception cref="SocketException">The responder takes no more.</exception>
    /// <exception cref="ObjectDisposedException">The request has been given up.</exception>
    /// <exception cref="OperationCanceledException">The same.</exception>
    public async ValueTask SendAsync(ReadOnlyMemory<byte> bytes, CancellationToken ct = default)
    {
        ct.ThrowIfCancellationRequested();
        IsTorn = true;
        while (bytes.Length > 0)
        {
            ReadOnlyMemory<byte> piece = HasSent || bytes.Length <= FirstMax ? bytes : bytes[..FirstMax];
            try
            {
                bytes = bytes[await transport.SendAsync(piece, ct).ConfigureAwait(false)..];
            }
            catch (SocketException)
            {
                IsTorn = false;     // its end of the connection is closed: it waits for no more of a record
                throw;
            }
            HasSent = true;
        }
        IsTorn = false;
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
        return result == ReadResult.Done;
    }

    /// <summary>Waits for more. False: the responder has ended the connection.</summary>
    /// <exception cref="SocketException">It has reset it.</exception>
    /// <exception cref="ObjectDisposedException">The request has been given up.</exception>
    /// <exception cref="OperationCanceledException">The same.</exception>
    public async ValueTask<bool> ReceiveAsync(CancellationToken ct = default)
    {
        _start = 0;
        _end = 0;
        _end = await transport.ReceiveAsync(_input, ct).ConfigureAwait(false);
        HasAnswered |= _end > 0;
        return _end > 0;
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

    public void Dispose() => transport.Dispose();
}
