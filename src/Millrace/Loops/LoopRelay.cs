// Passes requests of a loop's connections on to somebody else who answers them, without a handler: on the loop itself, whose driver alone calls it. It never
// waits and runs no code of an application, so that nobody need watch over it.

using Millrace.Exchanges;
using Millrace.Platform;

namespace Millrace.Loops;

internal abstract class LoopRelay : IDisposable
{
    /// <summary>
    /// Whether it passes this request on: then <see cref="Begin"/> follows. Otherwise the request is the handler's, and nothing of it has been touched.
    /// </summary>
    public abstract bool TryTake(Exchange exchange);

    /// <summary>Sends the request that was taken last. From here on it ends the exchange, perhaps at once.</summary>
    public abstract void Begin(Exchange exchange);

    /// <summary>The loop has ended, and with it all its connections.</summary>
    public abstract void Dispose();
}

/// <summary>Makes the relay of each loop of a server.</summary>
internal abstract class RelayMaker
{
    public abstract LoopRelay Make<TKernel>(EventLoop<TKernel> loop)
        where TKernel : struct, IKernel;
}
