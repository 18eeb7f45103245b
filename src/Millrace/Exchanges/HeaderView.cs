// The fields of a request or of a response as an application holds them: made for one request, with its ticket. The table
// behind it serves one request after the other; every look at it is a use of the exchange (Uses.cs).

using System.Collections;
using System.Diagnostics.CodeAnalysis;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Primitives;

namespace Millrace.Exchanges;

internal sealed class HeaderView(Exchange exchange, long ticket, HeaderTable table) : IHeaderDictionary
{
    public StringValues this[string key]
    {
        get
        {
            using ExchangeUse use = exchange.Use(ticket);
            return table[key];
        }

        set
        {
            using ExchangeUse use = exchange.Use(ticket);
            table[key] = value;
        }
    }

    StringValues IDictionary<string, StringValues>.this[string key]
    {
        get
        {
            using ExchangeUse use = exchange.Use(ticket);
            return ((IDictionary<string, StringValues>)table)[key];
        }

        set => this[key] = value;
    }

    public long? ContentLength
    {
        get
        {
            using ExchangeUse use = exchange.Use(ticket);
            return table.ContentLength;
        }

        set
        {
            using ExchangeUse use = exchange.Use(ticket);
            table.ContentLength = value;
        }
    }

    public int Count
    {
        get
        {
            using ExchangeUse use = exchange.Use(ticket);
            return table.Count;
        }
    }

    public bool IsReadOnly
    {
        get
        {
            using ExchangeUse use = exchange.Use(ticket);
            return table.IsReadOnly;
        }
    }

    public ICollection<string> Keys
    {
        get
        {
            using ExchangeUse use = exchange.Use(ticket);
            return table.Keys;
        }
    }

    public ICollection<StringValues> Values
    {
        get
        {
            using ExchangeUse use = exchange.Use(ticket);
            return table.Values;
        }
    }

    /// <inheritdoc cref="ResponseHeaders.JoinBytes"/>
    public void JoinBytes(string name, string value)
    {
        using ExchangeUse use = exchange.Use(ticket);
        ((ResponseHeaders)table).JoinBytes(name, value);
    }

    public void Add(string key, StringValues value)
    {
        using ExchangeUse use = exchange.Use(ticket);
        table.Add(key, value);
    }

    public void Add(KeyValuePair<string, StringValues> item) => Add(item.Key, item.Value);

    public bool Remove(string key)
    {
        using ExchangeUse use = exchange.Use(ticket);
        return table.Remove(key);
    }

    public bool Remove(KeyValuePair<string, StringValues> item)
    {
        using ExchangeUse use = exchange.Use(ticket);
        return table.Remove(item);
    }

    public void Clear()
    {
        using ExchangeUse use = exchange.Use(ticket);
        table.Clear();
    }

    public bool Contains(KeyValuePair<string, StringValues> item)
    {
        using ExchangeUse use = exchange.Use(ticket);
        return table.Contains(item);
    }

    public bool ContainsKey(string key)
    {
        using ExchangeUse use = exchange.Use(ticket);
        return table.ContainsKey(key);
    }

    public bool TryGetValue(string key, [MaybeNullWhen(false)] out StringValues value)
    {
        using ExchangeUse use = exchange.Use(ticket);
        return table.TryGetValue(key, out value);
    }

    public void CopyTo(KeyValuePair<string, StringValues>[] array, int arrayIndex)
    {
        using ExchangeUse use = exchange.Use(ticket);
        table.CopyTo(array, arrayIndex);
    }

    public IEnumerator<KeyValuePair<string, StringValues>> GetEnumerator()
    {
        string? last = null;
        for (int i = 0; TryGet(ref i, last, out KeyValuePair<string, StringValues> entry); i++)
        {
            last = entry.Key;
            yield return entry;
        }
    }

    IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

    // The field that was given last may have been removed because of what it is: those behind it have moved up.
    private bool TryGet(ref int index, string? last, out KeyValuePair<string, StringValues> entry)
    {
        using ExchangeUse use = exchange.Use(ticket);
        ReadOnlySpan<KeyValuePair<string, StringValues>> entries = table.Entries;
        if (last is not null && (index > entries.Length || !ReferenceEquals(entries[index - 1].Key, last)))
        {
            index--;
        }

        entry = index < entries.Length ? entries[index] : default;
        return index < entries.Length;
    }
}
