// Opens what an address asks for. Which kind needs what is in TcpListeners, UnixListener and InheritedListeners.

namespace Millrace.Listeners;

internal static class ListenSockets
{
    /// <summary>
    /// Connections that may wait for accept, per descriptor. The kernel lowers it to net.core.somaxconn (4096 since Linux 5.4, 128 before) without a word.
    /// </summary>
    public const int DefaultBacklog = 4096;

    /// <summary>
    /// Opens everything for one address: one socket per loop (and per address family) for TCP, one for all loops otherwise.
    /// Either all of them are listening, or none is left open.
    /// </summary>
    /// <param name="address">Where to listen. Port 0 is chosen here and reported in each socket's address.</param>
    /// <param name="loops">How many loops accept; at least 1.</param>
    /// <param name="backlog">See <see cref="DefaultBacklog"/>; at least 1.</param>
    /// <exception cref="MillraceStartException">The machine does not allow it; the message says what to do.</exception>
    public static IReadOnlyList<ListenSocket> Open(ListenAddress address, int loops, int backlog = DefaultBacklog)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(loops, 1);
        ArgumentOutOfRangeException.ThrowIfLessThan(backlog, 1);
        return address.Kind switch
        {
            EndPointKind.Unix => [UnixListener.Open(address, backlog)],
            EndPointKind.Inherited => [InheritedListeners.Open(address)],
            _ => TcpListeners.Open(address, loops, backlog),
        };
    }
}
