// Finds the KnownHeader of a field name: one hash over its length and last eight bytes, one table slot, one comparison of 32 bytes.
// The bytes compared must be tchars already (RFC 9110 §5.6.2): among those, setting bit 5 folds letters and turns nothing else into a letter or hyphen.

using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Runtime.Intrinsics;
using System.Text;

namespace Millrace.Protocols.Http1;

/// <summary>Names of <see cref="KnownHeader"/>, both ways.</summary>
public static class KnownHeaders
{
    private const byte CaseBit = 0x20;
    private const ulong CaseBits = 0x2020202020202020;
    private const int TableBits = 9;

    // A slot holds the name in lower case, its colon, zeros, and the number of the name in the last byte.
    private const int SlotSize = 32;
    private const int NameLengthMax = SlotSize - 2;

    // In the order of the enum.
    private static readonly string[] Names =
    [
        "",
        "Host", "Connection", "Content-Length", "Transfer-Encoding", "Expect", "Upgrade",
        "Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Access-Control-Request-Headers", "Access-Control-Request-Method",
        "Authorization", "Baggage", "Cache-Control", "Content-Encoding", "Content-Language", "Content-Location",
        "Content-Range", "Content-Type", "Cookie", "Correlation-Context", "Date", "DNT",
        "Forwarded", "From", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range",
        "If-Unmodified-Since", "Keep-Alive", "Max-Forwards", "Origin", "Pragma", "Priority",
        "Proxy-Authorization", "Proxy-Connection", "Range", "Referer", "Request-Id", "Sec-CH-UA",
        "Sec-CH-UA-Mobile", "Sec-CH-UA-Platform", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-User",
        "Sec-WebSocket-Extensions", "Sec-WebSocket-Key", "Sec-WebSocket-Protocol", "Sec-WebSocket-Version", "TE", "traceparent",
        "tracestate", "Trailer", "Translate", "Upgrade-Insecure-Requests", "User-Agent", "Via",
        "Warning", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto", "X-Real-IP",
        "X-Request-ID", "X-Requested-With",
    ];

    // The same slots in the order of the enum, with the length of the name in the last byte.
    private static readonly byte[] Texts = MakeTexts();

    private static readonly ulong Multiplier = FindMultiplier();
    private static readonly byte[] Table = MakeTable(Multiplier)!;

    /// <summary>How many names there are, <see cref="KnownHeader.Other"/> counted as one.</summary>
    public static int Count => Names.Length;

    /// <summary>The name in its usual spelling; empty for <see cref="KnownHeader.Other"/>.</summary>
    public static string NameOf(KnownHeader header) => Names[(int)header];

    /// <summary>Which usual name this is, whatever its case.</summary>
    /// <param name="name">A field name that consists of tchars only.</param>
    public static KnownHeader Find(ReadOnlySpan<byte> name)
    {
        if (name.Length is 0 or > NameLengthMax)
        {
            return KnownHeader.Other;
        }

        // Laid out as in a buffer, with bytes to read before and behind.
        Span<byte> copy = stackalloc byte[8 + SlotSize];
        name.CopyTo(copy[8..]);
        copy[8 + name.Length] = (byte)':';
        return FindInside(ref copy[8], name.Length);
    }

    /// <summary>The same for a name in a buffer, its colon behind it.</summary>
    /// <param name="name">Its first byte; the 8 bytes before it and the 32 from it on are readable.</param>
    /// <param name="length">At least 1.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal static KnownHeader FindInside(ref byte name, nint length)
    {
        ref byte slot = ref Unsafe.Add(ref MemoryMarshal.GetArrayDataReference(Table), (nint)(Slot(ref name, length, Multiplier) * SlotSize));
        return EqualBytes(ref name, ref slot) > (uint)length ? (KnownHeader)Unsafe.Add(ref slot, SlotSize - 1) : KnownHeader.Other;
    }

    /// <summary>Whether this name, its colon behind it, stands here: a guess is checked sooner than a name is found.</summary>
    /// <param name="name">32 readable bytes.</param>
    /// <param name="guess">The name to compare with; never equal for <see cref="KnownHeader.Other"/>.</param>
    /// <param name="length">The length of that name.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal static bool Is(ref byte name, KnownHeader guess, out nint length)
    {
        ref byte text = ref Unsafe.Add(ref MemoryMarshal.GetArrayDataReference(Texts), (nint)((uint)guess * SlotSize));
        length = Unsafe.Add(ref text, SlotSize - 1);
        return EqualBytes(ref name, ref text) > (uint)length;
    }

    // How many bytes are equal up to the first difference: more than the name's length if name and colon are.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static uint EqualBytes(ref byte name, ref byte slot)
    {
        Vector256<byte> folded = Vector256.LoadUnsafe(ref name) | Vector256.Create(CaseBit);
        uint equal = Vector256.Equals(folded, Vector256.LoadUnsafe(ref slot)).ExtractMostSignificantBits();
        return (uint)BitOperations.TrailingZeroCount(~equal);
    }

    // The last eight bytes, or as many as there are: what stands before a shorter name is shifted out.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static ulong Slot(ref byte name, nint length, ulong multiplier)
    {
        ulong tail = Unsafe.ReadUnaligned<ulong>(ref Unsafe.Add(ref name, length - 8)) | CaseBits;
        tail = BitConverter.IsLittleEndian ? tail >> ((int)nint.Max(0, 8 - length) * 8) : tail << ((int)nint.Max(0, 8 - length) * 8);
        return (tail + (ulong)length) * multiplier >> (64 - TableBits);
    }

    // Tries odd multipliers in a fixed order until no two names share a slot: the same one in every run.
    private static ulong FindMultiplier()
    {
        ulong candidate = 0x9E3779B97F4A7C15;
        while (MakeTable(candidate) is null)
        {
            candidate = (candidate * 0xD1342543DE82EF95 + 0x632BE59BD9B4E019) | 1;
        }

        return candidate;
    }

    private static byte[] MakeTexts()
    {
        var texts = new byte[SlotSize * Names.Length];
        for (int i = 1; i < Names.Length; i++)
        {
            Span<byte> slot = texts.AsSpan(i * SlotSize, SlotSize);
            Encoding.ASCII.GetBytes(Names[i].ToLowerInvariant() + ":", slot);
            slot[SlotSize - 1] = (byte)Names[i].Length;
        }

        return texts;
    }

    private static byte[]? MakeTable(ulong multiplier)
    {
        var table = new byte[SlotSize << TableBits];
        var name = new byte[8 + SlotSize];
        for (int i = 1; i < Names.Length; i++)
        {
            Array.Clear(name);
            Encoding.ASCII.GetBytes(Names[i].ToLowerInvariant() + ":", name.AsSpan(8));
            Span<byte> slot = table.AsSpan((int)Slot(ref name[8], Names[i].Length, multiplier) * SlotSize, SlotSize);
            if (slot[0] != 0)
            {
                return null;
            }

            name.AsSpan(8).CopyTo(slot);
            slot[SlotSize - 1] = (byte)i;
        }

        return table;
    }
}
