// What the kernel's event queue has been asked to tell of a connection. Reading is watched for all the time, writing while
// somebody waits for it: its exchange, on any thread, or the loop.

namespace Millrace.Connections;

internal struct WatchWord
{
    private const int Watched = 1;
    private const int Writing = 2;

    private int _word;

    /// <summary>Whether writing is watched for, or is to be as soon as the connection is registered.</summary>
    public bool IsWriting => (Volatile.Read(ref _word) & Writing) != 0;

    /// <summary>The loop. True when the connection is to be registered now.</summary>
    public bool Begin()
    {
        if ((Volatile.Read(ref _word) & Watched) != 0)
        {
            return false;
        }

        Interlocked.Or(ref _word, Watched);
        return true;
    }

    /// <summary>True when the connection is registered already, and that is to be changed now.</summary>
    public bool BeginWriting() => (Interlocked.Or(ref _word, Writing) & Watched) != 0;

    /// <summary>True when writing was watched for, and is not to be any more.</summary>
    public bool EndWriting() => (Interlocked.And(ref _word, ~Writing) & Writing) != 0;
}
