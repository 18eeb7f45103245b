// RFC 9112 §2 to §5: the head of one request, from bytes to a table of offsets. No I/O, no strings, no body.
// The usual case is read in WholeLines.cs, the request line in RequestLine.cs; what the fields mean for framing is in FramingFields.cs.
//
//   HTTP-message = [ CRLF ] start-line CRLF *( field-line CRLF ) CRLF [ message-body ]
//
//   buffer:  [ empty line ) [ request line CRLF ) [ field line CRLF )* [ CRLF ) [ body or next request
//                           ^ Line: start of the line being read         ^ Scanned: no control byte lies between Line and here
//
// A line is split when its end has come, and never looked at again; an unfinished line is searched on from Scanned.
// So the cost is one pass over the bytes however they were cut into packets, and a fault shows with the line that has it.

using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace Millrace.Protocols.Http1;

/// <summary>
/// Reads one request head. Reusable; allocates nothing once its table has grown to the number of fields in use.
/// Everything it found is given as offsets from the first byte of the buffer that was read, and holds until the next Read or Reset.
/// </summary>
public sealed partial class Http1Head
{
    private enum Stage : byte
    {
        Start,
        RequestLine,
        Fields,
        Done,
        Faulty,
    }

    // Everything that belongs to one request, together so that starting afresh is writing zeros over it.
    private struct State
    {
        internal ByteRange Method;
        internal ByteRange Target;
        internal ByteRange Path;
        internal ByteRange Query;
        internal ByteRange Authority;
        internal long LengthPlusOne;
        internal int HostIndexPlusOne;
        internal int Count;
        internal int Line;
        internal int Scanned;
        internal int FieldsStart;
        internal Stage Stage;
        internal Http1Fault Fault;
        internal HttpVersion Version;
        internal TargetForm Form;
        internal FramingFacts Seen;
        internal FramingFacts Meaning;
    }

    private HeaderField[] _fields = new HeaderField[64];
    private State _now;

    /// <summary>What was wrong, after <see cref="ReadResult.Faulty"/>.</summary>
    public Http1Fault Fault => _now.Fault;

    /// <summary>The method, upper-case letters or other tchars, 1 to 32 bytes (RFC 9110 §9.1).</summary>
    public ByteRange Method => _now.Method;

    /// <summary>The request target as sent (RFC 9112 §3.2).</summary>
    public ByteRange Target => _now.Target;

    /// <summary>The path, still percent-encoded, every escape well-formed; empty for <c>*</c>, for CONNECT and for <c>http://host</c>.</summary>
    public ByteRange Path => _now.Path;

    /// <summary>The query with its <c>?</c>; empty if there is none.</summary>
    public ByteRange Query => _now.Query;

    /// <summary>
    /// The host and port the request is for: those of the target if it has them, else the value of Host (RFC 9112 §3.3); empty in HTTP/1.0 without Host.
    /// </summary>
    public ByteRange Authority => _now.Authority;

    /// <summary>The form of the target.</summary>
    public TargetForm Form => _now.Form;

    /// <summary>The version of the request line.</summary>
    public HttpVersion Version => _now.Version;

    /// <summary>The field lines in the order they came.</summary>
    public ReadOnlySpan<HeaderField> Headers => _fields.AsSpan(0, _now.Count);

    /// <summary>Starts afresh for the next request. <see cref="Read"/> does so itself after Done.</summary>
    public void Reset() => _now = default;

    /// <summary>
    /// Reads a head. After <see cref="ReadResult.NeedMore"/> call again with the same bytes and more behind them: the search goes on where it stopped.
    /// After <see cref="ReadResult.Done"/> the body or the next request begins at <paramref name="consumed"/>.
    /// After <see cref="ReadResult.Faulty"/> only <see cref="Reset"/> leads on.
    /// </summary>
    /// <param name="input">All bytes received from the first one of this request on. They may have been moved since the last call.</param>
    /// <param name="limits">How large a head may be; the same in all calls for one request.</param>
    /// <param name="consumed">Bytes of the head, a skipped empty line and the closing empty line included; 0 unless Done.</param>
    public ReadResult Read(ReadOnlySpan<byte> input, in Http1Limits limits, out int consumed)
    {
        if (_now.Stage == Stage.Done)
        {
            Reset();
        }

        if (_now.Stage == Stage.Start && input.Length >= ByteSet.BlockSize)
        {
            ReadResult result = ReadWholeLines(ref MemoryMarshal.GetReference(input), input.Length, in limits, out consumed);
            if (result != ReadResult.NeedMore)
            {
                return result;
            }
        }

        return ReadOn(input, in limits, out consumed);
    }

    // What is not a whole request of the usual kind: a short one, one of which a part was read before, one that needs a close look.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private ReadResult ReadOn(ReadOnlySpan<byte> input, in Http1Limits limits, out int consumed)
    {
        consumed = 0;
        if (_now.Stage == Stage.Faulty)
        {
            return ReadResult.Faulty;
        }

        if (_now.Stage == Stage.Start && input.Length < ByteSet.BlockSize)
        {
            ReadResult result = ReadShort(input, in limits, out consumed);
            if (result != ReadResult.NeedMore)
            {
                return result;
            }
        }

        return ReadClosely(ref MemoryMarshal.GetReference(input), input.Length, in limits, out consumed);
    }

    private ReadResult ReadClosely(ref byte start, int length, in Http1Limits limits, out int consumed)
    {
        consumed = 0;
        if (_now.Stage < Stage.Fields)
        {
            ReadResult result = ReadRequestLine(ref start, length, in limits);
            if (result != ReadResult.Done)
            {
                return result;
            }
        }

        return ReadFields(ref start, length, in limits, out consumed);
    }

    private ReadResult ReadFields(ref byte start, int length, in Http1Limits limits, out int consumed)
    {
        consumed = 0;
        int line = _now.Line;
        int scanned = _now.Scanned;
        while (true)
        {
            int end = HttpChars.LineText.IndexOfStop(ref start, scanned, length);
            if (end - _now.FieldsStart > limits.HeaderBytesMax - 2)
            {
                return Fail(Http1Fault.HeadersTooLarge);
            }

            ReadResult lineEnd = FieldLine.LineEnd(ref start, end, length, out Http1Fault fault);
            if (lineEnd != ReadResult.Done)
            {
                (_now.Line, _now.Scanned) = (line, end);
                return lineEnd == ReadResult.NeedMore ? ReadResult.NeedMore : Fail(fault);
            }

            if (end == line)
            {
                consumed = end + 2;
                return Finish(ref start, ref consumed);
            }

            fault = AddField(ref start, line, end, length, limits.HeaderCountMax);
            if (fault != Http1Fault.None)
            {
                consumed = 0;
                return Fail(fault);
            }

            line = scanned = end + 2;
        }
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private Http1Fault AddField(ref byte start, int line, int end, int length, int countMax)
    {
        int index = _now.Count;
        if (index >= _fields.Length || index >= countMax)
        {
            if (index >= countMax)
            {
                return Http1Fault.TooManyHeaders;
            }

            Array.Resize(ref _fields, _fields.Length * 2);
        }

        ref HeaderField field = ref Unsafe.Add(ref MemoryMarshal.GetArrayDataReference(_fields), index);
        Http1Fault fault = FieldLine.Split(ref start, line, end, length, out field);
        if (fault != Http1Fault.None)
        {
            return fault;
        }

        _now.Count = index + 1;
        return field.Known is > KnownHeader.Other and <= LastFramingField
            ? NoteFramingField(ref start, field.ValueStart, field.ValueLength, field.Known)
            : Http1Fault.None;
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private ReadResult Finish(ref byte start, ref int consumed)
    {
        Http1Fault fault = CheckFraming(ref start);
        if (fault != Http1Fault.None)
        {
            consumed = 0;
            return Fail(fault);
        }

        _now.Stage = Stage.Done;
        return ReadResult.Done;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private ReadResult Fail(Http1Fault fault)
    {
        _now.Fault = fault;
        _now.Stage = Stage.Faulty;
        return ReadResult.Faulty;
    }
}
