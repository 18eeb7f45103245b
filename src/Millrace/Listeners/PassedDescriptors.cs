// Descriptors that a peer sends along with its bytes (SCM_RIGHTS, unix(7)). No server here wants any, but the kernel closes them on the thread
// that receives the bytes, and the last close of a socket may wait as long as its sender likes (SO_LINGER): each loop for a peer of its own.

using Millrace.Platform;

namespace Millrace.Listeners;

internal static class PassedDescriptors
{
    /// <summary>
    /// Has the kernel refuse them, with EPERM at their sender, on every connection that comes to this Unix socket from now on. False where it cannot: before Linux 6.16, and for other sockets.
    /// </summary>
    public static bool Refuse(int listener) => SystemCalls.SetSocketOption(listener, SystemCalls.SOL_SOCKET, SystemCalls.SO_PASSRIGHTS, 0) == 0;
}
