// The fields behind the last chunk. Same grammar as a header section, but they say nothing about the message: it has been framed, routed and authorised
// before they come. A field that would do one of these is refused, since another reader may have believed it; others that have no meaning behind the
// content are discarded (RFC 9110 §6.5.1), and so are all of a body that nobody reads: where it ends is no question, and its request has been answered.
//
//   trailer-section = *( field-line CRLF )     (RFC 9112 §7.1.2), then CRLF

using System.Runtime.InteropServices;

namespace Millrace.Protocols.Http1;

internal struct TrailerSection
{
    private const int KeptMax = 8;

    private HeaderField[]? _fields;
    private int _count;
    private int _lines;     // with those that were discarded
    private int _line;
    private int _scanned;
    private int _bytesMax;
    private int _countMax;
    private bool _isPassedOver;

    internal TrailerSection(int bytesMax, int countMax) => (_bytesMax, _countMax) = (bytesMax, countMax);

    internal readonly ReadOnlySpan<HeaderField> Fields => _fields.AsSpan(0, _count);

    internal void Reset(int bytesMax, int countMax)
    {
        (_bytesMax, _countMax) = (bytesMax, countMax);
        _count = 0;
        _lines = 0;
        _line = 0;
        _scanned = 0;
        _isPassedOver = false;
    }

    /// <summary>Nobody is told of any field, and none is refused for what it says. A connection that waits for its next request keeps no long table.</summary>
    internal void PassOver()
    {
        _isPassedOver = true;
        _count = 0;
        _fields = _fields?.Length > KeptMax ? null : _fields;
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
        if (++_lines > _countMax)
        {
            return Http1Fault.TooManyHeaders;
        }

        if (_fields is null || _count == _fields.Length)
        {
            Array.Resize(ref _fields, Math.Max(KeptMax, _count * 2));
        }

        Http1Fault fault = FieldLine.Split(ref start, _line, end, length, out _fields[_count]);
        if (fault != Http1Fault.None)
        {
            return fault;
        }

        if (_isPassedOver)
        {
            return Http1Fault.None;
        }

        KnownHeader known = _fields[_count].Known;
        _count += IsDiscarded(known) ? 0 : 1;
        return IsRefused(known) ? Http1Fault.TrailerForbidden : Http1Fault.None;
    }

    /// <summary>Fields that say where the message or the connection ends, whom the message is for, or who sends it.</summary>
    internal static bool IsRefused(KnownHeader header) => header is
        KnownHeader.ContentLength or KnownHeader.TransferEncoding or KnownHeader.Connection or KnownHeader.Upgrade or
        KnownHeader.Host or
        KnownHeader.Authorization or KnownHeader.ProxyAuthorization or KnownHeader.Cookie;

    /// <summary>Fields of one connection, request modifiers and content format: too late behind the content, and harmless where nobody is told of them.</summary>
    internal static bool IsDiscarded(KnownHeader header) => header is
        KnownHeader.KeepAlive or KnownHeader.ProxyConnection or KnownHeader.TE or KnownHeader.Trailer or
        KnownHeader.Expect or KnownHeader.MaxForwards or KnownHeader.CacheControl or KnownHeader.Pragma or KnownHeader.Range or
        KnownHeader.IfMatch or KnownHeader.IfNoneMatch or KnownHeader.IfModifiedSince or KnownHeader.IfUnmodifiedSince or KnownHeader.IfRange or
        KnownHeader.ContentType or KnownHeader.ContentEncoding or KnownHeader.ContentRange;
}
