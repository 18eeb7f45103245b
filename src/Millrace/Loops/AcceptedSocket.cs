// On its way from the loop that has accepted it to the one that serves it.

using Millrace.Listeners;

namespace Millrace.Loops;

/// <summary>A connection accepted by one loop, for itself or for another.</summary>
/// <param name="Descriptor">The socket.</param>
/// <param name="Address">Where it was accepted.</param>
/// <param name="Peer">Its peer's address as the kernel gives it; empty for Unix sockets.</param>
/// <param name="Moved">Of one that another server has had before: what that one knew of it.</param>
internal sealed record AcceptedSocket(int Descriptor, ListenAddress Address, byte[] Peer, MovedConnection? Moved = null);
