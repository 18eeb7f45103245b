// RFC 9112 §2 to §5: the head of one request, from bytes to a table of offsets. No I/O, no strings, no body.
// What the fields mean for framing is in FramingFields.cs, the request line in RequestLine.cs.
//
//   HTTP-message = [ CRLF ] start-line CRLF *( field-line CRLF ) CRLF [ message-body ]
//
//   buffer:  [ empty line ) [ request line CRLF ) [ field line CRLF )* [ CRLF ) [ body or next request
//                           ^ _line: start of the line being read    ^ _scanned: no control byte lies between _line and here
//
// A line is split when its end has come, and never looked at again; an unfinished line is searched on from _scanned.
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

    private HeaderField[] _fields = new HeaderField[32];
    private int _count;
    private int _line;
    private int _scanned;
    private int _fieldsStart;
    private Stage _stage;

    /// <summary>What was wrong, after <see cref="ReadResult.Faulty"/>.</summary>
    public Http1Fault Fault { get; private set; }

    /// <summary>The method, upper-case letters or other tchars, 1 to 32 bytes (RFC 9110 §9.1).</summary>
    public ByteRange Method { get; private set; }

    /// <summary>The request target as sent (RFC 9112 §3.2).</summary>
    public ByteRange Target { get; private set; }

    /// <summary>The path, still percent-encoded, every escape well-formed; empty for <c>*</c>, for CONNECT and for <c>http://host</c>.</summary>
    public ByteRange Path { get; private set; }

    /// <summary>The query with its <c>?</c>; empty if there is none.</summary>
    public ByteRange Query { get; private set; }

    /// <summary>
    /// The host and port the request is for: those of the target if it has them, else the value of Host (RFC 9112 §3.3); empty in HTTP/1.0 without Host.
    /// </summary>
    public ByteRange Authority { get; private set; }

    /// <summary>The form of the target.</summary>
    public TargetForm Form { get; private set; }

    /// <summary>The version of the request line.</summary>
    public HttpVersion Version { get; private set; }

    /// <summary>The field lines in the order they came.</summary>
    public ReadOnlySpan<HeaderField> Headers => _fields.AsSpan(0, _count);

    /// <summary>Starts afresh for the next request. <see cref="Read"/> does so itself after Done.</summary>
    public void Reset()
    {
        _count = 0;
        _line = 0;
        _scanned = 0;
        _stage = Stage.Start;
        Fault = Http1Fault.None;
        Path = default;
        Query = default;
        Authority = default;
        ResetFraming();
    }

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
        consumed = 0;
        if (_stage >= Stage.Done)
        {
            if (_stage == Stage.Faulty)
            {
                return ReadResult.Faulty;
            }

            Reset();
        }

        ref byte start = ref MemoryMarshal.GetReference(input);
        if (_stage < Stage.Fields)
        {
            ReadResult result = ReadRequestLine(ref start, input.Length, in limits);
            if (result != ReadResult.Done)
            {
                return result;
            }
        }

        return ReadFields(ref start, input.Length, in limits, out consumed);
    }

    private ReadResult ReadFields(ref byte start, int length, in Http1Limits limits, out int consumed)
    {
        consumed = 0;
        int line = _line;
        int scanned = _scanned;
        while (true)
        {
            int end = HttpChars.LineText.IndexOfStop(ref start, scanned, length);
            if (end - _fieldsStart > limits.HeaderBytesMax - 2)
            {
                return Fail(Http1Fault.HeadersTooLarge);
            }

            ReadResult lineEnd = FieldLine.LineEnd(ref start, end, length, out Http1Fault fault);
            if (lineEnd != ReadResult.Done)
            {
                (_line, _scanned) = (line, end);
                return lineEnd == ReadResult.NeedMore ? ReadResult.NeedMore : Fail(fault);
            }

            if (end == line)
            {
                consumed = end + 2;
                return Finish();
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
        int index = _count;
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

        _count = index + 1;
        return field.Known is > KnownHeader.Other and <= LastFramingField ? NoteFramingField(ref start, in field, index) : Http1Fault.None;
    }

    private ReadResult Finish()
    {
        Http1Fault fault = CheckFraming();
        if (fault != Http1Fault.None)
        {
            return Fail(fault);
        }

        _stage = Stage.Done;
        return ReadResult.Done;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private ReadResult Fail(Http1Fault fault)
    {
        Fault = fault;
        _stage = Stage.Faulty;
        return ReadResult.Faulty;
    }
}
