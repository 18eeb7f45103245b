// Cuts a byte stream into FastCGI records (FastCGI 1.0 §3.3). Framing only: which records may follow which is the connection's matter. Nothing is buffered but
// the bytes of an unfinished head.
namespace Millrace.Protocols.FastCgi;

/// <summary>A piece of one record's content, by its place in the input that was read. Pieces are never empty, except the one of a record without content.</summary>
public readonly record struct RecordPart
{
    private readonly RecordHeader _header;

    internal RecordPart(RecordHeader header, int start, int length, bool isFirst, bool isLast)
    {
        _header = header;
        Start = start;
        Length = length;
        IsFirst = isFirst;
        IsLast = isLast;
    }

    /// <summary>Type of the record; may be a value the enumeration does not name.</summary>
    public RecordType Type => _header.Type;

    /// <summary>In [0, 65535]; 0 is management.</summary>
    public ushort RequestId => _header.RequestId;

    /// <summary>Content bytes of the whole record, in [0, 65535].</summary>
    public int ContentLength => _header.ContentLength;

    /// <summary>Where in the input this piece begins.</summary>
    public int Start { get; }

    /// <summary>Bytes of this piece.</summary>
    public int Length { get; }

    /// <summary>Whether the content begins with this piece.</summary>
    public bool IsFirst { get; }

    /// <summary>Whether the content ends with this piece.</summary>
    public bool IsLast { get; }
}

/// <summary>Reads records from a stream that may be cut anywhere. 16 bytes of state; the default value is at the start of a stream.</summary>
/// <remarks>
/// <code>
///          8 bytes                    content taken                padding taken
/// Header ───────────▶ Content ─────────────────────▶ Padding ─────────────────────▶ Header
///    │ version ≠ 1
///    └──────────────▶ Faulty (for ever)
/// </code>
/// </remarks>
public struct RecordReader
{
    // The head's bytes as one big-endian number; only the last _headerKept bytes of it while the head is unfinished.
    private ulong _header;
    private ushort _contentLeft;
    private byte _paddingLeft;
    private byte _headerKept;
    private Phase _phase;
    private FastCgiFault _fault;

    private enum Phase : byte
    {
        Header,
        Content,
        Padding,
        Faulty,
    }

    /// <summary>Why the last answer was <see cref="ReadResult.Faulty"/>.</summary>
    public readonly FastCgiFault Fault => _fault;

    /// <summary>Whether no record is pending: neither head, content nor padding.</summary>
    public readonly bool AtRecordStart => _phase == Phase.Header && _headerKept == 0;

    /// <summary>Reads the next piece of a record.</summary>
    /// <param name="input">The bytes that follow those consumed before.</param>
    /// <param name="consumed">Bytes taken; all of the input where the answer is <see cref="ReadResult.NeedMore"/>.</param>
    /// <param name="part">The piece, where the answer is <see cref="ReadResult.Done"/>. Padding that follows the last piece is consumed with it as far as it is there.</param>
    /// <returns><see cref="ReadResult.Faulty"/> for a version other than 1 (§3.3), now and ever after.</returns>
    public ReadResult Read(ReadOnlySpan<byte> input, out int consumed, out RecordPart part)
    {
        int position = 0;
        part = default;
        if (_phase == Phase.Padding)
        {
            position = SkipPadding(input, 0);
        }

        if (_phase == Phase.Header)
        {
            position = ReadHeader(input, position);
        }

        consumed = position;
        if (_phase != Phase.Content)
        {
            return _phase == Phase.Faulty ? ReadResult.Faulty : ReadResult.NeedMore;
        }

        int length = Math.Min(_contentLeft, input.Length - position);
        if (length == 0 && _contentLeft > 0)
        {
            return ReadResult.NeedMore;
        }

        var header = new RecordHeader(_header);
        bool isFirst = _contentLeft == header.ContentLength;
        bool isLast = _contentLeft == length;
        part = new RecordPart(header, position, length, isFirst, isLast);
        _contentLeft -= (ushort)length;
        consumed = isLast ? SkipPadding(input, position + length) : position + length;
        return ReadResult.Done;
    }

    private int ReadHeader(ReadOnlySpan<byte> input, int position)
    {
        if (_headerKept == 0 && input.Length - position >= RecordHeader.Size)
        {
            _header = System.Buffers.Binary.BinaryPrimitives.ReadUInt64BigEndian(input[position..]);
            if ((byte)(_header >> 56) != RecordHeader.Version1)
            {
                return Fail(position);
            }

            position += RecordHeader.Size;
        }
        else
        {
            while (_headerKept < RecordHeader.Size)
            {
                if (position == input.Length)
                {
                    return position;
                }

                // The first byte is judged at once: a peer that speaks another protocol may never send eight.
                if (_headerKept == 0 && input[position] != RecordHeader.Version1)
                {
                    return Fail(position);
                }

                _header = (_header << 8) | input[position++];
                _headerKept++;
            }

            _headerKept = 0;
        }

        var header = new RecordHeader(_header);
        _contentLeft = (ushort)header.ContentLength;
        _paddingLeft = (byte)header.PaddingLength;
        _phase = Phase.Content;
        return position;
    }

    private int SkipPadding(ReadOnlySpan<byte> input, int position)
    {
        int skipped = Math.Min(_paddingLeft, input.Length - position);
        _paddingLeft -= (byte)skipped;
        _phase = _paddingLeft == 0 ? Phase.Header : Phase.Padding;
        return position + skipped;
    }

    private int Fail(int position)
    {
        _phase = Phase.Faulty;
        _fault = FastCgiFault.Version;
        return position;
    }
}
