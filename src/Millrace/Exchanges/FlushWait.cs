// A handler that waits until what it flushed has left.
//
//   None --Begin--> Blocked --TryEnd--> Resuming --TryFinish--> None
//
// Begin and TryEnd are called within the send lock. Whoever TryEnd has said yes to sees to TryFinish, once, when he has left the lock:
// it runs the code that waits. The exchange serves no other request before that.

using System.Diagnostics;
using System.Diagnostics.CodeAnalysis;

namespace Millrace.Exchanges;

internal enum FlushState
{
    /// <summary>Nobody waits.</summary>
    None,

    /// <summary>Until bytes have left: the loop sends all there is.</summary>
    Blocked,

    /// <summary>Only until somebody tells it.</summary>
    Resuming,
}

internal struct FlushWait
{
    private TaskCompletionSource? _flushed;     // one for each wait: the application may keep what it was given
    private int _state;

    public readonly FlushState State => (FlushState)Volatile.Read(in _state);

    public readonly bool IsPending => State != FlushState.None;

    /// <summary>What the handler waits for.</summary>
    public readonly Task Task => _flushed!.Task;

    public Task Begin()
    {
        if (IsPending)
        {
            throw new InvalidOperationException("A flush of this response is already waiting; await it before writing on.");
        }

        var flushed = new TaskCompletionSource();
        _flushed = flushed;
        Volatile.Write(ref _state, (int)FlushState.Blocked);
        return flushed.Task;
    }

    public bool TryEnd()
    {
        if (State != FlushState.Blocked)
        {
            return false;
        }

        Volatile.Write(ref _state, (int)FlushState.Resuming);
        return true;
    }

    /// <summary>From here on another wait may begin, before <paramref name="flushed"/> is told.</summary>
    public bool TryFinish([NotNullWhen(true)] out TaskCompletionSource? flushed)
    {
        flushed = _flushed;
        Debug.Assert(State != FlushState.Blocked);
        return (FlushState)Interlocked.Exchange(ref _state, (int)FlushState.None) != FlushState.None;
    }
}
