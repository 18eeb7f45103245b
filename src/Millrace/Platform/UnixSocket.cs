// The one place where Unix sockets are made: whoever is at the other end, a client or what a client has connected to, may send descriptors (PassedDescriptors.cs),
// and they are refused before he is there. A test looks that none is made elsewhere.

using System.Net.Sockets;

namespace Millrace.Platform;

internal static class UnixSocket
{
    /// <summary>A socket of the framework's, for a client; it is the caller's.</summary>
    public static Socket New(SocketType type = SocketType.Stream)
    {
        Socket socket = NewTaking(type);
        _ = PassedDescriptors.Refuse((int)socket.Handle);
        return socket;
    }

    /// <summary>One that takes descriptors: whoever makes it receives with room for all of them, and closes it by <see cref="ForeignDescriptor"/>.</summary>
    public static Socket NewTaking(SocketType type = SocketType.Stream) => new(AddressFamily.Unix, type, ProtocolType.Unspecified);

    /// <summary>A descriptor that waits for nobody; negative where there is none.</summary>
    public static int Open()
    {
        int descriptor = SystemCalls.Socket(SystemCalls.AF_UNIX, SystemCalls.SOCK_STREAM | SystemCalls.SOCK_NONBLOCK | SystemCalls.SOCK_CLOEXEC, 0);
        if (descriptor >= 0)
        {
            _ = PassedDescriptors.Refuse(descriptor);
        }

        return descriptor;
    }
}
