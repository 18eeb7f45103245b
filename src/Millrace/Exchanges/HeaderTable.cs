// Header fields by name, in the order they came: a short table searched from the front. The name constants of the
// framework are the same strings as ours, so that most look-ups are comparisons of references. A table that has grown long
// has an index, so that many names, whatever they look like, cost no more each than few.

using System.Collections;
using System.Diagnostics.CodeAnalysis;
using System.Globalization;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Primitives;
using Microsoft.Net.Http.Headers;

namespace Millrace.Exchanges;

/// <summary>Fields of a request or of a response.</summary>
internal class HeaderTable : IHeaderDictionary
{
    /// <summary>Tables up to this length are searched from the front.</summary>
    internal const int ShortMax = 16;

    private const int KeptMax = 128;

    private KeyValuePair<string, StringValues>[] _entries = new KeyValuePair<string, StringValues>[ShortMax];
    private int _count;
    private bool _isUsed;       // an entry has been written for this request: most fill one table of the two, or none
    private Dictionary<string, int>? _index;    // position by name, of a long table

    protected virtual void BeforeRead()
    {
    }

    /// <summary>True where the answer for one name is known without reading the table: its values, or none.</summary>
    protected virtual bool TryPeek(string name, out StringValues values)
    {
        values = default;
        return false;
    }

    /// <summary>May replace the values by those that are kept.</summary>
    protected virtual void BeforeWrite(string name, ref StringValues values)
    {
    }

    public ReadOnlySpan<KeyValuePair<string, StringValues>> Entries
    {
        get
        {
            BeforeRead();
            return _entries.AsSpan(0, _count);
        }
    }

    public StringValues this[string key]
    {
        get
        {
            if (TryPeek(key, out StringValues peeked))
            {
                return peeked;
            }

            BeforeRead();
            int index = Find(key);
            return index < 0 ? StringValues.Empty : _entries[index].Value;
        }

        set
        {
            ArgumentException.ThrowIfNullOrEmpty(key);
            BeforeRead();
            BeforeWrite(key, ref value);
            Put(key, value);
        }
    }

    StringValues IDictionary<string, StringValues>.this[string key]
    {
        get => TryGetValue(key, out StringValues value) ? value : throw new KeyNotFoundException($"There is no field {key}.");
        set => this[key] = value;
    }

    public long? ContentLength
    {
        get
        {
            StringValues raw = this[HeaderNames.ContentLength];
            return raw.Count == 1 && long.TryParse(raw[0], NumberStyles.None, CultureInfo.InvariantCulture, out long value) ? value : null;
        }

        set
        {
            if (value is long length)
            {
                ArgumentOutOfRangeException.ThrowIfNegative(length);
                this[HeaderNames.ContentLength] = DecimalText.Of(length);
            }
            else
            {
                Remove(HeaderNames.ContentLength);
            }
        }
    }

    public int Count
    {
        get
        {
            BeforeRead();
            return _count;
        }
    }

    public virtual bool IsReadOnly => false;

    public ICollection<string> Keys => [.. Entries.ToArray().Select(static e => e.Key)];

    public ICollection<StringValues> Values => [.. Entries.ToArray().Select(static e => e.Value)];

    public void Add(string key, StringValues value)
    {
        ArgumentException.ThrowIfNullOrEmpty(key);
        BeforeRead();
        BeforeWrite(key, ref value);
        if (value.Count == 0)
        {
            return;
        }

        if (Find(key) >= 0)
        {
            throw new ArgumentException($"The field {key} is there already.");
        }

        Append(key, value);
    }

    public void Add(KeyValuePair<string, StringValues> item) => Add(item.Key, item.Value);

    public bool Remove(string key)
    {
        BeforeRead();
        CheckRemove();
        return RemoveAt(Find(key));
    }

    public bool Remove(KeyValuePair<string, StringValues> item) => Contains(item) && Remove(item.Key);

    public void Clear()
    {
        BeforeRead();
        CheckRemove();
        Drop();
    }

    public bool Contains(KeyValuePair<string, StringValues> item) => TryGetValue(item.Key, out StringValues value) && value.Equals(item.Value);

    public bool ContainsKey(string key) => TryGetValue(key, out _);

    public bool TryGetValue(string key, [MaybeNullWhen(false)] out StringValues value)
    {
        if (TryPeek(key, out value))
        {
            return value.Count > 0;
        }

        BeforeRead();
        int index = Find(key);
        value = index < 0 ? default : _entries[index].Value;
        return index >= 0;
    }

    public void CopyTo(KeyValuePair<string, StringValues>[] array, int arrayIndex) => Entries.CopyTo(array.AsSpan(arrayIndex));

    public IEnumerator<KeyValuePair<string, StringValues>> GetEnumerator()
    {
        BeforeRead();
        for (int i = 0; i < _count; i++)
        {
            yield return _entries[i];
        }
    }

    IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

    private void CheckRemove()
    {
        StringValues none = StringValues.Empty;
        BeforeWrite("", ref none);
    }

    /// <summary>Sets a field; without a value there is none.</summary>
    protected void Put(string name, StringValues values)
    {
        int index = Find(name);
        if (values.Count == 0)
        {
            RemoveAt(index);
        }
        else if (index >= 0)
        {
            _entries[index] = new(_entries[index].Key, values);
        }
        else
        {
            Append(name, values);
        }
    }

    /// <summary>Adds a field, or a value to it.</summary>
    protected void Join(string name, string value)
    {
        int index = Find(name);
        if (index >= 0)
        {
            _entries[index] = new(_entries[index].Key, StringValues.Concat(_entries[index].Value, value));
        }
        else
        {
            Append(name, value);
        }
    }

    // All of it, whatever is counted: two threads of an application may have changed it at once.
    protected void Drop()
    {
        _index = null;
        _count = 0;
        if (!_isUsed)
        {
            return;
        }

        if (_entries.Length > KeptMax)
        {
            _entries = new KeyValuePair<string, StringValues>[ShortMax];
        }
        else
        {
            Array.Clear(_entries);
        }
    }

    /// <summary>Drops all of it behind a request; no thread of that writes any more.</summary>
    protected void Renew()
    {
        Drop();
        _isUsed = false;
    }

    private void Append(string name, StringValues values)
    {
        _isUsed = true;
        if (_count == _entries.Length)
        {
            Array.Resize(ref _entries, _count * 2);
        }

        _index?.Add(name, _count);
        _entries[_count++] = new(name, values);
    }

    private int Find(string name)
    {
        if (_count > ShortMax)
        {
            return (_index ??= MakeIndex()).TryGetValue(name, out int at) ? at : -1;
        }

        KeyValuePair<string, StringValues>[] entries = _entries;
        int count = _count;
        for (int i = 0; i < count; i++)
        {
            if (ReferenceEquals(entries[i].Key, name))
            {
                return i;
            }
        }

        for (int i = 0; i < count; i++)
        {
            string key = entries[i].Key;
            if (key.Length == name.Length && key.Equals(name, StringComparison.OrdinalIgnoreCase))
            {
                return i;
            }
        }

        return -1;
    }

    private bool RemoveAt(int index)
    {
        if (index < 0)
        {
            return false;
        }

        Array.Copy(_entries, index + 1, _entries, index, _count - index - 1);
        _entries[--_count] = default;
        _index = null;      // the positions behind it have moved
        return true;
    }

    // The comparer's hash has a seed: nobody can make names that collide.
    private Dictionary<string, int> MakeIndex()
    {
        var index = new Dictionary<string, int>(_count * 2, StringComparer.OrdinalIgnoreCase);
        for (int i = 0; i < _count; i++)
        {
            index.Add(_entries[i].Key, i);
        }

        return index;
    }
}
