// Makes the Unix sockets by which this process connects to others: with no descriptors from whoever is at the other end (Posix.RefuseDescriptors).

using System.Net.Sockets;

namespace Millrace.Workers.Processes;

internal static class ClientSocket
{
    /// <summary>The caller owns it.</summary>
    public static Socket New()
    {
        var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        Posix.RefuseDescriptors((int)socket.Handle);
        return socket;
    }
}
