// Why a connection is in the posted work of its loop. It is there once, whatever comes to be noted before its turn.

namespace Millrace.Connections;

[Flags]
internal enum PostReason
{
    None = 0,

    /// <summary>The exchange has ended: the loop is to take the connection back.</summary>
    TakeBack = 1,

    /// <summary>The handler has read of the body, whose receiving paused, or has switched protocols.</summary>
    ResumeReading = 2,

    /// <summary>A place among the concurrent requests is the queued request's: it runs, or gives it back.</summary>
    Admitted = 4,

    /// <summary>The deadline has become an earlier one.</summary>
    Deadline = 8,

    /// <summary>Other connections had their turn, and this one goes on.</summary>
    Continue = 16,

    /// <summary>The time to wait for a place is over.</summary>
    QueueTimeout = 32,

    /// <summary>The peer has finished while its request waited for a place.</summary>
    LeftQueue = 64,

    /// <summary>The connection is to be closed: what lies in the socket by now is looked at before the close.</summary>
    LastLook = 128,
}

internal struct PostReasons
{
    private int _reasons;

    /// <summary>Any thread. True for the first: the connection is to be posted.</summary>
    public bool Add(PostReason reason) => Interlocked.Or(ref _reasons, (int)reason) == 0;

    /// <summary>The loop, when the connection's turn has come.</summary>
    public PostReason TakeAll() => (PostReason)Interlocked.Exchange(ref _reasons, 0);
}
