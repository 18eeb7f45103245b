// A set that forgets: two Bloom filters that take turns. Memory is fixed, and what was added is in it for as long as is asked for, and at most twice that. What is not in it may seem to be:
// with 10 bits for each that was added, one in a hundred.
//
// Not safe for concurrent use, but for MayHold.

namespace Millrace.Sessions.Stores;

internal sealed class ForgettingFilter
{
    private const int Probes = 4;

    private readonly int _words;
    private readonly TimeSpan _keeps;
    private readonly TimeProvider _time;
    private ulong[]? _current;
    private ulong[]? _before;
    private long _turned;

    /// <param name="bytes">Of each of the two, 8 at least.</param>
    /// <param name="keeps">How long each is remembered at least.</param>
    /// <param name="time">The clock.</param>
    public ForgettingFilter(long bytes, TimeSpan keeps, TimeProvider time)
    {
        _words = (int)(bytes / sizeof(ulong));
        _keeps = keeps;
        _time = time;
    }

    /// <summary>False: nothing is in it. Any thread may ask.</summary>
    public bool MayHold => Volatile.Read(ref _current) is not null || Volatile.Read(ref _before) is not null;

    public void Add(SessionKey key, uint number)
    {
        Turn();
        _current ??= new ulong[_words];
        for (int i = 0; i < Probes; i++)
        {
            (int word, ulong bit) = Place(key, number, i);
            _current[word] |= bit;
        }
    }

    public bool Contains(SessionKey key, uint number)
    {
        Turn();
        return Has(_current, key, number) || Has(_before, key, number);
    }

    private void Turn()
    {
        long now = _time.GetTimestamp();
        TimeSpan since = _time.GetElapsedTime(_turned, now);
        if (_turned == 0 || since >= _keeps)
        {
            Volatile.Write(ref _before, _turned == 0 || since >= 2 * _keeps ? null : _current);
            Volatile.Write(ref _current, null);
            _turned = now;
        }
    }

    private bool Has(ulong[]? filter, SessionKey key, uint number)
    {
        for (int i = 0; filter is not null && i < Probes; i++)
        {
            (int word, ulong bit) = Place(key, number, i);
            if ((filter[word] & bit) == 0)
            {
                return false;
            }
        }
        return filter is not null;
    }

    // A key is a hash of something random: its parts are as good as four hashes, and stay so when something is added to each.
    private (int Word, ulong Bit) Place(SessionKey key, uint number, int probe)
    {
        uint part = probe switch { 0 => (uint)key.High, 1 => (uint)(key.High >> 32), 2 => (uint)key.Low, _ => (uint)(key.Low >> 32) };
        part += number * (2654435761u + (2u * (uint)probe));
        return ((int)(((ulong)part * (uint)_words) >> 32), 1UL << (int)(part & 63));
    }
}
