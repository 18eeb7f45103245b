// The body of an answer: what is written before the head waits for it, what is written behind it goes into the output.

using System.Diagnostics;
using System.Diagnostics.CodeAnalysis;
using System.Runtime.CompilerServices;

namespace Millrace.Exchanges;

internal sealed partial class Answer
{
    private const int LentSizeMin = 256;
    private const int LentSizeNext = 4096;
    private const int ShownSizeMin = 512;
    private const int ShownSize = 4096;     // where the application does not say how much it needs
    private const int FramingMax = 64;      // what a protocol puts around reserved bytes at most

    private EarlyBody _early;
    private byte[]? _lent;           // memory that the application was given: it may write there for ever, and is never used for another request
    private byte[]? _given;          // what it was given last: that, or a driver's scratch
    private int _reserved;           // bytes that may still be advanced over
    private int _reservedAt;         // where in _early they begin; -1 when they are in the output
    private int _givenAt = -1;       // where in _given they begin; -1 when they are in one of the two

    /// <summary>Bytes that have been written and not sent, of the body alone where its head has not been written.</summary>
    public int BytesWaiting => HasStarted ? exchange.Output.Length : _early.Length;

    /// <summary>Bytes of memory that are this exchange's alone.</summary>
    public int BytesHeld => _early.BytesHeld + (_lent?.Length ?? 0);

    /// <summary>Somebody has been given a part of the output, and may say later that there are bytes in it.</summary>
    public bool IsReservedInPlace => _reserved > 0 && _reservedAt < 0 && _givenAt < 0;

    /// <summary>The application may still say that there are bytes in <paramref name="scratch"/>. Any thread, about itself.</summary>
    public bool IsReservedIn(byte[] scratch) => Volatile.Read(ref _reserved) > 0 && _given == scratch;

    /// <summary>What the record or chunk of a file has announced does not come: whatever else were written would be taken for it.</summary>
    public bool HasFileFailed { get; private set; }

    public static InvalidOperationException FileFailed() =>
        new("Nothing can be written behind a file that could not be sent whole; let the exception of SendFileAsync end the handler.");

    public void FailFile()
    {
        HasFileFailed = true;
        _reserved = 0;
    }

    /// <summary>The application writes, flushes or ends: what it was given and has not advanced over is nobody's any more.</summary>
    public void DropReserved() => _reserved = 0;

    /// <summary>Something goes into the output, or leaves it. Memory of its own may have been given to the application since that was asked for, and is behind it.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void DropReservedInPlace()
    {
        if (_givenAt < 0)
        {
            _reserved = 0;
        }
    }

    /// <summary>Memory for body bytes that the application may keep, whatever it does with it later; <see cref="AdvanceBody"/> copies what was written.</summary>
    /// <exception cref="ArgumentOutOfRangeException">Negative, or more than fits into an array behind what has been written and not sent.</exception>
    public Memory<byte> LendBody(int sizeHint)
    {
        CheckNotEnded();
        CheckReserve(sizeHint);
        int size = Math.Max(sizeHint, _lent is null ? LentSizeMin : LentSizeNext);
        if (_lent is null || _lent.Length < size)
        {
            _lent = new byte[size];
        }

        Give(_lent, _lent.Length);
        return _lent;
    }

    /// <summary>Room for body bytes where they will be sent from, for whoever is done with it before the request can end; <see cref="AdvanceBody"/> says how many were written.</summary>
    /// <exception cref="ArgumentOutOfRangeException">The same.</exception>
    public Span<byte> ReserveBody(int sizeHint)
    {
        CheckNotEnded();
        return exchange.Order.IsBusy ? LendBody(sizeHint).Span : ReserveNow(sizeHint);
    }

    /// <summary>The same for the application within its handler's synchronous part, which it may make the mistake to fill when it has written something else, to read, or to say that there are bytes where
    /// it has written none. Nothing of the server's lies there, and nothing of another request: there are zeros.</summary>
    public Span<byte> ShowBody(int sizeHint)
    {
        CheckNotEnded();
        CheckReserve(sizeHint);
        int size = sizeHint == 0 ? ShownSize : Math.Max(sizeHint, ShownSizeMin);
        if (DriverBuffers.ShowHere(exchange, size) is not { } scratch)
        {
            return LendBody(sizeHint).Span;
        }

        Give(scratch, size);
        return scratch.AsSpan(0, size);
    }

    private void Give(byte[] memory, int size)
    {
        _given = memory;
        _givenAt = 0;
        _reserved = size;
    }

    // Nothing else is on its way.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private Span<byte> ReserveNow(int sizeHint)
    {
        CheckReserve(sizeHint);
        _givenAt = -1;
        sizeHint = Math.Max(sizeHint, 256);
        Span<byte> room;
        if (!HasStarted || SuppressesBody)
        {
            room = _early.Reserve(sizeHint);
            _reservedAt = _early.Length;
        }
        else
        {
            exchange.Connection.Framing.OpenChunk(exchange.Output);
            _reservedAt = -1;
            room = exchange.Output.Reserve(sizeHint + exchange.Connection.Framing.ChunkTailMax)[..^exchange.Connection.Framing.ChunkTailMax];
        }

        _reserved = room.Length;
        return room;
    }

    // Before anything is changed: the response goes on as if nothing had been asked.
    private void CheckReserve(int sizeHint)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(sizeHint);
        int held = HasStarted && !SuppressesBody ? exchange.Output.End : _early.Length;
        int max = Array.MaxLength - FramingMax - held;
        if (sizeHint > max)
        {
            ThrowTooMuch(sizeHint, max, held);
        }
    }

    private static void ThrowTooMuch(int sizeHint, int max, int held) => throw new ArgumentOutOfRangeException(
        nameof(sizeHint), sizeHint, $"At most {max} bytes of a response can be asked for while {held} wait to be sent; write in smaller parts and flush in between.");

    public void AdvanceBody(int count)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(count);
        if (count > _reserved)
        {
            throw new ArgumentOutOfRangeException(
                nameof(count), count, $"{_reserved} bytes can be advanced over: those that GetMemory gave, unless something has been written or flushed since.");
        }

        if (_givenAt >= 0)
        {
            AppendGiven(_given.AsSpan(_givenAt, count), isAdvanced: true);
            _givenAt += count;
        }
        else
        {
            AdvanceInPlace(count);
        }

        Volatile.Write(ref _reserved, _reserved - count);       // behind the copy: a driver that sees it uses its scratch again
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private void AdvanceInPlace(int count)
    {
        Debug.Assert(!exchange.Order.IsBusy, "Whatever is on its way for longer than a call has dropped what was reserved before it.");
        NoteWrite(count);
        Count(count, isAdvanced: true);
        if (!HasStarted)
        {
            _early.Length += count;
        }
        else if (!SuppressesBody && !exchange.Life.IsUnwanted)
        {
            if (_reservedAt >= 0)
            {
                AppendBody(_early.Part(_reservedAt, count));  // the head was written in between
            }
            else
            {
                exchange.Output.End += count;
            }
        }

        _reservedAt += _reservedAt >= 0 ? count : 0;
    }

    public void CheckNotEnded()
    {
        if (IsWritten | HasFileFailed)
        {
            ThrowNotWritable();
        }
    }

    [DoesNotReturn]
    private void ThrowNotWritable() => throw (HasFileFailed ? FileFailed() : new InvalidOperationException("Writing is not allowed after the response was completed."));

    /// <summary>Appends body bytes to what will be sent. The head is written when it has not been.</summary>
    public void Append(ReadOnlySpan<byte> bytes)
    {
        _reserved = 0;
        AppendGiven(bytes);
    }

    private void AppendGiven(ReadOnlySpan<byte> bytes, bool isAdvanced = false)
    {
        CheckNotEnded();
        NoteWrite(bytes.Length);
        if (exchange.Order.IsBusy)
        {
            exchange.Writes.AppendBehind(bytes);
            return;
        }

        Count(bytes.Length, isAdvanced);
        AppendCounted(bytes);
    }

    /// <summary>The same where nothing else is on its way.</summary>
    public void AppendNow(ReadOnlySpan<byte> bytes)
    {
        DropReservedInPlace();
        AppendLast(bytes);
    }

    /// <summary>The same whatever has been advanced over, and where the answer has ended already.</summary>
    public void AppendLast(ReadOnlySpan<byte> bytes)
    {
        Count(bytes.Length);
        AppendCounted(bytes);
    }

    // Without memory for them they are counted and not there: whatever the application makes of the exception, the response is not whole.
    private void AppendCounted(ReadOnlySpan<byte> bytes)
    {
        try
        {
            if (!HasStarted)
            {
                _early.Append(bytes);
            }
            else if (!SuppressesBody && !exchange.Life.IsUnwanted)
            {
                AppendBody(bytes);
            }
        }
        catch (Exception error)
        {
            if (HasStarted)
            {
                exchange.MarkBroken();
            }
            else
            {
                exchange.Report(error);
            }

            throw;
        }
    }

    private void AppendBody(ReadOnlySpan<byte> bytes)
    {
        while (bytes.Length > 0)
        {
            exchange.Connection.Framing.OpenChunk(exchange.Output);
            int room = exchange.Connection.Framing.ChunkRoom(exchange.Output);
            int count = Math.Min(room, bytes.Length);
            exchange.Output.Append(bytes[..count]);
            bytes = bytes[count..];
            if (count == room)
            {
                exchange.Connection.Framing.CloseChunk(exchange.Output);
            }
        }
    }

    private void ResetBody()
    {
        _early.Reset();
        _lent = null;
        _given = null;
        _givenAt = -1;
        _reserved = 0;
        HasFileFailed = false;
    }
}
