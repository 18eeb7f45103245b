// RFC 9112 §7.1: the chunked body of one message. Data is left where it lies; the reader says where. No I/O, no copy, no decoding of anything else.
//
//   chunked-body = *chunk last-chunk trailer-section CRLF
//   last-chunk   = 1*"0" [ chunk-ext ] CRLF
//
//   Line -> Data -> DataCr -> DataLf -> Line ... Line (size 0) -> Trailers -> Done

using System.Runtime.InteropServices;

namespace Millrace.Protocols.Http1;

/// <summary>
/// Reads a chunked body piece by piece. The caller drops the consumed bytes and calls again with what follows them:
/// at once after a piece of data, with more bytes after NeedMore without data. A mutable struct: keep it in a field, do not copy it.
/// </summary>
public struct ChunkedReader
{
    /// <summary>Most bytes that the extensions of one chunk may have, its semicolons and bad white space among them.</summary>
    public const int ExtensionBytesPerChunkMax = 4096;

    /// <summary>Bytes that the extensions of all chunks of a body may have together, however little data there is.</summary>
    public const int ExtensionBytesFree = 16384;

    /// <summary>Beyond <see cref="ExtensionBytesFree"/> the extensions may have one byte for so many bytes of data that have come before them.</summary>
    public const int DataBytesPerExtensionByte = 8;

    private const int SizeDigitsMax = 16;

    private enum Stage : byte
    {
        Line,
        Data,
        DataCr,
        DataLf,
        Trailers,
        Done,
        Faulty,
    }

    private Stage _stage;
    private ChunkLineState _lineState;
    private int _digits;
    private ulong _size;
    private int _lineExtensionBytes;
    private long _extensionBytes;
    private TrailerSection _trailers;

    /// <summary>A reader at the start of a body.</summary>
    /// <param name="limits">HeaderBytesMax and HeaderCountMax bound the trailer section as they bound the header section.</param>
    public ChunkedReader(in Http1Limits limits) => _trailers = new TrailerSection(limits.HeaderBytesMax, limits.HeaderCountMax);

    /// <summary>What was wrong, after <see cref="ReadResult.Faulty"/>.</summary>
    public Http1Fault Fault { get; private set; }

    /// <summary>Bytes of data found so far, in [0, 2^63-1].</summary>
    public long DataBytes { get; private set; }

    /// <summary>Bytes of data that the body has at least: those found, and what the chunk in progress still announces. In [0, 2^64-1].</summary>
    public readonly ulong DataBytesAnnounced => (ulong)DataBytes + (_stage is Stage.Line ? 0 : _size);

    /// <summary>The trailer fields, after Done. Their offsets count from <see cref="TrailersStart"/>.</summary>
    public readonly ReadOnlySpan<HeaderField> Trailers => _trailers.Fields;

    /// <summary>Where the trailer section began in the input of the last call.</summary>
    public int TrailersStart { get; private set; }

    /// <summary>Starts afresh for the next body; the table of trailers is kept for reuse.</summary>
    public void Reset(in Http1Limits limits)
    {
        _stage = Stage.Line;
        BeginLine();
        _extensionBytes = 0;
        Fault = Http1Fault.None;
        DataBytes = 0;
        TrailersStart = 0;
        _trailers.Reset(limits.HeaderBytesMax, limits.HeaderCountMax);
    }

    /// <summary>Nobody reads the rest of this body: its trailers are passed over, whatever they say.</summary>
    internal void PassOverTrailers() => _trailers.PassOver();

    /// <summary>
    /// Reads up to the end of the next piece of data, or to the end of the message. Done: the body is complete, trailers included.
    /// NeedMore: not at the end; with data, call again with what follows the consumed bytes, without, when more bytes have come.
    /// Bytes that were not consumed (an unfinished trailer section, at most HeaderBytesMax) must be given again.
    /// </summary>
    /// <param name="input">The bytes behind those consumed so far.</param>
    /// <param name="consumed">Bytes that are done with once the data among them has been taken.</param>
    /// <param name="dataStart">Where in <paramref name="input"/> the piece of data begins.</param>
    /// <param name="dataLength">Its length; 0 if none was found.</param>
    public ReadResult Read(ReadOnlySpan<byte> input, out int consumed, out int dataStart, out int dataLength)
    {
        int at = 0;
        dataStart = 0;
        dataLength = 0;
        while (_stage < Stage.Trailers && at < input.Length)
        {
            if (_stage == Stage.Data)
            {
                dataStart = at;
                dataLength = (int)Math.Min(_size, (ulong)(input.Length - at));
                consumed = at + dataLength;
                return TakeData(dataLength);
            }

            ReadFraming(input, ref at);
        }

        consumed = at;
        return _stage switch
        {
            Stage.Trailers => ReadTrailers(input, ref consumed),
            Stage.Done => ReadResult.Done,
            Stage.Faulty => ReadResult.Faulty,
            _ => ReadResult.NeedMore,
        };
    }

    private ReadResult TakeData(int length)
    {
        if (DataBytes > long.MaxValue - length)
        {
            Fail(Http1Fault.BodyTooLarge);
            return ReadResult.Faulty;
        }

        DataBytes += length;
        _size -= (ulong)length;
        if (_size == 0)
        {
            _stage = Stage.DataCr;
        }

        return ReadResult.NeedMore;
    }

    private void ReadFraming(ReadOnlySpan<byte> input, ref int at)
    {
        switch (_stage)
        {
            case Stage.DataCr:
                Expect(input[at++], HttpChars.Cr, Stage.DataLf);
                break;
            case Stage.DataLf:
                Expect(input[at++], HttpChars.Lf, Stage.Line);
                BeginLine();
                break;
            default:
                while (_stage == Stage.Line && at < input.Length)
                {
                    ReadLineByte(input[at++]);
                }

                break;
        }
    }

    private void Expect(byte b, byte expected, Stage next)
    {
        if (b == expected)
        {
            _stage = next;
        }
        else
        {
            Fail(Http1Fault.ChunkDataEnd);
        }
    }

    private void BeginLine()
    {
        _lineState = ChunkLineState.SizeFirst;
        _digits = 0;
        _size = 0;
        _lineExtensionBytes = 0;
    }

    private void ReadLineByte(byte b)
    {
        ChunkLineState from = _lineState;
        _lineState = ChunkLine.Next(from, b);
        switch (_lineState)
        {
            case ChunkLineState.Size:
                AddDigit(b);
                break;
            case ChunkLineState.Lf:
                break;
            case ChunkLineState.End:
                _stage = _size == 0 ? Stage.Trailers : Stage.Data;
                break;
            case ChunkLineState.Broken:
                Fail(ChunkLine.FaultIn(from, b));
                break;
            default:
                CountExtensionByte();
                break;
        }
    }

    // Only data that has come counts: a size is soon written, and a body of small chunks must not be mostly something else.
    private void CountExtensionByte()
    {
        if (++_lineExtensionBytes > ExtensionBytesPerChunkMax || ++_extensionBytes > ExtensionBytesFree + (DataBytes / DataBytesPerExtensionByte))
        {
            Fail(Http1Fault.ChunkExtensionTooLong);
        }
    }

    private void AddDigit(byte digit)
    {
        // '0'-'9' are 0x30-0x39, letters of either case end in 1 to 6.
        _size = (_size << 4) + (uint)((digit & 0x0F) + (digit > '9' ? 9 : 0));
        if (++_digits > SizeDigitsMax || _size > long.MaxValue)
        {
            Fail(Http1Fault.ChunkSizeTooLarge);
        }
    }

    private ReadResult ReadTrailers(ReadOnlySpan<byte> input, ref int consumed)
    {
        TrailersStart = consumed;
        ReadResult result = _trailers.Read(input[consumed..], out int length, out Http1Fault fault);
        if (result == ReadResult.Done)
        {
            consumed += length;
            _stage = Stage.Done;
        }
        else if (result == ReadResult.Faulty)
        {
            Fail(fault);
        }

        return result;
    }

    private void Fail(Http1Fault fault)
    {
        Fault = fault;
        _stage = Stage.Faulty;
    }
}
