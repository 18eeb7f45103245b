// What has come of a look into the queue of a listening socket.

namespace Millrace.Loops;

internal enum Accepted
{
    /// <summary>There may be more in the queue.</summary>
    One,

    /// <summary>Nobody waits.</summary>
    Nobody,

    /// <summary>Descriptors are short.</summary>
    Exhausted,

    /// <summary>The system gives nobody of this socket.</summary>
    Refused,

    /// <summary>The loop was taken over meanwhile.</summary>
    LoopLost,
}
