// Descriptors that a peer sends along with its bytes (SCM_RIGHTS, unix(7)). No loop here wants any, but the kernel closes them on the thread
// that receives the bytes, and the last close of a socket may wait as long as its sender likes (SO_LINGER): each thread for a peer of its own.

namespace Millrace.Platform;

internal static class PassedDescriptors
{
    /// <summary>
    /// Has the kernel refuse them, with EPERM at their sender, on this Unix socket and every connection that comes to it from now on. False where it cannot: before Linux 6.16, and for other sockets.
    /// </summary>
    public static bool Refuse(int socket) => SystemCalls.SetSocketOption(socket, SystemCalls.SOL_SOCKET, SystemCalls.SO_PASSRIGHTS, 0) == 0;

    /// <summary>Whether it does.</summary>
    public static bool AreRefused(int socket) => SystemCalls.GetSocketOption(socket, SystemCalls.SOL_SOCKET, SystemCalls.SO_PASSRIGHTS) == 0;
}
