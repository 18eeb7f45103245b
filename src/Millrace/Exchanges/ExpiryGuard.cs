// Says whether the reader of a body that an application has may still be used: its request may end on another thread at this
// very moment. Two atomic operations a use keep it away from the request that has taken the place of its own. (Who may write
// is in ResponseGate.cs.)
//
//           Enter              Exit
//   open -----------> in use --------> open
//     |  Expire, which waits for a use in progress
//     +------------> closed

using Millrace.Platform;

namespace Millrace.Exchanges;

internal struct ExpiryGuard
{
    private const int Open = 0;
    private const int InUse = 1;
    private const int Closed = 2;

    private int _state;

    /// <summary>Waits for another thread to leave, which is a matter of copying bytes. False when the request has ended.</summary>
    public bool TryEnter()
    {
        var spin = default(SpinWait);
        while (true)
        {
            int was = Interlocked.CompareExchange(ref _state, InUse, Open);
            if (was != InUse)
            {
                return was == Open;
            }

            Steady.Spin(ref spin);
        }
    }

    public void Exit() => Volatile.Write(ref _state, Open);

    /// <summary>The request ends: waits for a use in progress, and there will be no other.</summary>
    public void Expire()
    {
        var spin = default(SpinWait);
        while (Interlocked.CompareExchange(ref _state, Closed, Open) == InUse)
        {
            Steady.Spin(ref spin);
        }
    }
}
