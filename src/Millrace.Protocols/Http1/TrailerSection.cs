// The fields behind the last chunk. Same grammar as a header section, but they say nothing about the message: whoever tries is refused.
//
//   trailer-section = *( field-line CRLF )     (RFC 9112 §7.1.2), then CRLF

using System.Runtime.InteropServices;

namespace Millrace.Protocols.Http1;

internal struct TrailerSection
{
    private HeaderField[]? _fields;
    private int _count;
    private int _line;
    private int _scanned;
    private int _bytesMax;
    private int _countMax;

    internal TrailerSection(int bytesMax, int countMax) => (_bytesMax, _countMax) = (bytesMax, countMax);

    internal readonly ReadOnlySpan<HeaderField> Fields => _fields.AsSpan(0, _count);

    internal void Reset(int bytesMax, int countMax)
    {
        (_bytesMax, _countMax) = (bytesMax, countMax);
        _count = 0;
        _line = 0;
        _scanned = 0;
    }

    /// <summary>Reads the section; resumes where it stopped when called again with the same bytes and more.</summary>
    internal ReadResult Read(ReadOnlySpan<byte> input, out int consumed, out Http1Fault fault)
    {
        consumed = 0;
        ref byte start = ref MemoryMarshal.GetReference(input);
        while (true)
        {
            int end = HttpChars.LineText.IndexOfStop(ref start, _scanned, input.Length);
            if (end > _bytesMax - 2)
            {
                fault = Http1Fault.HeadersTooLarge;
                return ReadResult.Faulty;
            }

            _scanned = end;
            ReadResult lineEnd = FieldLine.LineEnd(ref start, end, input.Length, out fault);
            if (lineEnd != ReadResult.Done)
            {
                return lineEnd;
            }

            if (end == _line)
            {
                consumed = end + 2;
                return ReadResult.Done;
            }

            fault = Add(ref start, end, input.Length);
            if (fault != Http1Fault.None)
            {
                return ReadResult.Faulty;
            }

            _line = _scanned = end + 2;
        }
    }

    private Http1Fault Add(ref byte start, int end, int length)
    {
        if (_count >= _countMax)
        {
            return Http1Fault.TooManyHeaders;
        }

        if (_fields is null || _count == _fields.Length)
        {
            Array.Resize(ref _fields, Math.Max(8, _count * 2));
        }

        Http1Fault fault = FieldLine.Split(ref start, _line, end, length, out _fields[_count]);
        if (fault == Http1Fault.None && IsForbidden(_fields[_count].Known))
        {
            fault = Http1Fault.TrailerForbidden;
        }

        _count += fault == Http1Fault.None ? 1 : 0;
        return fault;
    }

    /// <summary>Fields for framing, routing, request modifiers, authentication and content format (RFC 9110 §6.5.1).</summary>
    internal static bool IsForbidden(KnownHeader header) => header is
        KnownHeader.Host or KnownHeader.Connection or KnownHeader.ContentLength or KnownHeader.TransferEncoding or KnownHeader.Expect or KnownHeader.Upgrade or
        KnownHeader.KeepAlive or KnownHeader.ProxyConnection or KnownHeader.TE or KnownHeader.Trailer or KnownHeader.MaxForwards or KnownHeader.CacheControl or
        KnownHeader.Authorization or KnownHeader.ProxyAuthorization or KnownHeader.Cookie or KnownHeader.Range or KnownHeader.IfMatch or
        KnownHeader.IfNoneMatch or KnownHeader.IfModifiedSince or KnownHeader.IfUnmodifiedSince or KnownHeader.IfRange or
        KnownHeader.ContentType or KnownHeader.ContentEncoding or KnownHeader.ContentRange;
}
