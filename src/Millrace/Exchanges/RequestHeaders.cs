// The header fields of a request: a table that is filled from its head when somebody first looks.

using System.Buffers.Binary;
using Microsoft.Extensions.Primitives;
using Microsoft.Net.Http.Headers;
using Millrace.Platform;
using Millrace.Protocols.Cgi;

namespace Millrace.Exchanges;

/// <summary>Fields of a request, made into strings when somebody first looks. Several threads may look at a time.</summary>
internal sealed class RequestHeaders(RequestHead head) : HeaderTable
{
    private const int Empty = 0;
    private const int Filling = 1;
    private const int Filled = 2;

    private const int HostLength = 4;
    private const int ContentTypeLength = 12;
    private const int ContentLengthLength = 14;
    private const ulong MadeLengths = (1UL << HostLength) | (1UL << ContentTypeLength) | (1UL << ContentLengthLength) | 1;

    private int _state = Filled;
    private ulong _lengths;      // of the names that came; 0 before somebody asks

    public void Begin()
    {
        Drop();
        _lengths = 0;
        Volatile.Write(ref _state, Empty);
    }

    public void End()
    {
        Volatile.Write(ref _state, Filled);
        Renew();
    }

    protected override void BeforeRead()
    {
        if (Volatile.Read(ref _state) != Filled)
        {
            FillOnce();
        }
    }

    // Hosting asks each request for Host, and for the fields of traces, which mostly have not come: the names that have, as they lie
    // there, say so for less than it costs to make all of them into strings.
    protected override bool TryPeek(string name, out StringValues values)
    {
        values = default;
        return Volatile.Read(ref _state) != Filled && (ReferenceEquals(name, HeaderNames.Host) ? TryPeekHost(out values) : !MayHave(name));
    }

    // Where it is one field, as it came.
    private bool TryPeekHost(out StringValues values)
    {
        values = default;
        if (head.HasHostInTargetOnly || (head.IsFastCgi && head.Host.Length == 0))
        {
            return false;
        }

        int at = -1;
        ReadOnlySpan<HeaderSlice> fields = head.Fields;
        for (int i = 0; i < fields.Length; i++)
        {
            if (fields[i].NameLength == HostLength && IsHost(head.Name(fields[i])))
            {
                if (at >= 0)
                {
                    return false;
                }

                at = i;
            }
        }

        if (at < 0)
        {
            return false;
        }

        values = new StringValues(head.FieldValue(fields[at], StringTable.ForThisThread, isSecret: false));
        return true;
    }

    // Letters differ by case in one bit, and no other byte is the same but for it.
    private static bool IsHost(ReadOnlySpan<byte> name) =>
        (BinaryPrimitives.ReadUInt32LittleEndian(name) | 0x2020_2020) == BinaryPrimitives.ReadUInt32LittleEndian("host"u8);

    private bool MayHave(string? name)
    {
        if (name is null || ((LengthsThere() >> name.Length) & 1) == 0)
        {
            return name is null;
        }

        // A letter is the same in either case; other characters may have become another in a variable.
        if (name.Length == 0 || !char.IsAsciiLetter(name[0]) || IsMade(name.Length))
        {
            return true;
        }

        int first = name[0] | 0x20;
        foreach (ref readonly HeaderSlice field in head.Fields)
        {
            if (field.NameLength == name.Length && (head.Name(field)[0] | 0x20) == first)
            {
                return true;
            }
        }

        return false;
    }

    // One bit for each length of a name, the same for those that are 64 apart. Two threads that make it at a time make the same.
    private ulong LengthsThere()
    {
        ulong lengths = Volatile.Read(ref _lengths);
        if (lengths == 0)
        {
            lengths = MadeLengths;
            foreach (ref readonly HeaderSlice field in head.Fields)
            {
                lengths |= 1UL << field.NameLength;
            }

            Volatile.Write(ref _lengths, lengths);
        }

        return lengths;
    }

    // Those that come from elsewhere: see Fill.
    private static bool IsMade(int length) => length is HostLength or ContentTypeLength or ContentLengthLength;

    private void FillOnce()
    {
        if (Interlocked.CompareExchange(ref _state, Filling, Empty) == Empty)
        {
            try
            {
                Fill();
            }
            finally
            {
                Volatile.Write(ref _state, Filled);
            }

            return;
        }

        var spin = default(SpinWait);
        while (Volatile.Read(ref _state) != Filled)
        {
            Steady.Spin(ref spin);
        }
    }

    private void Fill()
    {
        StringTable strings = StringTable.ForThisThread;
        foreach (ref readonly HeaderSlice field in head.Fields)
        {
            string name = head.FieldName(field, strings, out bool isSecret);
            Join(name, head.FieldValue(field, strings, isSecret));
        }

        if (head.HasHostInTargetOnly)
        {
            Put(HeaderNames.Host, head.HostText);
        }

        if (head.IsFastCgi)
        {
            if (head.Host.Length == 0 && HostName.Of(head) is { Length: > 0 } host)
            {
                Put(HeaderNames.Host, host);
            }

            if (head.ContentType.Length > 0)
            {
                Join(HeaderNames.ContentType, head.ContentTypeText);
            }

            if (head.ContentLength >= 0)
            {
                Join(HeaderNames.ContentLength, DecimalText.Of(head.ContentLength));
            }
        }
    }
}
