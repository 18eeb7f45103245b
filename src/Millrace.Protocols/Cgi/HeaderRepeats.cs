// What a variable that is there twice may mean. X-User, X_User and X.User of a client all become HTTP_X_USER, and so does a second X-User: names and values only.

namespace Millrace.Protocols.Cgi;

/// <summary>What is done with a header whose variable is there more than once, with different values.</summary>
public enum HeaderRepeats
{
    /// <summary>
    /// All are kept, but for fields that no request has twice (Authorization, X-Real-IP ...), and but for web servers that join repeated fields themselves and change more than the
    /// hyphen: there two variables are two fields of different names.
    /// </summary>
    Adaptive,

    /// <summary>Only those of fields that are defined as lists (RFC 9110 §5.3) are kept, and none from web servers that join repeated fields themselves.</summary>
    Refuse,

    /// <summary>All are kept.</summary>
    Keep,
}

/// <summary>Finds headers that are there more than once, in linear time, and judges them. One object serves many requests.</summary>
internal sealed class RepeatedHeaders
{
    // From this number on names are found in a table; below, a set of 64 bits tells most of them apart. Anybody can choose names that it does not: so many names that pass for others are looked at.
    private const int FewMax = 64;
    private const int MeetingsMax = 16;
    private const int ChunkSize = 128;

    private int[] _table = [];

    /// <summary>Whether one of the headers is ambiguous.</summary>
    /// <param name="source">What the headers were read from.</param>
    /// <param name="headers">All headers of the request.</param>
    /// <param name="repeats">What is done with repeated ones.</param>
    /// <param name="areJoined">The web server joins repeated fields: two variables are two fields.</param>
    public bool AreAmbiguous(ReadOnlySpan<byte> source, ReadOnlySpan<HeaderSlice> headers, HeaderRepeats repeats, bool areJoined) => repeats != HeaderRepeats.Keep
        && ((headers.Length <= FewMax ? AreFewAmbiguous(source, headers, repeats, areJoined) : null) ?? AreManyAmbiguous(source, headers, repeats, areJoined));

    /// <summary>SERVER_SOFTWARE of a request that a router has got over HTTP.</summary>
    public static ReadOnlySpan<byte> RouterSoftware => "millrace-router"u8;

    /// <summary>
    /// Whether each variable is one line of the field of that name, and nothing is ambiguous. A router sees the names over HTTP as they came, and what could pass for another one, X_User, it
    /// does not send on. Of a request that it has got over FastCGI it says what was said to it.
    /// </summary>
    public static bool AreLines(ReadOnlySpan<byte> serverSoftware) => serverSoftware.SequenceEqual(RouterSoftware);

    /// <summary>Whether the web server joins repeated fields into one variable, and makes one name of several.</summary>
    public static bool IsJoining(ReadOnlySpan<byte> serverSoftware) => serverSoftware.StartsWith("lighttpd"u8);

    // Null: too many names meet.
    private static bool? AreFewAmbiguous(ReadOnlySpan<byte> source, ReadOnlySpan<HeaderSlice> headers, HeaderRepeats repeats, bool areJoined)
    {
        ulong seen = 0;
        int meetings = 0;
        for (int i = 0; i < headers.Length; i++)
        {
            ReadOnlySpan<byte> name = headers[i].NameIn(source);
            ulong bit = 1UL << ((name.Length * 13) + (Fold(name[^1]) * 7) + Fold(name[name.Length / 2]));
            if ((seen & bit) != 0)
            {
                for (int j = 0; j < i; j++)
                {
                    ReadOnlySpan<byte> other = headers[j].NameIn(source);
                    if (other.Length != name.Length)
                    {
                        continue;
                    }

                    if (++meetings > MeetingsMax)
                    {
                        return null;
                    }

                    if (IsSameName(other, name))
                    {
                        if (IsAmbiguous(source, headers[j], headers[i], repeats, areJoined))
                        {
                            return true;
                        }

                        break;
                    }
                }
            }

            seen |= bit;
        }

        return false;
    }

    // Open addressing: the place in headers plus one, 0 where a slot is free. The hash is randomised, so that nobody can choose names that meet.
    private bool AreManyAmbiguous(ReadOnlySpan<byte> source, ReadOnlySpan<HeaderSlice> headers, HeaderRepeats repeats, bool areJoined)
    {
        int size = (int)System.Numerics.BitOperations.RoundUpToPowerOf2((uint)headers.Length * 2);
        if (_table.Length < size)
        {
            _table = new int[size];
        }

        Span<int> table = _table.AsSpan(0, size);
        table.Clear();
        for (int i = 0; i < headers.Length; i++)
        {
            ReadOnlySpan<byte> name = headers[i].NameIn(source);
            int slot = Hash(name) & (size - 1);
            while (table[slot] != 0 && !IsSameName(headers[table[slot] - 1].NameIn(source), name))
            {
                slot = (slot + 1) & (size - 1);
            }

            if (table[slot] == 0)
            {
                table[slot] = i + 1;
            }
            else if (IsAmbiguous(source, headers[table[slot] - 1], headers[i], repeats, areJoined))
            {
                return true;
            }
        }

        return false;
    }

    private static bool IsAmbiguous(ReadOnlySpan<byte> source, in HeaderSlice first, in HeaderSlice second, HeaderRepeats repeats, bool areJoined)
    {
        if (first.ValueIn(source).SequenceEqual(second.ValueIn(source)))
        {
            return false;
        }

        ReadOnlySpan<byte> name = first.NameIn(source);
        return areJoined || RepeatedNames.IsSingle(name) || (repeats == HeaderRepeats.Refuse && !RepeatedNames.IsList(name));
    }

    private static int Hash(ReadOnlySpan<byte> name)
    {
        var hash = new HashCode();
        Span<byte> folded = stackalloc byte[ChunkSize];
        while (!name.IsEmpty)
        {
            int count = Math.Min(name.Length, ChunkSize);
            for (int i = 0; i < count; i++)
            {
                folded[i] = Fold(name[i]);
            }

            hash.AddBytes(folded[..count]);
            name = name[count..];
        }

        return hash.ToHashCode();
    }

    private static bool IsSameName(ReadOnlySpan<byte> a, ReadOnlySpan<byte> b)
    {
        if (a.Length != b.Length)
        {
            return false;
        }

        if (a.SequenceEqual(b))
        {
            return true;
        }

        for (int i = 0; i < a.Length; i++)
        {
            if (Fold(a[i]) != Fold(b[i]))
            {
                return false;
            }
        }

        return true;
    }

    // Names that are one header to HeaderNameMapper: in any case, with hyphens or underscores.
    internal static byte Fold(byte b) => b == '-' ? (byte)'_' : b is >= (byte)'a' and <= (byte)'z' ? (byte)(b - 0x20) : b;
}
