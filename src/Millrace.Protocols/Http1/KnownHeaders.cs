// Finds the KnownHeader of a field name: one hash over length, first and last bytes, one table probe, one comparison.
// The bytes compared must be tchars already (RFC 9110 §5.6.2): among those, setting bit 5 folds letters and nothing else into letters.

using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text;

namespace Millrace.Protocols.Http1;

/// <summary>Names of <see cref="KnownHeader"/>, both ways.</summary>
public static class KnownHeaders
{
    private const ulong CaseBits = 0x2020202020202020;
    private const int TableBits = 10;
    private const int NameLengthMax = 32;

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

    private static readonly Entry[] Entries = MakeEntries();
    private static readonly ulong Multiplier = FindMultiplier();
    private static readonly byte[] Table = MakeTable(Multiplier)!;

    /// <summary>How many names there are, <see cref="KnownHeader.Other"/> counted as one.</summary>
    public static int Count => Names.Length;

    /// <summary>The name in its usual spelling; empty for <see cref="KnownHeader.Other"/>.</summary>
    public static string NameOf(KnownHeader header) => Names[(int)header];

    /// <summary>Which usual name this is, whatever its case.</summary>
    /// <param name="name">A field name that consists of tchars only.</param>
    public static KnownHeader Find(ReadOnlySpan<byte> name) => name.IsEmpty ? KnownHeader.Other : Find(ref MemoryMarshal.GetReference(name), name.Length);

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal static KnownHeader Find(ref byte name, int length)
    {
        if (length > NameLengthMax)
        {
            return KnownHeader.Other;
        }

        (ulong head, ulong tail) = Ends(ref name, length);
        int id = Unsafe.Add(ref MemoryMarshal.GetArrayDataReference(Table), (nint)Slot(head, tail, length, Multiplier));
        ref Entry entry = ref Unsafe.Add(ref MemoryMarshal.GetArrayDataReference(Entries), id);
        if (entry.Head != head | entry.Tail != tail | entry.Length != length)
        {
            return KnownHeader.Other;
        }

        return length <= 16 || MiddleEquals(ref name, length, in entry) ? (KnownHeader)id : KnownHeader.Other;
    }

    // The ends overlap in names shorter than 16 bytes; together they then cover the whole name.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static (ulong Head, ulong Tail) Ends(ref byte name, int length)
    {
        if (length >= 8)
        {
            return (Unsafe.ReadUnaligned<ulong>(ref name) | CaseBits, Unsafe.ReadUnaligned<ulong>(ref Unsafe.Add(ref name, length - 8)) | CaseBits);
        }

        if (length >= 4)
        {
            return (Unsafe.ReadUnaligned<uint>(ref name) | CaseBits, Unsafe.ReadUnaligned<uint>(ref Unsafe.Add(ref name, length - 4)) | CaseBits);
        }

        uint few = name | (uint)Unsafe.Add(ref name, length >> 1) << 8 | (uint)Unsafe.Add(ref name, length - 1) << 16;
        return (few | CaseBits, 0);
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static uint Slot(ulong head, ulong tail, int length, ulong multiplier) =>
        (uint)(((head ^ ulong.RotateLeft(tail, 29)) + (uint)length) * multiplier >> (64 - TableBits));

    // Bytes 8 to 15 and the eight before the tail cover what the ends leave open in names of 17 to 32 bytes.
    private static bool MiddleEquals(ref byte name, int length, in Entry entry) =>
        (Unsafe.ReadUnaligned<ulong>(ref Unsafe.Add(ref name, 8)) | CaseBits) == entry.Second &&
        (Unsafe.ReadUnaligned<ulong>(ref Unsafe.Add(ref name, length - 16)) | CaseBits) == entry.Third;

    private static Entry[] MakeEntries()
    {
        var entries = new Entry[Names.Length];
        for (int i = 1; i < Names.Length; i++)
        {
            byte[] name = Encoding.ASCII.GetBytes(Names[i]);
            (ulong head, ulong tail) = Ends(ref name[0], name.Length);
            bool middle = name.Length > 16;
            entries[i] = new Entry
            {
                Head = head,
                Tail = tail,
                Length = name.Length,
                Second = middle ? Unsafe.ReadUnaligned<ulong>(ref name[8]) | CaseBits : 0,
                Third = middle ? Unsafe.ReadUnaligned<ulong>(ref name[^16]) | CaseBits : 0,
            };
        }

        return entries;
    }

    // Tries odd multipliers in a fixed order until no two names share a slot: the same one in every run.
    private static ulong FindMultiplier()
    {
        for (ulong candidate = 0x9E3779B97F4A7C15; ; candidate = (candidate * 0xD1342543DE82EF95 + 0x632BE59BD9B4E019) | 1)
        {
            if (MakeTable(candidate) is not null)
            {
                return candidate;
            }
        }
    }

    private static byte[]? MakeTable(ulong multiplier)
    {
        Debug.Assert(Names.Length <= byte.MaxValue);
        var table = new byte[1 << TableBits];
        for (int i = 1; i < Entries.Length; i++)
        {
            ref byte slot = ref table[Slot(Entries[i].Head, Entries[i].Tail, Entries[i].Length, multiplier)];
            if (slot != 0)
            {
                return null;
            }

            slot = (byte)i;
        }

        return table;
    }

    private struct Entry
    {
        internal ulong Head;
        internal ulong Tail;
        internal ulong Second;
        internal ulong Third;
        internal int Length;
    }
}
