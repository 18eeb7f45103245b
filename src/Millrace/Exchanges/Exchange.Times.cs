// Where the time of a request goes: waiting for its turn, running, waiting for its peer. Kept for the log of slow requests
// and for the report at the end of a drain. And how fast its peer must be.

using Millrace.Observe;

namespace Millrace.Exchanges;

internal sealed partial class Exchange
{
    private volatile bool _cutInDrain;
    private bool _saidSlow;

    /// <summary>Milliseconds of the loop's clock at which the handler was called.</summary>
    public long RunsSinceMs { get; set; }

    /// <summary>Milliseconds the handler has waited for its peer to take what it wrote.</summary>
    public long BlockedMs { get; set; }

    /// <summary>The handler has ended, and the request's own state is still there. Says it once.</summary>
    /// <param name="nowMs">The loop's clock, not that of the turn.</param>
    public void LogIfSlow(long nowMs)
    {
        long total = nowMs - StartedMs;
        if (total < Services.SlowRequestMs || IsUpgraded || _saidSlow)
        {
            return;
        }

        _saidSlow = true;
        long waiting = RunsSinceMs - StartedMs;
        string route = Services.Handler.RouteOf(this) ?? FieldText.Shown(StringTable.Decode(Head[Head.Path]), 256);
        Services.Log.SlowRequest(TraceIdentifier, FieldText.Shown(Head.MethodText), route, total, waiting, total - waiting - BlockedMs, BlockedMs);
    }

    /// <summary>The drain time is over: the request is counted as cut, and nobody waits for its response any more. Loop.</summary>
    public void NoteDrainOver(LoopCounters counters)
    {
        if (!_cutInDrain)
        {
            _cutInDrain = true;
            counters.CutInDrain++;
        }

        Life.LosePeer();
    }

    /// <summary>Counts the end of the request during a drain, on whatever thread.</summary>
    public void EndedInDrain()
    {
        if (!_cutInDrain)
        {
            Interlocked.Increment(ref Services.OffLoop.EndedInDrain);
        }
    }

    /// <summary>How fast the peer must be; set by the application for this request alone, or the server's.</summary>
    public PeerRates Rates
    {
        get => OwnRates ?? (Head.IsFastCgi ? Services.FastCgiRates : Services.HttpRates);
        set => OwnRates = value;
    }

    /// <summary>Null where the server's rates apply.</summary>
    public PeerRates? OwnRates { get; private set; }

    private void ResetTimes()
    {
        OwnRates = null;
        _cutInDrain = _saidSlow = false;
        BlockedMs = 0;
    }
}
