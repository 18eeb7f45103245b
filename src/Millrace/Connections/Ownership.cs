// The word that says who owns a connection, and what has to happen when its exchange ends. Connection.pml checks every way through it.

using System.Diagnostics;

namespace Millrace.Connections;

[Flags]
internal enum Ownership
{
    /// <summary>The connection is its loop's.</summary>
    None = 0,

    /// <summary>It is its exchange's. The loop sets it before the handler.</summary>
    Lent = 1,

    /// <summary>The loop looks at the exchange, which cannot end meanwhile but by way of the loop.</summary>
    Pinned = 2,

    /// <summary>The exchange has ended, and is posted for the loop to take the connection back. (Given back by one step, it is None at once.)</summary>
    Returning = 4,

    /// <summary>Bytes of the exchange, or the end that it is broken off with, wait until the socket takes more.</summary>
    WantsWritable = 8,

    /// <summary>There is something for the loop to do when the exchange ends, most often bytes or an end that it had not processed when it looked, or output that waits: the exchange ends by way of the
    /// loop. It stays so until the connection is the loop's again, also when that turns out to be the request's own body and has been processed.</summary>
    NotedInput = 16,
}

internal struct OwnershipWord
{
    private int _word;

    // What Stage.Away is at the moment: Lent without Returning, the exchange is at work; Lent and Returning, it has ended, and the loop is to take the connection back; None, it has given it back, and the loop
    // has to settle.

    /// <summary>The connection is the loop's, whatever is still noted.</summary>
    public bool IsLoops => (Now & Ownership.Lent) == 0;

    public bool HasNotedInput => (Now & Ownership.NotedInput) != 0;

    /// <summary>The loop is looking at the exchange, and may have bytes in hand that nothing tells of yet.</summary>
    public bool IsPinned => (Now & Ownership.Pinned) != 0;

    /// <summary>The exchange has ended, and the loop has not taken the connection back yet.</summary>
    public bool IsReturning => (Now & Ownership.Returning) != 0;

    public bool WantsWritable => (Now & Ownership.WantsWritable) != 0;

    private Ownership Now => (Ownership)Volatile.Read(ref _word);

    // ---- the loop ----

    /// <summary>The connection is the exchange's from here on.</summary>
    public void Lend()
    {
        Debug.Assert((Now & (Ownership.Lent | Ownership.Pinned | Ownership.Returning)) == 0, $"lent from {Now}");
        Volatile.Write(ref _word, (int)Ownership.Lent);
    }

    /// <summary>The connection is the loop's, and nothing is noted any more: its exchange has ended in its turn, or has been taken back, or what was noted while the connection was the loop's is seen to.</summary>
    public void BecomeLoops()
    {
        Debug.Assert(!IsPinned);
        Volatile.Write(ref _word, (int)Ownership.None);
    }

    /// <summary>Keeps the exchange from ending under the loop's hands until <see cref="Unpin"/>. False when it is not running, or has ended already.</summary>
    public bool TryPin()
    {
        while (true)
        {
            Ownership now = Now;
            if ((now & Ownership.Lent) == 0 || (now & Ownership.Returning) != 0)
            {
                return false;
            }

            if (TryChange(now, now | Ownership.Pinned))
            {
                return true;
            }
        }
    }

    public void Unpin()
    {
        Debug.Assert(IsPinned);
        Clear(Ownership.Pinned);
    }

    /// <summary>There is something to do when the exchange ends: it gives the connection back by way of the loop.</summary>
    public void NoteInput() => Set(Ownership.NotedInput);

    /// <summary>The socket takes more; false when nobody waits for that.</summary>
    public bool TakeWantsWritable() => (Clear(Ownership.WantsWritable) & Ownership.WantsWritable) != 0;

    // ---- the exchange ----

    public void WantWritable()
    {
        Debug.Assert(!IsLoops);
        Set(Ownership.WantsWritable);
    }

    /// <summary>By one step, where nothing is noted. After true the connection may not be touched.</summary>
    public bool TryGiveBack() => Now == Ownership.Lent && TryChange(Ownership.Lent, Ownership.None);

    /// <summary>By way of the loop, which is posted to next.</summary>
    public void GiveBack()
    {
        Debug.Assert(!IsLoops);
        Set(Ownership.Returning);
    }

    private bool TryChange(Ownership from, Ownership to) => Interlocked.CompareExchange(ref _word, (int)to, (int)from) == (int)from;

    private void Set(Ownership bit) => Interlocked.Or(ref _word, (int)bit);

    private Ownership Clear(Ownership bit) => (Ownership)Interlocked.And(ref _word, ~(int)bit);
}
