// The six fields that decide where a message ends, whom it is for, and what happens to the connection afterwards (RFC 9110 §7, §10.1; RFC 9112 §6, §9).
// Noted while the lines go by, weighed against each other when the head is complete.

using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace Millrace.Protocols.Http1;

public sealed partial class Http1Head
{
    private const KnownHeader LastFramingField = KnownHeader.Upgrade;

    // Longest run of digits that can be a long: 2^63-1 has 19.
    private const int LengthDigitsMax = 19;

    private ConnectionOptions _connection;
    private bool _expects;
    private bool _hasUpgrade;

    /// <summary>Bytes of the body in [0, 2^63-1], or -1 without Content-Length (RFC 9112 §6.2).</summary>
    public long ContentLength { get; private set; }

    /// <summary>The body comes in chunks (RFC 9112 §7.1). Never true together with a Content-Length.</summary>
    public bool IsChunked { get; private set; }

    /// <summary>The client wants the connection to stay: 1.1 without close, or 1.0 with keep-alive and without close (RFC 9112 §9.3).</summary>
    public bool KeepAlive { get; private set; }

    /// <summary>An HTTP/1.1 client waits for 100 (Continue) before it sends the body that is announced (RFC 9110 §10.1.1).</summary>
    public bool ExpectsContinue { get; private set; }

    /// <summary>HTTP/1.1 with <c>Connection: upgrade</c> and an Upgrade field that is not empty (RFC 9110 §7.8). A body may come with it.</summary>
    public bool IsUpgrade { get; private set; }

    /// <summary>Index of the Host line in <see cref="Headers"/>, -1 if there is none (HTTP/1.0 only).</summary>
    public int HostIndex { get; private set; }

    private void ResetFraming()
    {
        _connection = ConnectionOptions.None;
        _expects = false;
        _hasUpgrade = false;
        ContentLength = -1;
        IsChunked = false;
        HostIndex = -1;
    }

    /// <summary>An empty reader.</summary>
    public Http1Head() => Reset();

    private Http1Fault NoteFramingField(ref byte start, in HeaderField field, int index)
    {
        ReadOnlySpan<byte> value = MemoryMarshal.CreateReadOnlySpan(ref Unsafe.Add(ref start, field.ValueStart), field.ValueLength);
        switch (field.Known)
        {
            case KnownHeader.Host:
                return NoteHost(value, index);
            case KnownHeader.Connection:
                return ConnectionField.Read(value, ref _connection) ? Http1Fault.None : Http1Fault.ConnectionSyntax;
            case KnownHeader.ContentLength:
                return NoteContentLength(value);
            case KnownHeader.TransferEncoding:
                return NoteTransferEncoding(value);
            case KnownHeader.Expect:
                _expects = true;
                return Ascii.EqualsIgnoreCase(value, "100-continue"u8) ? Http1Fault.None : Http1Fault.Expectation;
            default:
                _hasUpgrade |= !value.IsEmpty;
                return Http1Fault.None;
        }
    }

    // RFC 9112 §3.2: exactly one in HTTP/1.1, and valid. An empty one would only be right for a target without authority, which http never has.
    private Http1Fault NoteHost(ReadOnlySpan<byte> value, int index)
    {
        if (HostIndex >= 0)
        {
            return Http1Fault.HostRepeated;
        }

        HostIndex = index;
        if (value.IsEmpty)
        {
            return Version == HttpVersion.Http10 ? Http1Fault.None : Http1Fault.HostSyntax;
        }

        return HostSyntax.IsValid(value, PortRule.Optional) ? Http1Fault.None : Http1Fault.HostSyntax;
    }

    // Content-Length = 1*DIGIT  (RFC 9110 §8.6); leading zeros are refused because some peers read them as octal.
    private Http1Fault NoteContentLength(ReadOnlySpan<byte> value)
    {
        if (ContentLength >= 0)
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

        ContentLength = (long)sum;
        return Http1Fault.None;
    }

    // RFC 9112 §6.1. Only the one word is accepted; the rest is sorted into what is malformed and what is merely unknown.
    private Http1Fault NoteTransferEncoding(ReadOnlySpan<byte> value)
    {
        if (IsChunked)
        {
            return Http1Fault.TransferEncodingRepeated;
        }

        if (Ascii.EqualsIgnoreCase(value, "chunked"u8))
        {
            IsChunked = true;
            return Http1Fault.None;
        }

        return TransferCodings.FaultOf(value);
    }

    private Http1Fault CheckFraming()
    {
        if (IsChunked)
        {
            if (ContentLength >= 0)
            {
                return Http1Fault.LengthAndEncoding;
            }

            if (Version == HttpVersion.Http10)
            {
                return Http1Fault.TransferEncodingIn10;
            }
        }

        bool is11 = Version == HttpVersion.Http11;
        if (HostIndex < 0)
        {
            if (is11)
            {
                return Http1Fault.HostMissing;
            }
        }
        else if (Form is TargetForm.Origin or TargetForm.Asterisk)
        {
            ref readonly HeaderField host = ref _fields[HostIndex];
            Authority = new ByteRange(host.ValueStart, host.ValueLength);
        }

        KeepAlive = (_connection & ConnectionOptions.Close) == 0 && (is11 || (_connection & ConnectionOptions.KeepAlive) != 0);
        IsUpgrade = is11 && _hasUpgrade && (_connection & ConnectionOptions.Upgrade) != 0;
        ExpectsContinue = is11 && _expects && (IsChunked || ContentLength > 0);
        return Http1Fault.None;
    }
}
