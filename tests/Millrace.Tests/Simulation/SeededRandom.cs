// Numbers from a seed (SplitMix64): the same seed gives the same numbers on every runtime, for ever.

namespace Millrace.Tests.Simulation;

internal sealed class SeededRandom(ulong seed)
{
    private ulong _state = seed;

    public void Restart(ulong seed) => _state = seed;

    public ulong NextBits()
    {
        ulong z = _state += 0x9E37_79B9_7F4A_7C15;
        z = (z ^ (z >> 30)) * 0xBF58_476D_1CE4_E5B9;
        z = (z ^ (z >> 27)) * 0x94D0_49BB_1331_11EB;
        return z ^ (z >> 31);
    }

    /// <summary>In [0, <paramref name="end"/>); <paramref name="end"/> at least 1.</summary>
    public int Below(int end) => (int)(NextBits() % (ulong)end);

    /// <summary>In [<paramref name="from"/>, <paramref name="to"/>], both included.</summary>
    public int Between(int from, int to) => from + Below(to - from + 1);

    public bool Chance(int percent) => Below(100) < percent;

    /// <summary>A size at which something is likely to break: small, near a power of two, or anything up to the limit.</summary>
    public int Size(int max)
    {
        int size = Below(6) switch
        {
            0 => Below(3),
            1 => Below(100),
            2 => (1 << Between(6, 17)) + Between(-2, 2),
            3 => (32 * 1024) + Between(-40, 40),
            _ => Below(max + 1),
        };
        return Math.Clamp(size, 0, max);
    }
}
