// The header fields of a request: a table that is filled from its head when somebody first looks.

using System.Text;
using Microsoft.Extensions.Primitives;
using Microsoft.Net.Http.Headers;
using Millrace.Protocols.Cgi;

namespace Millrace.Exchanges;

/// <summary>Fields of a request, made into strings when somebody first looks. Several threads may look at a time.</summary>
internal sealed class RequestHeaders(RequestHead head) : HeaderTable
{
    private const int Empty = 0;
    private const int Filling = 1;
    private const int Filled = 2;

    private int _state = Filled;

    public void Begin()
    {
        Drop();
        Volatile.Write(ref _state, Empty);
    }

    public void End()
    {
        Volatile.Write(ref _state, Filled);
        Drop();
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
            if (fields[i].NameLength == HeaderNames.Host.Length && Ascii.EqualsIgnoreCase(head.Name(fields[i]), "Host"u8))
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

    private bool MayHave(string name)
    {
        // A letter is the same in either case; other characters may have become another in a variable.
        if (string.IsNullOrEmpty(name) || !char.IsAsciiLetter(name[0]) || IsMade(name.Length))
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

    // Those that come from elsewhere: see Fill.
    private static bool IsMade(int length) =>
        length == HeaderNames.Host.Length || length == HeaderNames.ContentType.Length || length == HeaderNames.ContentLength.Length;

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
            spin.SpinOnce(sleep1Threshold: -1);    // never a wait that could be interrupted
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
        else if (head.HasHostInTargetOnly)
        {
            Put(HeaderNames.Host, head.HostText);
        }
    }
}
