// Strings for byte sequences that come again and again: header names, and the values a front server sends with every
// request. Direct-mapped and of fixed size, one per thread: it never grows, keeps nothing long and nothing secret.

using System.Runtime.CompilerServices;
using System.Text;
using Millrace.Protocols.Cgi;

namespace Millrace.Exchanges;

internal sealed class StringTable
{
    /// <summary>Longer sequences are turned into new strings each time.</summary>
    public const int LengthMax = 192;

    private const int Size = 512;

    [ThreadStatic]
    private static StringTable? t_table;

    private readonly Entry[] _texts = new Entry[Size];
    private readonly Entry[] _names = new Entry[Size / 2];
    private readonly Entry[] _variables = new Entry[Size / 2];

    private struct Entry
    {
        public byte[] Key;
        public string Text;
        public bool IsSecret;       // of names: judged once
    }

    public static StringTable ForThisThread => t_table ??= new StringTable();

    /// <summary>Latin-1 or UTF-8 text.</summary>
    public string Get(ReadOnlySpan<byte> bytes) => Lookup(_texts, bytes, static b => Decode(b));

    public string GetUtf8(ReadOnlySpan<byte> bytes) => Get(bytes);

    /// <summary>The name of a header field, in its usual spelling when it is a well-known one.</summary>
    /// <param name="bytes">The name as it came.</param>
    /// <param name="isSecret">Whether the values of this field must not be kept.</param>
    public string GetFieldName(ReadOnlySpan<byte> bytes, out bool isSecret) =>
        LookupName(_names, bytes, static b => FieldNames.Canonical(Encoding.Latin1.GetString(b)), out isSecret);

    /// <summary>The name of the header field behind a variable, given without HTTP_.</summary>
    /// <param name="bytes">The name as it came.</param>
    /// <param name="isSecret">Whether the values of this field must not be kept.</param>
    public string GetVariableName(ReadOnlySpan<byte> bytes, out bool isSecret) =>
        LookupName(_variables, bytes, static b => FieldNames.Canonical(HeaderNameMapper.FromVariable(b)), out isSecret);

    /// <summary>Whether the values of this field must not be kept.</summary>
    public static bool IsSecret(string name) => (name.Length == 6 && name.Equals("Cookie", StringComparison.OrdinalIgnoreCase))
        || name.Contains("key", StringComparison.OrdinalIgnoreCase) || name.Contains("token", StringComparison.OrdinalIgnoreCase)
        || name.Contains("secret", StringComparison.OrdinalIgnoreCase) || name.Contains("auth", StringComparison.OrdinalIgnoreCase);

    /// <summary>UTF-8 where it is valid, else Latin-1.</summary>
    public static string Decode(ReadOnlySpan<byte> bytes) =>
        System.Text.Unicode.Utf8.IsValid(bytes) ? Encoding.UTF8.GetString(bytes) : Encoding.Latin1.GetString(bytes);

    private delegate string Maker(ReadOnlySpan<byte> bytes);

    private static string Lookup(Entry[] table, ReadOnlySpan<byte> bytes, Maker make)
    {
        if (bytes.Length == 0)
        {
            return "";
        }

        if (bytes.Length > LengthMax)
        {
            return make(bytes);
        }

        ref Entry entry = ref Find(table, bytes, out bool found);
        if (!found)
        {
            Fill(ref entry, bytes, make);
        }

        return entry.Text;
    }

    private static string LookupName(Entry[] table, ReadOnlySpan<byte> bytes, Maker make, out bool isSecret)
    {
        if (bytes.Length > LengthMax)
        {
            string name = make(bytes);
            isSecret = IsSecret(name);
            return name;
        }

        ref Entry entry = ref Find(table, bytes, out bool found);
        if (!found)
        {
            Fill(ref entry, bytes, make);
            entry.IsSecret = IsSecret(entry.Text);
        }

        isSecret = entry.IsSecret;
        return entry.Text;
    }

    // Key and text are made of one copy.
    private static void Fill(ref Entry entry, ReadOnlySpan<byte> bytes, Maker make)
    {
        byte[] key = bytes.ToArray();
        entry.Text = make(key);
        entry.Key = key;
    }

    private static ref Entry Find(Entry[] table, ReadOnlySpan<byte> bytes, out bool found)
    {
        ref Entry entry = ref table[Hash(bytes) & (uint)(table.Length - 1)];
        found = entry.Key is not null && bytes.SequenceEqual(entry.Key);
        return ref entry;
    }

    // First and last eight bytes and the length: enough to spread what real requests hold, and collisions cost only a miss.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static uint Hash(ReadOnlySpan<byte> bytes)
    {
        ulong mix = (ulong)bytes.Length * 0x9E37_79B9_7F4A_7C15;
        if (bytes.Length >= 8)
        {
            mix ^= Unsafe.ReadUnaligned<ulong>(in bytes[0]);
            mix = ulong.RotateLeft(mix * 0xD6E8_FEB8_6659_FD93, 29) ^ Unsafe.ReadUnaligned<ulong>(in bytes[^8]);
            if (bytes.Length > 16)
            {
                mix = ulong.RotateLeft(mix * 0xD6E8_FEB8_6659_FD93, 29) ^ Unsafe.ReadUnaligned<ulong>(in bytes[(bytes.Length / 2) - 4]);
            }
        }
        else
        {
            foreach (byte b in bytes)
            {
                mix = (mix ^ b) * 0x0000_0100_0000_01B3;
            }
        }

        mix *= 0xD6E8_FEB8_6659_FD93;
        return (uint)(mix >> 40);
    }
}
