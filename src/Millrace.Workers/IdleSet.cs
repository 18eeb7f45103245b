// Which places have a worker that waits for a call: a bit each.

using System.Numerics;

namespace Millrace.Workers;

internal sealed class IdleSet
{
    private ulong[] _words = new ulong[1];

    public int Count { get; private set; }

    public void Add(int index)
    {
        if (index >> 6 >= _words.Length)
        {
            Array.Resize(ref _words, (index >> 6) + 1);
        }
        _words[index >> 6] |= 1UL << (index & 63);
        Count++;
    }

    public void Remove(int index)
    {
        _words[index >> 6] &= ~(1UL << (index & 63));
        Count--;
    }

    /// <summary>The first at or behind an index, or behind the end the first of all; -1: there is none.</summary>
    public int Next(int from)
    {
        int found = Find(from);
        return found < 0 && from > 0 ? Find(0) : found;
    }

    /// <summary>The last; -1: there is none.</summary>
    public int Last()
    {
        for (int word = _words.Length - 1; word >= 0; word--)
        {
            if (_words[word] != 0)
            {
                return (word << 6) + 63 - BitOperations.LeadingZeroCount(_words[word]);
            }
        }
        return -1;
    }

    private int Find(int from)
    {
        for (int word = from >> 6; word < _words.Length; word++)
        {
            ulong bits = word == from >> 6 ? _words[word] & (ulong.MaxValue << (from & 63)) : _words[word];
            if (bits != 0)
            {
                return (word << 6) + BitOperations.TrailingZeroCount(bits);
            }
        }
        return -1;
    }
}
