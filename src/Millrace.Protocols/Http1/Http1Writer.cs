// RFC 9112 §4, §5 and §7.1: the bytes of a response head and of chunk framing, into a span. It checks what it is given
// (no CR, LF or NUL ever leaves through a name or a value) and decides nothing: which fields a response has is the caller's business.
//
//   status-line = HTTP-version SP status-code SP [ reason-phrase ] CRLF
//   field-line  = field-name ":" SP field-value CRLF
//   chunk       = chunk-size CRLF chunk-data CRLF

using System.Buffers.Text;
using System.Text;
using Ascii = Millrace.Protocols.Text.Ascii;

namespace Millrace.Protocols.Http1;

/// <summary>What became of a write.</summary>
public enum WriteResult : byte
{
    /// <summary>All of it was written.</summary>
    Written,

    /// <summary>The span is too short; nothing was written. Flush or grow, then write it again.</summary>
    NoRoom,

    /// <summary>A name that is no token, a value or reason with a control or a byte outside ASCII, a status outside [100, 999]; nothing was written.</summary>
    Invalid,
}

/// <summary>Writes response heads and chunk framing into a span. Allocates nothing.</summary>
public ref struct Http1Writer
{
    /// <summary>Most bytes a chunk header takes: 16 hexadecimal digits and CRLF.</summary>
    public const int ChunkHeaderMax = 18;

    private readonly Span<byte> _output;
    private int _written;

    /// <summary>A writer that starts at the first byte of <paramref name="output"/>.</summary>
    public Http1Writer(Span<byte> output) => _output = output;

    /// <summary>Bytes written so far.</summary>
    public readonly int Written => _written;

    private readonly Span<byte> Rest => _output[_written..];

    /// <summary>The last chunk without trailers and the end of the message.</summary>
    public static ReadOnlySpan<byte> LastChunk => "0\r\n\r\n"u8;

    /// <summary>The interim response that lets a client send its body (RFC 9110 §15.2.1).</summary>
    public static ReadOnlySpan<byte> Continue => "HTTP/1.1 100 Continue\r\n\r\n"u8;

    /// <summary>The status line with the registered reason phrase; an unregistered status gets an empty one.</summary>
    /// <param name="status">In [100, 999].</param>
    public WriteResult StatusLine(int status)
    {
        ReadOnlySpan<byte> line = StatusLines.LineOf(status);
        return line.IsEmpty ? StatusLine(status, "") : Raw(line);
    }

    /// <summary>The status line with a reason phrase of the application's own: HTAB, SP and visible ASCII.</summary>
    public WriteResult StatusLine(int status, ReadOnlySpan<char> reason)
    {
        if (status is < 100 or > 999 || !IsValidValue(reason))
        {
            return WriteResult.Invalid;
        }

        Span<byte> to = Rest;
        int length = "HTTP/1.1 200 \r\n".Length + reason.Length;
        if (to.Length < length)
        {
            return WriteResult.NoRoom;
        }

        "HTTP/1.1 "u8.CopyTo(to);
        Utf8Formatter.TryFormat(status, to[9..], out _);
        to[12] = HttpChars.Sp;
        Encoding.ASCII.GetBytes(reason, to[13..]);
        "\r\n"u8.CopyTo(to[(13 + reason.Length)..]);
        _written += length;
        return WriteResult.Written;
    }

    /// <summary>One field line.</summary>
    public WriteResult Header(ReadOnlySpan<char> name, ReadOnlySpan<char> value)
    {
        if (!IsValidName(name) || !IsValidValue(value))
        {
            return WriteResult.Invalid;
        }

        Span<byte> to = Rest;
        if (to.Length - 4 < (long)name.Length + value.Length)
        {
            return WriteResult.NoRoom;
        }

        Encoding.ASCII.GetBytes(name, to);
        Encoding.ASCII.GetBytes(value, to[(name.Length + 2)..]);
        FinishLine(to, name.Length, value.Length);
        return WriteResult.Written;
    }

    /// <summary>One field line from bytes.</summary>
    public WriteResult Header(ReadOnlySpan<byte> name, ReadOnlySpan<byte> value)
    {
        if (!Ascii.IsToken(name) || !IsValidValue(value))
        {
            return WriteResult.Invalid;
        }

        Span<byte> to = Rest;
        if (to.Length - 4 < (long)name.Length + value.Length)
        {
            return WriteResult.NoRoom;
        }

        name.CopyTo(to);
        value.CopyTo(to[(name.Length + 2)..]);
        FinishLine(to, name.Length, value.Length);
        return WriteResult.Written;
    }

    /// <summary><c>Content-Length: n</c>.</summary>
    /// <param name="length">In [0, 2^63-1].</param>
    public WriteResult ContentLength(long length)
    {
        ReadOnlySpan<byte> name = "Content-Length: "u8;
        Span<byte> to = Rest;
        if (length < 0)
        {
            return WriteResult.Invalid;
        }

        if (to.Length < name.Length + 2 || !Utf8Formatter.TryFormat(length, to[name.Length..^2], out int digits))
        {
            return WriteResult.NoRoom;
        }

        name.CopyTo(to);
        "\r\n"u8.CopyTo(to[(name.Length + digits)..]);
        _written += name.Length + digits + 2;
        return WriteResult.Written;
    }

    /// <summary>The empty line that ends a head or a trailer section.</summary>
    public WriteResult EndOfHead() => Raw("\r\n"u8);

    /// <summary>Bytes as they are: prepared lines, or body data.</summary>
    public WriteResult Raw(ReadOnlySpan<byte> bytes)
    {
        if (!bytes.TryCopyTo(Rest))
        {
            return WriteResult.NoRoom;
        }

        _written += bytes.Length;
        return WriteResult.Written;
    }

    /// <summary>The size line before <paramref name="dataLength"/> bytes of data.</summary>
    /// <param name="dataLength">At least 1: a chunk of 0 would end the body.</param>
    public WriteResult ChunkHeader(long dataLength)
    {
        if (dataLength <= 0)
        {
            return WriteResult.Invalid;
        }

        Span<byte> to = Rest;
        if (to.Length < 2 || !Utf8Formatter.TryFormat(dataLength, to[..^2], out int digits, 'x'))
        {
            return WriteResult.NoRoom;
        }

        "\r\n"u8.CopyTo(to[digits..]);
        _written += digits + 2;
        return WriteResult.Written;
    }

    /// <summary>The CRLF behind the data of a chunk.</summary>
    public WriteResult ChunkEnd() => Raw("\r\n"u8);

    /// <summary>The size line of the last chunk; trailers and <see cref="EndOfHead"/> follow.</summary>
    public WriteResult LastChunkHeader() => Raw("0\r\n"u8);

    /// <summary>Whether a field name may be sent: a token (RFC 9110 §5.1).</summary>
    public static bool IsValidName(ReadOnlySpan<char> name) => !name.IsEmpty && !name.ContainsAnyExcept(HeaderText.NameChars);

    /// <summary>Whether a field value may be sent: SP, HTAB and visible ASCII (RFC 9110 §5.5 without obs-text, which nobody should generate).</summary>
    public static bool IsValidValue(ReadOnlySpan<char> value) => !value.ContainsAnyExcept(HeaderText.ValueChars);

    /// <inheritdoc cref="IsValidValue(ReadOnlySpan{char})"/>
    public static bool IsValidValue(ReadOnlySpan<byte> value) => !value.ContainsAnyExcept(HeaderText.ValueBytes);

    private void FinishLine(Span<byte> to, int name, int value)
    {
        to[name] = (byte)':';
        to[name + 1] = HttpChars.Sp;
        "\r\n"u8.CopyTo(to[(name + 2 + value)..]);
        _written += name + value + 4;
    }
}
