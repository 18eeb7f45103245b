// Sessions of which a client may still hold values that are no longer true, and of which the store has nothing any more: renewed, or evicted after a change. Two Bloom filters that
// take turns: fixed memory, and what is not in them is surely not spent. One in a hundred that is taken for spent wrongly, when a million are, loses its values as with an eviction.

namespace Millrace.Sessions.Stores;

internal sealed class SpentSeals
{
    private const int Probes = 4;
    private const int BytesMin = 64 << 10;
    private const int BytesMax = 2 << 20;

    private readonly int _words;
    private readonly TimeSpan _validity;
    private readonly TimeProvider _time;
    private readonly Lock _lock = new();
    private ulong[]? _current;
    private ulong[]? _before;
    private long _turned;

    /// <param name="budgetBytes">Of all sessions; the filters get a 64th of it each, from 64 KiB to 2 MiB.</param>
    /// <param name="validity">How long a client may hold values: so long each is remembered at least.</param>
    /// <param name="time">The clock.</param>
    public SpentSeals(long budgetBytes, TimeSpan validity, TimeProvider time)
    {
        _words = (int)System.Numerics.BitOperations.RoundUpToPowerOf2((ulong)Math.Clamp(budgetBytes / 64, BytesMin, BytesMax)) / sizeof(ulong);
        _validity = validity;
        _time = time;
    }

    /// <summary>Memory that is taken when both are in use.</summary>
    public static long BytesOf(long budgetBytes) => 2L * (long)System.Numerics.BitOperations.RoundUpToPowerOf2((ulong)Math.Clamp(budgetBytes / 64, BytesMin, BytesMax));

    public void Add(SessionKey key)
    {
        lock (_lock)
        {
            Turn();
            _current ??= new ulong[_words];
            for (int i = 0; i < Probes; i++)
            {
                (int word, ulong bit) = Place(key, i);
                _current[word] |= bit;
            }
        }
    }

    public bool Contains(SessionKey key)
    {
        if (Volatile.Read(ref _current) is null && Volatile.Read(ref _before) is null)
        {
            return false;
        }
        lock (_lock)
        {
            Turn();
            return Has(_current, key) || Has(_before, key);
        }
    }

    private void Turn()
    {
        long now = _time.GetTimestamp();
        TimeSpan since = _time.GetElapsedTime(_turned, now);
        if (_turned == 0 || since >= _validity)
        {
            _before = _turned == 0 || since >= 2 * _validity ? null : _current;
            _current = null;
            _turned = now;
        }
    }

    private bool Has(ulong[]? filter, SessionKey key)
    {
        for (int i = 0; filter is not null && i < Probes; i++)
        {
            (int word, ulong bit) = Place(key, i);
            if ((filter[word] & bit) == 0)
            {
                return false;
            }
        }
        return filter is not null;
    }

    // A key is a hash of something random: its parts are as good as four hashes.
    private (int Word, ulong Bit) Place(SessionKey key, int probe)
    {
        uint part = probe switch { 0 => (uint)key.High, 1 => (uint)(key.High >> 32), 2 => (uint)key.Low, _ => (uint)(key.Low >> 32) };
        return ((int)((part >> 6) & (uint)(_words - 1)), 1UL << (int)(part & 63));
    }
}
