// One session in memory, and the list it is in.

namespace Millrace.Sessions.Stores;

/// <summary>Where a session stands (EvictionPolicy).</summary>
internal enum Segment : byte
{
    /// <summary>Nowhere: it is not kept any more.</summary>
    None,
    Window,
    Probation,
    Protected,
}

internal sealed class KeptSession
{
    // On 64 bits: this object, the array around the values, a node and its bucket in the dictionary. A test holds it against what the runtime says.
    private const int Overhead = 112 + 24 + 56 + 16;

    public required SessionKey Key;

    /// <summary>Never changed: replaced, and so the tag of its own state.</summary>
    public required byte[] Values;

    /// <summary>Seconds of the store's clock.</summary>
    public int LastUsed;

    /// <summary>The serial of the seal in which the client has the same values; 0 for none.</summary>
    public uint Seal;

    /// <summary>Seconds.</summary>
    public int Created;

    /// <summary>Seconds.</summary>
    public int IdleTimeout;

    // ---- what belongs to the policy ----

    public KeptSession? Newer;
    public KeptSession? Older;
    public ClientAccount? Client;
    public KeptSession? NewerOfClient;
    public KeptSession? OlderOfClient;
    public Segment Segment;

    /// <summary>It was used again after it had been stored.</summary>
    public bool IsEstablished;

    /// <summary>How often, each second once, less what was forgotten until <see cref="CountedAt"/>; 255 and more.</summary>
    public byte Uses;

    /// <summary>Seconds of the store's clock.</summary>
    public int CountedAt;

    public int Bytes => BytesOf(Values.Length);

    public static int BytesOf(int values) => Overhead + ((values + 7) & ~7);
}

/// <summary>The newest first.</summary>
internal struct RecencyList
{
    public KeptSession? Newest;
    public KeptSession? Oldest;
    public long Bytes;
    public int Count;

    public void AddNewest(KeptSession session)
    {
        session.Newer = null;
        session.Older = Newest;
        if (Newest is null)
        {
            Oldest = session;
        }
        else
        {
            Newest.Newer = session;
        }
        Newest = session;
        Bytes += session.Bytes;
        Count++;
    }

    public void Remove(KeptSession session)
    {
        if (session.Newer is { } newer)
        {
            newer.Older = session.Older;
        }
        else
        {
            Newest = session.Older;
        }
        if (session.Older is { } older)
        {
            older.Newer = session.Newer;
        }
        else
        {
            Oldest = session.Newer;
        }
        session.Newer = session.Older = null;
        Bytes -= session.Bytes;
        Count--;
    }
}
