// Uses on their way to the policy: readers note them without waiting for anybody, and who finds a stripe full hands them over if nobody else does just then. One that gets lost
// makes a session look a little older.

namespace Millrace.Sessions.Stores;

internal sealed class UseBuffer
{
    private const int Size = 16;
    private const int CacheLine = 16;       // ints
    private const int StripesMax = 16;

    private readonly KeptSession?[] _uses;
    private readonly int[] _counts;
    private readonly int _mask;

    public UseBuffer()
    {
        int stripes = (int)System.Numerics.BitOperations.RoundUpToPowerOf2((uint)Math.Min(Environment.ProcessorCount, StripesMax));
        _mask = stripes - 1;
        _uses = new KeptSession?[stripes * Size];
        _counts = new int[stripes * CacheLine];
    }

    /// <returns>Whether the uses are to be handed over.</returns>
    public bool Note(KeptSession session)
    {
        int stripe = Environment.CurrentManagedThreadId & _mask;
        int at = Interlocked.Increment(ref _counts[stripe * CacheLine]) - 1;
        if (at < Size)
        {
            Volatile.Write(ref _uses[(stripe * Size) + at], session);
        }
        return at >= Size - 1;
    }

    /// <summary>By one thread at a time.</summary>
    public void HandOver(EvictionPolicy policy)
    {
        for (int stripe = 0; stripe <= _mask; stripe++)
        {
            int count = Math.Min(Volatile.Read(ref _counts[stripe * CacheLine]), Size);
            for (int i = 0; i < count; i++)
            {
                if (Interlocked.Exchange(ref _uses[(stripe * Size) + i], null) is { } session)
                {
                    policy.Use(session);
                }
            }
            if (count > 0)
            {
                Volatile.Write(ref _counts[stripe * CacheLine], 0);
            }
        }
    }
}
