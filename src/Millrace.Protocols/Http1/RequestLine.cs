// The request line of Http1Head.
//
//   request-line   = method SP request-target SP HTTP-version                                (RFC 9112 §3)
//   request-target = origin-form / absolute-form / authority-form / asterisk-form            (RFC 9112 §3.2)
//   HTTP-version   = "HTTP/" DIGIT "." DIGIT                                                 (RFC 9112 §2.3)
//
// The rules are checked in an order that depends on no packet border: method, length, line end, version, target.

using System.Buffers.Binary;
using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Millrace.Protocols.Text;

namespace Millrace.Protocols.Http1;

public sealed partial class Http1Head
{
    private const int VersionLength = 8;
    private const ulong Http10Text = 0x48_54_54_50_2F_31_2E_30;
    private const byte TlsHandshakeRecord = 0x16;

    private ReadResult ReadRequestLine(ref byte start, int length, in Http1Limits limits)
    {
        if (_now.Stage == Stage.Start && !SkipEmptyLine(ref start, length))
        {
            return _now.Fault == Http1Fault.None ? ReadResult.NeedMore : Fail(_now.Fault);
        }

        int line = _now.Line;
        int end = HttpChars.LineText.IndexOfStop(ref start, _now.Scanned, length);
        Http1Fault fault = ReadMethod(ref start, line, length);
        if (fault != Http1Fault.None)
        {
            return Fail(fault);
        }

        if (end - line > limits.RequestLineMax - 2)
        {
            return Fail(Http1Fault.RequestLineTooLong);
        }

        ReadResult lineEnd = FieldLine.LineEnd(ref start, end, length, out fault);
        if (lineEnd != ReadResult.Done)
        {
            _now.Scanned = end;
            return lineEnd == ReadResult.NeedMore ? ReadResult.NeedMore : Fail(fault);
        }

        fault = ReadVersionAndTarget(ref start, Method.End + 1, end, length);
        fault = fault == Http1Fault.None ? JudgePath(ref start, in limits) : fault;
        if (fault != Http1Fault.None)
        {
            return Fail(fault);
        }

        _now.Line = _now.Scanned = _now.FieldsStart = end + 2;
        _now.Stage = Stage.Fields;
        return ReadResult.Done;
    }

    // RFC 9112 §2.2: a server should ignore at least one empty line before the request line. This one ignores just one.
    private bool SkipEmptyLine(ref byte start, int length)
    {
        if (length == 0)
        {
            return false;
        }

        if (start == HttpChars.Cr)
        {
            if (length == 1)
            {
                return false;
            }

            if (Unsafe.Add(ref start, 1) != HttpChars.Lf)
            {
                _now.Fault = Http1Fault.EmptyLines;
                return false;
            }

            if (length == 2)
            {
                return false;
            }

            _now.Line = _now.Scanned = 2;
        }

        _now.Stage = Stage.RequestLine;
        return true;
    }

    // The method is looked at as soon as its first byte is there: what is not HTTP at all is refused without waiting for a line end.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private Http1Fault ReadMethod(ref byte start, int line, int length)
    {
        if (length - line >= 4 && Unsafe.ReadUnaligned<uint>(ref Unsafe.Add(ref start, line)) == MemoryMarshal.Read<uint>("GET "u8))
        {
            _now.Method = new ByteRange(line, 3);
            return Http1Fault.None;
        }

        return ReadOtherMethod(ref start, line, length);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private Http1Fault ReadOtherMethod(ref byte start, int line, int length)
    {
        ulong stops = HttpChars.Token.Stops(ref start, line, length);
        int count = stops != 0 ? BitOperations.TrailingZeroCount(stops) : Math.Min(length - line, ByteSet.BlockSize);
        if (count > Http1Limits.MethodMax)
        {
            return Http1Fault.MethodTooLong;
        }

        if (stops == 0)
        {
            return Http1Fault.None;
        }

        byte stop = Unsafe.Add(ref start, line + count);
        if (count == 0)
        {
            return stop switch
            {
                TlsHandshakeRecord => Http1Fault.TlsHandshake,
                HttpChars.Cr => Http1Fault.EmptyLines,
                HttpChars.Lf => Http1Fault.BareLf,
                _ => Http1Fault.Method,
            };
        }

        if (stop != HttpChars.Sp)
        {
            return Http1Fault.Method;
        }

        _now.Method = new ByteRange(line, count);
        return MemoryMarshal.CreateReadOnlySpan(ref Unsafe.Add(ref start, line), count).ContainsAnyInRange((byte)'a', (byte)'z')
            ? Http1Fault.MethodCase
            : Http1Fault.None;
    }

    private Http1Fault ReadVersionAndTarget(ref byte start, int target, int lineEnd, int length)
    {
        // target SP "HTTP/1.x" CR
        int targetEnd = lineEnd - VersionLength - 1;
        if (targetEnd <= target || Unsafe.Add(ref start, targetEnd) != HttpChars.Sp)
        {
            return VersionFault(ref start, target, lineEnd);
        }

        // As one big-endian number "HTTP/1.1" is "HTTP/1.0" and 1.
        ref byte version = ref Unsafe.Add(ref start, targetEnd + 1);
        ulong minor = BinaryPrimitives.ReadUInt64BigEndian(MemoryMarshal.CreateReadOnlySpan(ref version, VersionLength)) - Http10Text;
        if (minor > 1)
        {
            return VersionFault(ref start, target, lineEnd);
        }

        _now.Version = (HttpVersion)minor;
        _now.Target = new ByteRange(target, targetEnd - target);
        return Unsafe.Add(ref start, target) == '/' && !MethodIs(ref start, "CONNECT"u8)
            ? ReadPathAndQuery(ref start, target, targetEnd, length, TargetForm.Origin)
            : ReadOtherTarget(ref start, target, targetEnd, length);
    }

    // What stands where the version should be: nothing, something else, or a version of another protocol.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private Http1Fault VersionFault(ref byte start, int target, int lineEnd)
    {
        ReadOnlySpan<byte> rest = MemoryMarshal.CreateReadOnlySpan(ref Unsafe.Add(ref start, target), lineEnd - target);
        int space = rest.LastIndexOf(HttpChars.Sp);
        ReadOnlySpan<byte> version = rest[(space + 1)..];
        bool wellFormed = version.Length == VersionLength && version.StartsWith("HTTP/"u8) &&
            HttpChars.IsDigit(version[5]) && version[6] == '.' && HttpChars.IsDigit(version[7]);
        if (space <= 0)
        {
            return wellFormed || rest.IsEmpty ? Http1Fault.TargetMissing : space < 0 ? Http1Fault.VersionMissing : Http1Fault.VersionSyntax;
        }

        return !wellFormed ? Http1Fault.VersionSyntax :
            MethodIs(ref start, "PRI"u8) && rest.SequenceEqual("* HTTP/2.0"u8) ? Http1Fault.Http2Preface : Http1Fault.VersionUnsupported;
    }

    private bool MethodIs(ref byte start, ReadOnlySpan<byte> name) =>
        Method.Length == name.Length && MemoryMarshal.CreateReadOnlySpan(ref Unsafe.Add(ref start, Method.Start), name.Length).SequenceEqual(name);

    // path = *( "/" segment ), query after the first "?"; no fragment is ever sent (RFC 9112 §3.2.1).
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private Http1Fault ReadPathAndQuery(ref byte start, int path, int targetEnd, int length, TargetForm form)
    {
        _now.Form = form;
        int end = HttpChars.PlainPath.IndexOfStop(ref start, path, length);
        _now.Path = new ByteRange(path, end - path);
        return end == targetEnd ? Http1Fault.None : ReadUnplainPath(ref start, path, end, targetEnd, length);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private Http1Fault ReadUnplainPath(ref byte start, int path, int at, int targetEnd, int length)
    {
        while (at < targetEnd && Unsafe.Add(ref start, at) == '%')
        {
            // A "%" that two hexadecimal digits do not follow is itself (TargetPath); %00 would end the path for whoever reads it as a C string.
            if (targetEnd - at >= 3 && Unsafe.Add(ref start, at + 1) == '0' && Unsafe.Add(ref start, at + 2) == '0')
            {
                return Http1Fault.TargetEscape;
            }

            at = HttpChars.PlainPath.IndexOfStop(ref start, at + 1, length);
        }

        _now.Path = new ByteRange(path, at - path);
        if (at == targetEnd)
        {
            return Http1Fault.None;
        }

        if (Unsafe.Add(ref start, at) != '?' || HttpChars.Query.IndexOfStop(ref start, at, length) != targetEnd)
        {
            return Http1Fault.TargetSyntax;
        }

        _now.Query = new ByteRange(at, targetEnd - at);
        return Http1Fault.None;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private Http1Fault ReadOtherTarget(ref byte start, int target, int targetEnd, int length)
    {
        ReadOnlySpan<byte> text = MemoryMarshal.CreateReadOnlySpan(ref Unsafe.Add(ref start, target), targetEnd - target);
        if (HttpChars.Query.IndexOfStop(ref start, target, length) != targetEnd)
        {
            return Http1Fault.TargetSyntax;
        }

        if (MethodIs(ref start, "CONNECT"u8))
        {
            _now.Form = TargetForm.Authority;
            _now.Authority = Target;
            return HostSyntax.IsValid(text, PortRule.Required) ? Http1Fault.None : Http1Fault.TargetAuthority;
        }

        if (text.Length == 1 && text[0] == '*')
        {
            _now.Form = TargetForm.Asterisk;
            return MethodIs(ref start, "OPTIONS"u8) ? Http1Fault.None : Http1Fault.TargetForm;
        }

        int scheme = HostSyntax.HttpSchemeLength(text);
        if (scheme == 0)
        {
            // RFC 9110 §7.4: an https target is only for a connection that is secured with a certificate of its host, and this one is not.
            return HostSyntax.IsHttps(text) ? Http1Fault.TargetScheme : Http1Fault.TargetForm;
        }

        int authority = text[scheme..].IndexOfAny((byte)'/', (byte)'?');
        authority = authority < 0 ? text.Length - scheme : authority;
        _now.Authority = new ByteRange(target + scheme, authority);
        return HostSyntax.IsValid(text.Slice(scheme, authority), PortRule.Optional)
            ? ReadPathAndQuery(ref start, target + scheme + authority, targetEnd, length, TargetForm.Absolute)
            : Http1Fault.TargetAuthority;
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private Http1Fault JudgePath(ref byte start, in Http1Limits limits) =>
        limits.RefusesDotSegments && DotSegment.IsIn(MemoryMarshal.CreateReadOnlySpan(ref Unsafe.Add(ref start, Path.Start), Path.Length))
            ? Http1Fault.TargetDotSegments
            : Http1Fault.None;
}
