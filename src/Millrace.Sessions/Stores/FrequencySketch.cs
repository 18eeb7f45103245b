// How often a session was used of late, as a count-min sketch of 4 bits: the smallest of four counters, none of which has been shared with others at worst. All are halved when ten
// times as many uses have been counted as there are places for sessions, so that what was busy once does not stay so for ever.
//
// G. Einziger, R. Friedman, B. Manes: TinyLFU, a highly efficient cache admission policy (2017).

using System.Numerics;

namespace Millrace.Sessions.Stores;

internal sealed class FrequencySketch
{
    public const int Max = 15;

    private const int Rows = 4;
    private const int SampleFactor = 10;
    private const ulong OneBitOfEach = 0x7777_7777_7777_7777;
    private const ulong OddOfEach = 0x1111_1111_1111_1111;

    private readonly ulong[] _table;
    private readonly int _mask;
    private readonly int _sample;
    private int _counted;

    /// <param name="places">Sessions that there may be, about.</param>
    public FrequencySketch(int places)
    {
        _table = new ulong[WordsOf(places)];
        _mask = _table.Length - 1;
        _sample = (int)Math.Min(int.MaxValue / 2, (long)places * SampleFactor);
    }

    public static long BytesOf(int places) => (long)WordsOf(places) * sizeof(ulong);

    public int Estimate(SessionKey key)
    {
        int least = Max;
        for (int row = 0; row < Rows; row++)
        {
            (int word, int shift) = Place(key, row);
            least = Math.Min(least, (int)(_table[word] >> shift) & Max);
        }
        return least;
    }

    public void Count(SessionKey key)
    {
        bool isCounted = false;
        for (int row = 0; row < Rows; row++)
        {
            (int word, int shift) = Place(key, row);
            if (((_table[word] >> shift) & Max) < Max)
            {
                _table[word] += 1UL << shift;
                isCounted = true;
            }
        }
        if (isCounted && ++_counted >= _sample)
        {
            Halve();
        }
    }

    // What halving rounds off is no longer counted.
    private void Halve()
    {
        int odd = 0;
        for (int i = 0; i < _table.Length; i++)
        {
            odd += BitOperations.PopCount(_table[i] & OddOfEach);
            _table[i] = (_table[i] >> 1) & OneBitOfEach;
        }
        _counted = (_counted - (odd / Rows)) / 2;
    }

    private static int WordsOf(int places) => (int)BitOperations.RoundUpToPowerOf2((uint)Math.Clamp(places, 16, 1 << 27));

    // A key is a hash already. A row has four counters of each word for itself.
    private (int Word, int Shift) Place(SessionKey key, int row)
    {
        uint part = row switch { 0 => (uint)key.High, 1 => (uint)(key.High >> 32), 2 => (uint)key.Low, _ => (uint)(key.Low >> 32) };
        return ((int)(part & (uint)_mask), ((row * 4) + (int)(part >> 30)) * 4);
    }
}
