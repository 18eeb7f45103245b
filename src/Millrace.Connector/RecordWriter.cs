// Records of one request on their way to a responder (FastCGI 1.0 §3.3), gathered so that as many as possible leave with one send.

using System.Buffers;
using System.Text;
using Millrace.Platform;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connector;

/// <param name="requestId">See <see cref="RequestId"/>.</param>
internal sealed class RecordWriter(ushort requestId = RecordWriter.RequestId) : IDisposable
{
    /// <summary>The id of the only request on a connection, as web servers choose it.</summary>
    public const ushort RequestId = 1;

    private const int ShortLengthMax = 127;     // §3.4

    private const int UsualSize = 4 * 1024;

    private byte[] _bytes = BufferPool.Rent(UsualSize);
    private int _end;
    private int _record = -1;       // where the record that is being written begins

    /// <summary>An ABORT_REQUEST (§5.4).</summary>
    public static byte[] Abort(ushort requestId)
    {
        byte[] record = new byte[RecordHeader.Size];
        RecordHeader.Write(record, RecordType.AbortRequest, requestId, 0, 0);
        return record;
    }

    public ReadOnlyMemory<byte> Written => _bytes.AsMemory(0, _end);

    public int Length => _end;

    public void Clear() => _end = 0;

    /// <summary>Gives what has been written, and what will be, another id.</summary>
    public void Readdress(ushort id)
    {
        if (id == requestId)
        {
            return;
        }
        requestId = id;
        for (int at = 0; at < _end;)
        {
            var header = RecordHeader.Read(_bytes.AsSpan(at));
            RecordHeader.Write(_bytes.AsSpan(at), header.Type, id, header.ContentLength, header.PaddingLength);
            at += RecordHeader.Size + header.ContentLength + header.PaddingLength;
        }
    }

    public void WriteBegin(bool keepConnection)
    {
        Span<byte> record = Reserve(RecordHeader.Size + BeginRequest.Size);
        RecordHeader.Write(record, RecordType.BeginRequest, requestId, BeginRequest.Size, 0);
        new BeginRequest(Role.Responder, keepConnection).Write(record[RecordHeader.Size..]);
        _end += RecordHeader.Size + BeginRequest.Size;
    }

    /// <summary>Begins a stream: what is appended goes into records of this type.</summary>
    public void BeginStream(RecordType type)
    {
        _record = _end;
        RecordHeader.Write(Reserve(RecordHeader.Size), type, requestId, 0, 0);
        _end += RecordHeader.Size;
    }

    /// <summary>Bytes of the stream; they may go into several records.</summary>
    public void Append(scoped ReadOnlySpan<byte> bytes)
    {
        while (true)
        {
            int room = RecordHeader.ContentLengthMax - (_end - _record - RecordHeader.Size);
            int count = Math.Min(room, bytes.Length);
            bytes[..count].CopyTo(Reserve(count));
            _end += count;
            bytes = bytes[count..];
            if (bytes.IsEmpty)
            {
                return;
            }
            RecordType type = CloseRecord();
            BeginStream(type);
        }
    }

    /// <summary>A pair of a PARAMS stream (§3.4).</summary>
    public void AppendPair(scoped ReadOnlySpan<byte> name, scoped ReadOnlySpan<byte> value)
    {
        int size = NameValuePairs.SizeOf(name.Length, value.Length);
        if (size <= RecordHeader.ContentLengthMax - (_end - _record - RecordHeader.Size))
        {
            _ = NameValuePairs.Write(Reserve(size), name, value);
            _end += size;
            return;
        }
        byte[] pair = BufferPool.Rent(size);
        _ = NameValuePairs.Write(pair, name, value);
        Append(pair.AsSpan(0, size));
        BufferPool.Return(pair);
    }

    /// <summary>The same for texts that are ASCII and have the short form of a length, as nearly all have. False: they have not, and nothing is written.</summary>
    public bool TryAppendPair(string name, ReadOnlySpan<char> value) => TryAppendPair("", name, value, out _);

    /// <summary>The same for a name that is written already.</summary>
    public bool TryAppendPair(scoped ReadOnlySpan<byte> name, ReadOnlySpan<char> value)
    {
        if (!TryReservePair(name.Length, value.Length, out Span<byte> pair))
        {
            return false;
        }
        name.CopyTo(pair[2..]);
        if (Ascii.FromUtf16(value, pair[(2 + name.Length)..], out _) != OperationStatus.Done)
        {
            return false;
        }
        _end += pair.Length;
        return true;
    }

    /// <summary>The same for a field of a request: its variable is HTTP_ and its name in capitals, with '_' for '-' (RFC 3875 §4.1.18).</summary>
    public bool TryAppendField(string field, string value)
    {
        if (!TryAppendPair("HTTP_", field, value, out Span<byte> name))
        {
            return false;
        }
        _ = Ascii.ToUpperInPlace(name, out _);
        name.Replace((byte)'-', (byte)'_');
        return true;
    }

    private bool TryAppendPair(string prefix, string rest, ReadOnlySpan<char> value, out Span<byte> name)
    {
        name = default;
        int nameLength = prefix.Length + rest.Length;
        if (!TryReservePair(nameLength, value.Length, out Span<byte> pair))
        {
            return false;
        }
        name = pair.Slice(2, nameLength);
        if ((prefix.Length > 0 && Ascii.FromUtf16(prefix, name, out _) != OperationStatus.Done) || Ascii.FromUtf16(rest, name[prefix.Length..], out _) != OperationStatus.Done
            || Ascii.FromUtf16(value, pair[(2 + nameLength)..], out _) != OperationStatus.Done)
        {
            return false;
        }
        _end += pair.Length;
        return true;
    }

    // Of the short form, its lengths written.
    private bool TryReservePair(int nameLength, int valueLength, out Span<byte> pair)
    {
        pair = default;
        int size = 2 + nameLength + valueLength;
        if (nameLength > ShortLengthMax || valueLength > ShortLengthMax || size > RecordHeader.ContentLengthMax - (_end - _record - RecordHeader.Size))
        {
            return false;
        }
        pair = Reserve(size)[..size];
        (pair[0], pair[1]) = ((byte)nameLength, (byte)valueLength);
        return true;
    }

    /// <summary>The stream may go on with other records; one without content is left out, since it would end it.</summary>
    public void Pause()
    {
        if (_end == _record + RecordHeader.Size)
        {
            _end = _record;
            return;
        }
        _ = CloseRecord();
    }

    /// <summary>A piece of a body, as records of STDIN; nothing where it is empty, since a record without content would end the stream.</summary>
    public void WriteBody(in ReadOnlySequence<byte> piece)
    {
        BeginStream(RecordType.Stdin);
        foreach (ReadOnlyMemory<byte> bytes in piece)
        {
            Append(bytes.Span);
        }
        Pause();
    }

    /// <summary>Ends the stream that has been begun (§3.3: by a record without content).</summary>
    public void EndStream(RecordType type)
    {
        Pause();
        EndEmptyStream(type);
    }

    /// <summary>Ends a stream that has no open record.</summary>
    public void EndEmptyStream(RecordType type)
    {
        RecordHeader.Write(Reserve(RecordHeader.Size), type, requestId, 0, 0);
        _end += RecordHeader.Size;
    }

    public void Dispose()
    {
        byte[] bytes = _bytes;
        _bytes = [];
        BufferPool.Return(bytes);
    }

    private RecordType CloseRecord()
    {
        var header = RecordHeader.Read(_bytes.AsSpan(_record));
        RecordHeader.Write(_bytes.AsSpan(_record), header.Type, requestId, _end - _record - RecordHeader.Size, 0);
        return header.Type;
    }

    private Span<byte> Reserve(int count)
    {
        if (_bytes.Length - _end < count)
        {
            byte[] larger = BufferPool.Rent(Math.Max(_bytes.Length * 2, _end + count));
            _bytes.AsSpan(0, _end).CopyTo(larger);
            BufferPool.Return(_bytes);
            _bytes = larger;
        }
        return _bytes.AsSpan(_end, count);
    }
}
