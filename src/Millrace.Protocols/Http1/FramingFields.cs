// The six fields that decide where a message ends, whom it is for, and what happens to the connection afterwards (RFC 9110 §7, §10.1; RFC 9112 §6, §9).
// Noted while the lines go by, weighed against each other when the head is complete.

using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Millrace.Protocols.Text;

namespace Millrace.Protocols.Http1;

public sealed partial class Http1Head
{
    private const KnownHeader LastFramingField = KnownHeader.Upgrade;

    // Longest run of digits that can be a long: 2^63-1 has 19.
    private const int LengthDigitsMax = 19;

    // What the fields said (Seen), and what follows from all of them together (Meaning).
    [Flags]
    private enum FramingFacts : byte
    {
        None = 0,
        Close = ConnectionOptions.Close,
        KeepAlive = ConnectionOptions.KeepAlive,
        Upgrade = ConnectionOptions.Upgrade,
        UpgradeField = 8,
        Chunked = 16,
        ExpectsContinue = 32,
    }

    /// <summary>Bytes of the body in [0, 2^63-1], or -1 without Content-Length (RFC 9112 §6.2).</summary>
    public long ContentLength => _now.LengthPlusOne - 1;

    /// <summary>The body comes in chunks (RFC 9112 §7.1). Never true together with a Content-Length.</summary>
    public bool IsChunked => (_now.Seen & FramingFacts.Chunked) != 0;

    /// <summary>The client wants the connection to stay: 1.1 without close, or 1.0 with keep-alive and without close (RFC 9112 §9.3).</summary>
    public bool KeepAlive => (_now.Meaning & FramingFacts.KeepAlive) != 0;

    /// <summary>An HTTP/1.1 client waits for 100 (Continue) before it sends the body that is announced (RFC 9110 §10.1.1).</summary>
    public bool ExpectsContinue => (_now.Meaning & FramingFacts.ExpectsContinue) != 0;

    /// <summary>HTTP/1.1 with <c>Connection: upgrade</c> and an Upgrade field that is not empty (RFC 9110 §7.8). A body may come with it.</summary>
    public bool IsUpgrade => (_now.Meaning & FramingFacts.Upgrade) != 0;

    /// <summary>Index of the Host line in <see cref="Headers"/>, -1 if there is none (HTTP/1.0 only).</summary>
    public int HostIndex => _now.HostIndexPlusOne - 1;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private Http1Fault NoteFramingField(ref byte start, int valueStart, int valueLength, KnownHeader known)
    {
        ReadOnlySpan<byte> value = MemoryMarshal.CreateReadOnlySpan(ref Unsafe.Add(ref start, valueStart), valueLength);
        switch (known)
        {
            case KnownHeader.Host:
                return NoteHost(value);
            case KnownHeader.Connection:
                return NoteConnection(value);
            case KnownHeader.ContentLength:
                return NoteContentLength(value);
            case KnownHeader.TransferEncoding:
                return NoteTransferEncoding(value);
            case KnownHeader.Expect:
                _now.Seen |= FramingFacts.ExpectsContinue;
                return Ascii.EqualsLowerCase(value, "100-continue"u8) ? Http1Fault.None : Http1Fault.Expectation;
            default:
                _now.Seen |= value.IsEmpty ? FramingFacts.None : FramingFacts.UpgradeField;
                return Http1Fault.None;
        }
    }

    private Http1Fault NoteConnection(ReadOnlySpan<byte> value)
    {
        bool isList = ConnectionField.TryRead(value, out ConnectionOptions options);
        _now.Seen |= (FramingFacts)options;
        return isList ? Http1Fault.None : Http1Fault.ConnectionSyntax;
    }

    // RFC 9112 §3.2: exactly one in HTTP/1.1, and valid. An empty one would only be right for a target without authority, which http never has.
    private Http1Fault NoteHost(ReadOnlySpan<byte> value)
    {
        if (_now.HostIndexPlusOne != 0)
        {
            return Http1Fault.HostRepeated;
        }

        _now.HostIndexPlusOne = _now.Count;
        return HostSyntax.IsValid(value, PortRule.Optional) || (value.IsEmpty && _now.Version == HttpVersion.Http10) ? Http1Fault.None : Http1Fault.HostSyntax;
    }

    // Content-Length = 1*DIGIT  (RFC 9110 §8.6); leading zeros are refused because some peers read them as octal.
    private Http1Fault NoteContentLength(ReadOnlySpan<byte> value)
    {
        if (_now.LengthPlusOne != 0)
        {
            return Http1Fault.ContentLengthRepeated;
        }

        if (value.IsEmpty || value.ContainsAnyExceptInRange((byte)'0', (byte)'9') || (value[0] == '0' && value.Length > 1))
        {
            return Http1Fault.ContentLengthSyntax;
        }

        ulong sum = 0;
        for (int i = 0; i < value.Length && i < LengthDigitsMax; i++)
        {
            sum = sum * 10 + (uint)(value[i] - '0');
        }

        if (value.Length > LengthDigitsMax || sum > long.MaxValue)
        {
            return Http1Fault.ContentLengthTooLarge;
        }

        // 2^63-1 wraps to -2^63 here and back in ContentLength.
        _now.LengthPlusOne = unchecked((long)(sum + 1));
        return Http1Fault.None;
    }

    // RFC 9112 §6.1. Only the one word is accepted; the rest is sorted into what is malformed and what is merely unknown.
    private Http1Fault NoteTransferEncoding(ReadOnlySpan<byte> value)
    {
        if (IsChunked)
        {
            return Http1Fault.TransferEncodingRepeated;
        }

        if (!Ascii.EqualsLowerCase(value, "chunked"u8))
        {
            return TransferCodings.FaultOf(value);
        }

        _now.Seen |= FramingFacts.Chunked;
        return Http1Fault.None;
    }

    private Http1Fault CheckFraming(ref byte start)
    {
        bool is11 = _now.Version == HttpVersion.Http11;
        if (_now.HostIndexPlusOne != 0)
        {
            if (_now.Form is TargetForm.Origin or TargetForm.Asterisk)
            {
                ref readonly HeaderField host = ref _fields[_now.HostIndexPlusOne - 1];
                _now.Authority = new ByteRange(host.ValueStart, host.ValueLength);
            }
            else if (_now.Form == TargetForm.Authority && !IsHostOfTarget(ref start))
            {
                return Http1Fault.HostDisagrees;
            }
        }
        else if (is11)
        {
            return Http1Fault.HostMissing;
        }

        FramingFacts seen = _now.Seen;
        if (is11 && (seen & ~FramingFacts.KeepAlive) == 0)
        {
            _now.Meaning = FramingFacts.KeepAlive;
            return Http1Fault.None;
        }

        return CheckRareFraming(ref start, seen, is11);
    }

    // RFC 9112 §3.2.3: CONNECT is for its target; a Host that says otherwise is what somebody else went by. An absolute target replaces Host instead (§3.2.2).
    [MethodImpl(MethodImplOptions.NoInlining)]
    private bool IsHostOfTarget(ref byte start)
    {
        ref readonly HeaderField host = ref _fields[_now.HostIndexPlusOne - 1];
        return host.ValueLength == 0 || RequestTarget.IsSameAuthority(
            MemoryMarshal.CreateReadOnlySpan(ref Unsafe.Add(ref start, Target.Start), Target.Length),
            MemoryMarshal.CreateReadOnlySpan(ref Unsafe.Add(ref start, host.ValueStart), host.ValueLength));
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private Http1Fault CheckRareFraming(ref byte start, FramingFacts seen, bool is11)
    {
        // RFC 1945 §8.3: required there, since whoever leaves it out may mean the rest of the connection.
        if (!is11 && !IsChunked && _now.LengthPlusOne == 0 && (MethodIs(ref start, "POST"u8) || MethodIs(ref start, "PUT"u8)))
        {
            return Http1Fault.ContentLengthMissing;
        }

        if (IsChunked)
        {
            if (_now.LengthPlusOne != 0)
            {
                return Http1Fault.LengthAndEncoding;
            }

            if (!is11)
            {
                return Http1Fault.TransferEncodingIn10;
            }
        }

        bool keep = (seen & FramingFacts.Close) == 0 && (is11 || (seen & FramingFacts.KeepAlive) != 0);
        bool upgrade = is11 && (seen & (FramingFacts.Upgrade | FramingFacts.UpgradeField)) == (FramingFacts.Upgrade | FramingFacts.UpgradeField);
        bool expects = is11 && (seen & FramingFacts.ExpectsContinue) != 0 && (IsChunked || _now.LengthPlusOne is not (0 or 1));
        _now.Meaning = (keep ? FramingFacts.KeepAlive : 0) | (upgrade ? FramingFacts.Upgrade : 0) | (expects ? FramingFacts.ExpectsContinue : 0);
        return Http1Fault.None;
    }
}
