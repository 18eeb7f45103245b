// The values of one session, in the hands of one request: what they were when it loaded them, and what it has changed since. The application has arrays of its own: what it sets is copied, and
// what it gets is a copy.
//
//   stored:  version 1 | { length of key, key in UTF-8, length of value, value }*        lengths: 7 bits a byte, least first (LEB128)

using System.Diagnostics.CodeAnalysis;
using System.Text;

namespace Millrace.Sessions.Values;

internal sealed class SessionValues
{
    /// <summary>Bytes of a key in UTF-8.</summary>
    public const int KeyBytesMax = ushort.MaxValue;

    private const byte Version = 1;
    private static readonly UTF8Encoding s_utf8 = new(false, throwOnInvalidBytes: true);

    private readonly Dictionary<string, ReadOnlyMemory<byte>> _values = new(StringComparer.Ordinal);
    private readonly HashSet<string> _changed = new(StringComparer.Ordinal);
    private bool _isCleared;

    public IEnumerable<string> Keys => _values.Keys;

    public int Count => _values.Count;

    /// <summary>Grows with every change.</summary>
    public int Revision { get; private set; }

    /// <summary>Whether anything has changed since it was loaded or stored.</summary>
    public bool IsChanged => _isCleared || _changed.Count > 0;

    public bool TryGet(string key, [NotNullWhen(true)] out byte[]? value)
    {
        bool isThere = _values.TryGetValue(key, out ReadOnlyMemory<byte> its);
        value = isThere ? its.ToArray() : null;
        return isThere;
    }

    /// <summary>The same value as before is no change.</summary>
    /// <exception cref="ArgumentOutOfRangeException">The key is too long.</exception>
    public void Set(string key, byte[] value)
    {
        if (s_utf8.GetByteCount(key) > KeyBytesMax)
        {
            throw new ArgumentOutOfRangeException(nameof(key), $"The key of a session's value may have {KeyBytesMax:N0} bytes in UTF-8.");
        }
        if (_values.TryGetValue(key, out ReadOnlyMemory<byte> before) && before.Span.SequenceEqual(value))
        {
            return;
        }
        _values[key] = value.AsSpan().ToArray();
        Note(key);
    }

    public void Remove(string key)
    {
        if (_values.Remove(key))
        {
            Note(key);
        }
    }

    public void Clear()
    {
        if (_values.Count > 0)
        {
            _values.Clear();
            _changed.Clear();
            _isCleared = true;
            Revision++;
        }
    }

    /// <summary>What has been changed is stored now.</summary>
    public void BecomeUnchanged()
    {
        _changed.Clear();
        _isCleared = false;
    }

    /// <summary>Does to the values that another request has stored meanwhile what this request has done to those that it loaded.</summary>
    public SessionValues AppliedTo(ReadOnlyMemory<byte> current)
    {
        var merged = new SessionValues();
        if (!_isCleared && !merged.TryRead(current))
        {
            merged = new SessionValues();
        }
        foreach (string key in _changed)
        {
            if (_values.TryGetValue(key, out ReadOnlyMemory<byte> value))
            {
                merged._values[key] = value;
            }
            else
            {
                merged._values.Remove(key);
            }
        }
        return merged;
    }

    /// <summary>How many bytes <see cref="ToBytes"/> makes of it.</summary>
    public int Size
    {
        get
        {
            int size = 1;
            foreach ((string key, ReadOnlyMemory<byte> value) in _values)
            {
                size += SizeOf(key, value);
            }
            return size;
        }
    }

    private static int SizeOf(string key, ReadOnlyMemory<byte> value)
    {
        int keySize = s_utf8.GetByteCount(key);
        return LengthSize(keySize) + keySize + LengthSize(value.Length) + value.Length;
    }

    public byte[] ToBytes()
    {
        KeyValuePair<string, ReadOnlyMemory<byte>>[] values = [.. _values];     // what the request has left behind may set one meanwhile
        byte[] bytes = new byte[1 + values.Sum(static its => SizeOf(its.Key, its.Value))];
        bytes[0] = Version;
        int at = 1;
        foreach ((string key, ReadOnlyMemory<byte> value) in values)
        {
            at += WriteLength(bytes.AsSpan(at), s_utf8.GetByteCount(key));
            at += s_utf8.GetBytes(key, bytes.AsSpan(at));
            at += WriteLength(bytes.AsSpan(at), value.Length);
            value.Span.CopyTo(bytes.AsSpan(at));
            at += value.Length;
        }
        return bytes;
    }

    /// <param name="bytes">Values are parts of it: it changes no more.</param>
    /// <returns>Whether these are a session's values; if not, what has been read is of no use.</returns>
    public bool TryRead(ReadOnlyMemory<byte> bytes)
    {
        if (bytes.IsEmpty || bytes.Span[0] != Version)
        {
            return false;
        }
        bytes = bytes[1..];
        while (!bytes.IsEmpty)
        {
            if (!TryTake(ref bytes, out ReadOnlyMemory<byte> key) || !TryTake(ref bytes, out ReadOnlyMemory<byte> value))
            {
                return false;
            }
            try
            {
                _values[s_utf8.GetString(key.Span)] = value;
            }
            catch (DecoderFallbackException)
            {
                return false;
            }
        }
        return true;
    }

    private void Note(string key)
    {
        _changed.Add(key);
        Revision++;
    }

    private static bool TryTake(ref ReadOnlyMemory<byte> bytes, out ReadOnlyMemory<byte> taken)
    {
        taken = default;
        uint length = 0;
        ReadOnlySpan<byte> span = bytes.Span;
        for (int i = 0; i < span.Length && i < 5; i++)
        {
            length |= (uint)(span[i] & 0x7f) << (7 * i);
            if (span[i] < 0x80)
            {
                bytes = bytes[(i + 1)..];
                if (length > (uint)bytes.Length)
                {
                    return false;
                }
                taken = bytes[..(int)length];
                bytes = bytes[(int)length..];
                return true;
            }
        }
        return false;
    }

    private static int LengthSize(int length) => length < 1 << 7 ? 1 : length < 1 << 14 ? 2 : length < 1 << 21 ? 3 : length < 1 << 28 ? 4 : 5;

    private static int WriteLength(Span<byte> to, int length)
    {
        int at = 0;
        for (; length >= 0x80; length >>= 7)
        {
            to[at++] = (byte)(length | 0x80);
        }
        to[at++] = (byte)length;
        return at;
    }
}
