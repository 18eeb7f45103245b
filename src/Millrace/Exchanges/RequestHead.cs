// The head of a request, whichever protocol it came by: slices of the buffer it was received in, turned into strings only
// on demand. That is the driver's as long as the request does not outlive its turn; then its bytes are looked at in a copy.

using System.Buffers.Text;
using System.Net;
using System.Runtime.CompilerServices;
using Microsoft.AspNetCore.Http;
using Millrace.Platform;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.Text;

namespace Millrace.Exchanges;

internal sealed class RequestHead
{
    private const int CopySizeMin = 1024;
    private const int CopyKeptMax = 4096;

    private HeaderSlice[] _fields = new HeaderSlice[32];
    private byte[]? _copy;       // all bytes of the head, from its first on; null: they are in the buffer
    private byte[]? _kept;       // where the next request's go

    /// <summary>What the slices below are offsets into, from <see cref="Origin"/> on.</summary>
    public byte[] Buffer { get; set; } = [];

    public int Origin { get; set; }

    /// <summary>So many bytes of the buffer are the head's.</summary>
    public int Length { get; set; }

    public Slice Method;
    public Slice Target;
    public Slice Path;
    public Slice Query;
    public Slice Protocol;
    public Slice Host;
    public Slice ContentType;
    public long ContentLength = -1;
    public bool IsHttps;

    /// <summary>The target says the host, and no Host field or HTTP_HOST does (HTTP/1.0).</summary>
    public bool HasHostInTargetOnly;

    /// <summary>FastCGI only: addresses of the client and of the front server, and all parameters as they came.</summary>
    public Slice RemoteAddress, RemotePort, ServerAddress, ServerPort, ServerName, Parameters;

    public bool IsFastCgi;

    /// <summary>The path, decoded: there once <see cref="TryGetPath()"/> has answered true.</summary>
    public string PathText { get; private set; } = "";

    public int FieldCount { get; private set; }

    public ReadOnlySpan<HeaderSlice> Fields => _fields.AsSpan(0, FieldCount);

    public ReadOnlySpan<byte> this[Slice slice] => slice.IsPresent ? At(slice.Start, slice.Length) : default;

    public ReadOnlySpan<byte> Name(in HeaderSlice field) => At(field.NameStart, field.NameLength);

    public ReadOnlySpan<byte> Value(in HeaderSlice field) => At(field.ValueStart, field.ValueLength);

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private ReadOnlySpan<byte> At(int start, int length) =>
        Volatile.Read(ref _copy) is { } copy ? copy.AsSpan(start, length) : Buffer.AsSpan(Origin + start, length);

    /// <summary>Whoever looks from here on looks at a copy: the buffer is about to be used for something else. Others may look at the buffer meanwhile, and do so still. False where there is no memory for it.</summary>
    public bool TryMoveOut()
    {
        byte[] copy;
        try
        {
            copy = _kept is { } kept && kept.Length >= Length ? kept : MakeCopy();
        }
        catch (OutOfMemoryException)
        {
            return false;
        }

        Buffer.AsSpan(Origin, Length).CopyTo(copy);
        Volatile.Write(ref _copy, copy);
        return true;
    }

    // Heads that come again and again are short, and have their place here for good.
    private byte[] MakeCopy()
    {
        int size = Math.Max(CopySizeMin, (int)System.Numerics.BitOperations.RoundUpToPowerOf2((uint)Length));
        return size > CopyKeptMax ? BufferPool.Rent(size) : _kept = new byte[size];
    }

    /// <summary>Bytes of memory that are its alone.</summary>
    public int BytesHeld => _copy?.Length ?? 0;

    public void SetFields(ReadOnlySpan<HeaderSlice> fields) => fields.CopyTo(ReserveFields(fields.Length));

    public Span<HeaderSlice> ReserveFields(int count)
    {
        if (_fields.Length < count)
        {
            _fields = new HeaderSlice[count];
        }

        FieldCount = count;
        return _fields.AsSpan(0, count);
    }

    // ---- strings ----

    public string MethodText => this[Method].SequenceEqual("GET"u8) ? HttpMethods.Get : StringTable.ForThisThread.Get(this[Method]);

    public string TargetText => StringTable.ForThisThread.Get(this[Target]);

    public string QueryText => Query.Length == 0 ? "" : StringTable.ForThisThread.Get(this[Query]);

    public string ProtocolText => Protocol.Length == 0 ? "HTTP/1.0" : StringTable.ForThisThread.Get(this[Protocol]);

    public string HostText => StringTable.ForThisThread.Get(this[Host]);

    public string ContentTypeText => StringTable.ForThisThread.Get(this[ContentType]);

    /// <summary>What is asked for again and again, and by whoever writes the response without a use of the exchange.</summary>
    public bool IsHead { get; private set; }

    public bool IsConnect { get; private set; }

    /// <summary>The head has been filled in.</summary>
    public void NoteMethod()
    {
        ReadOnlySpan<byte> method = this[Method];
        IsHead = method.SequenceEqual("HEAD"u8);
        IsConnect = method.SequenceEqual("CONNECT"u8);
    }

    /// <summary>The name of a field, and whether its values must not be kept.</summary>
    public string FieldName(in HeaderSlice field, StringTable strings, out bool isSecret) =>
        IsFastCgi ? strings.GetVariableName(Name(field), out isSecret) : strings.GetFieldName(Name(field), out isSecret);

    public string FieldValue(in HeaderSlice field, StringTable strings, bool isSecret)
    {
        ReadOnlySpan<byte> value = Value(field);
        return isSecret ? StringTable.Decode(value) : strings.Get(value);
    }

    /// <summary>Decodes the path; escapes that are not UTF-8 stay as they are. False when it holds an escaped NUL.</summary>
    public bool TryGetPath()
    {
        bool good = TryGetPath(out string path);
        PathText = path;
        return good;
    }

    private bool TryGetPath(out string path)
    {
        ReadOnlySpan<byte> raw = this[Path];
        if (raw.IsEmpty)
        {
            // RFC 9110 §7.1: an absolute URI without a path means its root; the asterisk and an authority have none.
            path = TargetPath.AuthorityStart(this[Target]) > 0 ? "/" : "";
            return true;
        }

        if (!TargetPath.NeedsDecoding(raw))
        {
            path = StringTable.ForThisThread.Get(raw);
            return true;
        }

        byte[]? rented = raw.Length > 512 ? BufferPool.Rent(raw.Length) : null;
        Span<byte> scratch = rented ?? stackalloc byte[512];
        bool good = TargetPath.TryDecode(raw, scratch, out int length);
        path = good ? StringTable.ForThisThread.GetUtf8(scratch[..length]) : "";
        if (rented is not null)
        {
            BufferPool.Return(rented);
        }

        return good;
    }

    /// <summary>The address of the client as the front server reports it; null when it is not an address.</summary>
    public IPAddress? RemoteIPAddress => ParseAddress(this[RemoteAddress]);

    public IPAddress? LocalIPAddress => ParseAddress(this[ServerAddress]);

    public int RemotePortNumber => ParsePort(this[RemotePort]);

    public int LocalPortNumber => ParsePort(this[ServerPort]);

    private static IPAddress? ParseAddress(ReadOnlySpan<byte> text) =>
        text.Length is > 0 and <= 64 && (text[0] == (byte)':' || char.IsAsciiHexDigit((char)text[0])) && LooksWhole(text)
        && IPAddress.TryParse(StringTable.ForThisThread.Get(text), out IPAddress? address) ? address : null;

    // "1.2.3" and "5" are addresses to IPAddress.Parse; nobody sends them and means it.
    private static bool LooksWhole(ReadOnlySpan<byte> text) => text.Contains((byte)':') || text.Count((byte)'.') == 3;

    private static int ParsePort(ReadOnlySpan<byte> text) =>
        text.Length is > 0 and <= 5 && Utf8Parser.TryParse(text, out ushort port, out int used) && used == text.Length ? port : 0;

    public void Reset()
    {
        if (_copy is { } copy && copy != _kept)
        {
            BufferPool.Return(copy);
        }

        _copy = null;
        Buffer = [];
        PathText = "";
        Origin = Length = FieldCount = 0;
        Method = Target = Path = Query = Protocol = Host = ContentType = default;
        RemoteAddress = RemotePort = ServerAddress = ServerPort = ServerName = Parameters = default;
        ContentLength = -1;
        IsHttps = IsFastCgi = HasHostInTargetOnly = false;
    }
}
