// The part of a router that is quick: requests whose body is there go from the loop that has their connection to a responder, over a connection that is the same loop's, and
// the answer comes back there, without a handler, a task or another thread. Everything else, a long body, a switch of protocols, a responder that cannot be connected
// to at once, takes the way of ForwardedRequest and UpgradedRequest.

using System.Diagnostics.Metrics;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connector;

internal sealed class FastCgiRelays : RelayMaker, IDisposable
{
    private readonly List<ISweptRelay> _made = [];
    private readonly Timer _sweep;
    private readonly Meter _meter = new("Millrace.Router");

    /// <param name="routes">Which request is whose.</param>
    /// <param name="upstreams">The responders that they speak of.</param>
    /// <param name="limits">How many connections there may be to each of them on all loops, and how long they are kept.</param>
    public FastCgiRelays(IRelayRoutes routes, IReadOnlyList<RelayUpstream> upstreams, ConnectionLimits limits)
    {
        Routes = routes;
        Upstreams = upstreams;
        Limits = limits;
        foreach (RelayUpstream upstream in upstreams)
        {
            upstream.Pool.PlacesWanted = GiveBack;
        }
        Durations = _meter.CreateHistogram<double>("millrace.router.duration", "s", "How long requests took that were passed on without a handler.");
        _sweep = new Timer(static relays => ((FastCgiRelays)relays!).Sweep(), this, limits.IdleTimeout / 4, limits.IdleTimeout / 4);
    }

    public IRelayRoutes Routes { get; }

    public IReadOnlyList<RelayUpstream> Upstreams { get; }

    public ConnectionLimits Limits { get; }

    /// <summary>Of requests, in seconds; hosting does not see them.</summary>
    public Histogram<double> Durations { get; }

    public override LoopRelay Make<TKernel>(EventLoop<TKernel> loop)
    {
        var relay = new FastCgiRelay<TKernel>(this, loop);
        lock (_made)
        {
            _made.Add(relay);
        }
        return relay;
    }

    public void Dispose()
    {
        _sweep.Dispose();
        _meter.Dispose();
    }

    private void GiveBack()
    {
        lock (_made)
        {
            _made.ForEach(static relay => relay.GiveBack());
        }
    }

    /// <summary>Has every loop close what nobody has used for long.</summary>
    public void Sweep()
    {
        lock (_made)
        {
            _made.ForEach(static relay => relay.Sweep());
        }
    }
}

internal interface ISweptRelay
{
    /// <summary>Has the loop close what nobody has used for long. Any thread.</summary>
    void Sweep();

    /// <summary>Has the loop close what nobody uses: others wait for a place. Any thread.</summary>
    void GiveBack();
}
