// One connection, as loops, exchanges and timers see it. What protocol it speaks is in the classes below it; how it is
// received, run, answered, given back and ended is in Connection.Receive.cs, .Run.cs, .Queue.cs, .Exchange.cs, .Send.cs, .End.cs,
// .Break.cs and .BreakOff.cs, over the kernel it runs on.
//
// A connection belongs to its loop or to its exchange, never to both. Ownership is one bit of the word (Ownership.cs):
//
//        Exchanging (set by the loop before the handler)
//   loop ----------------------------------------------> exchange
//        <---- handler ended in its turn (plain store)
//        <---- given back by one compare-exchange, when nothing else is noted in the word
//        <---- posted to the loop (GivenBack), when something is
//
// Reading stays with the loop all the time. While it looks at a connection that its exchange owns it pins it, and
// an exchange that ends just then takes the posted way. A descriptor is closed by the loop alone, and only when no
// exchange owns the connection: a number closed under a writing thread would be given to a stranger.
//
// Connection.pml checks this exhaustively. Its states: PROCESS (loop's, until Exchanging is set), HANDLER, LEAVE and FINISH
// (exchange's), FEED_HELD to UNPIN (pinned), TAKE_BACK (GivenBack and posted), EVENT, POSTED, DEADLINE (the loop's turn).

using System.Diagnostics;
using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connections;

internal abstract class Connection
{
    private string? _id;
    private uint _requests;

    protected Connection(int descriptor) => Descriptor = descriptor;

    public int Descriptor { get; }

    public ulong Token { get; set; }

    /// <summary>What it is doing; the loop's.</summary>
    public Stage Stage { get; private set; }

    public bool IsClosed => Stage == Stage.Closed;

    protected void Enter(Stage next)
    {
        Debug.Assert(next.MayFollow(Stage), $"from {Stage} to {next}");
        Stage = next;
    }

    /// <summary>Made when somebody asks. No other connection has it, of this process or of one before it.</summary>
    public string Id => _id ??= ConnectionIds.Next();

    /// <summary>Counts the requests that begin. The loop's driver.</summary>
    public uint NextRequestNumber() => ++_requests;

    // ---- deadline (DeadlineWheel) ----
    public long DeadlineMs = long.MaxValue;
    public long WheelDueMs = long.MaxValue;
    public int WheelSlot = -1;
    public Connection? WheelNext;
    public Connection? WheelPrevious;

    // ---- called by the loop's driver; false: the loop was taken over meanwhile ----
    public abstract bool OnAccepted(LoopDriver driver);

    public abstract bool OnEvent(LoopDriver driver, Readiness ready);

    public abstract bool OnPosted(LoopDriver driver);

    public abstract bool OnHandedOver(LoopDriver driver);

    public abstract void OnDeadline(long nowMs);

    public abstract void OnDrain(long nowMs, long begunMs, bool cut);

    /// <summary>Has the event queue tell of this connection. The loop tries again while the kernel has no room.</summary>
    public abstract void Register();

    // ---- called by workers ----
    public abstract void RunOnWorker(LoopDriver driver);

    public abstract void AdmitFromGate();

    // ---- called by the exchange, on any thread, while it owns the connection ----

    /// <summary>The handler has ended on a thread that does not drive the loop.</summary>
    public abstract void FinishDetached(Exchange exchange);

    public abstract void PostResumeReading();

    /// <summary>The handler starts reading the body.</summary>
    public abstract void OnBodyWanted(Exchange exchange);

    /// <summary>Sends all of it, compacting what stays.</summary>
    public abstract SendResult SendOutput(Exchange? exchange, OutputBuffer output);

    /// <summary>Sends what lies before <paramref name="end"/>.</summary>
    public abstract void SendUpTo(Exchange exchange, OutputBuffer output, int end);

    /// <summary>The loop continues the sending when the socket takes bytes again.</summary>
    public abstract void WantWritable(Exchange exchange);

    /// <summary>Bytes of a file, without a copy through managed memory. <paramref name="offset"/> moves on.</summary>
    public abstract SendResult SendFilePart(int file, ref long offset, ref int count);

    /// <summary>Sends raw bytes ahead of a file part. All or nothing is not promised: what stays is in the buffer.</summary>
    public abstract SendResult SendAhead(OutputBuffer output);

    /// <summary>Within the exchange's send lock, which has nothing on its way: what waits besides may leave.</summary>
    public virtual void SendBesides(Exchange exchange)
    {
    }

    /// <summary>Nothing more in either direction. The descriptor stays open until the loop closes it.</summary>
    public abstract void Cut();

    /// <summary>Ends the connection so that the peer does not take what it has got of the response for a whole one. Within the exchange's send lock.</summary>
    /// <param name="exchange">The one whose response it is.</param>
    /// <param name="atOnce">There is no time left; otherwise answers to earlier requests go first.</param>
    public abstract void BreakOff(Exchange exchange, bool atOnce);

    /// <summary>The socket takes bytes again. False: the connection is not being broken off. Within the exchange's send lock.</summary>
    public abstract bool ContinueBreakingOff(Exchange exchange);

    /// <summary>A fault of the server itself, on the loop: this connection ends.</summary>
    public abstract void EndByFault();

    // ---- what only some protocols can do ----

    /// <summary>Whether the request in progress may switch protocols (RFC 9110 §7.8).</summary>
    public virtual bool IsUpgradable => false;

    /// <summary>The exchange has switched protocols: its bytes are read from now on.</summary>
    public virtual void OnUpgraded(Exchange exchange)
    {
    }

    /// <summary>The connection ends with the response in progress.</summary>
    public virtual void RequestClose()
    {
    }

    /// <summary>What an application keeps with the connection, from request to request. Made when somebody asks.</summary>
    public IDictionary<object, object?> State => _state ??= new Dictionary<object, object?>();

    private Dictionary<object, object?>? _state;

    /// <summary>What AspNetCore/ConnectionLogScope.cs keeps with the connection.</summary>
    public object? LogContext { get; set; }

    // ---- framing: how a response looks in this protocol ----

    public abstract bool IsFastCgi { get; }

    public abstract System.Net.IPEndPoint? RemoteEndPoint { get; }

    public abstract System.Net.IPEndPoint? LocalEndPoint { get; }

    /// <summary>Status line and fields. <paramref name="length"/>: of the body, -1 when it is not known.</summary>
    public abstract void WriteHead(Exchange exchange, OutputBuffer output, long length);

    /// <summary>Makes sure that body bytes may be appended.</summary>
    public abstract void OpenChunk(Exchange exchange, OutputBuffer output);

    /// <summary>Body bytes the open chunk has room for.</summary>
    public abstract int ChunkRoom(OutputBuffer output);

    /// <summary>Bytes that closing a chunk may add.</summary>
    public abstract int ChunkTailMax { get; }

    public abstract void CloseChunk(Exchange exchange, OutputBuffer output);

    /// <summary>The end of the response.</summary>
    public abstract void WriteEnd(Exchange exchange, OutputBuffer output);

    /// <summary>A chunk whose <paramref name="count"/> bytes follow from a file: its head. Answers the bytes allowed in it.</summary>
    public abstract int WriteFileChunkHead(Exchange exchange, OutputBuffer output, long count);

    /// <summary>What follows the file's bytes.</summary>
    public virtual void WriteFileChunkTail(OutputBuffer output)
    {
    }
}
