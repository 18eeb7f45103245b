// A descriptor that another process has sent (SCM_RIGHTS, unix(7)): whether it is what it should be, and how to be rid of it where it is not.

namespace Millrace.Platform;

internal static class ForeignDescriptor
{
    /// <summary>Whether it is the socket of a connection, over TCP or a Unix socket.</summary>
    public static bool IsConnection(int descriptor) =>
        Option(descriptor, SystemCalls.SO_DOMAIN) is SystemCalls.AF_UNIX or SystemCalls.AF_INET or SystemCalls.AF_INET6
        && Option(descriptor, SystemCalls.SO_TYPE) == SystemCalls.SOCK_STREAM
        && Option(descriptor, SystemCalls.SO_ACCEPTCONN) == 0;

    /// <summary>
    /// Closes what is no connection, on a thread of its own: a close may wait for as long as whoever stands behind the file likes (FUSE, a terminal). Where there is
    /// no thread it stays open.
    /// </summary>
    public static void Close(int descriptor)
    {
        try
        {
            new Thread(() => _ = SystemCalls.Close(descriptor)) { IsBackground = true, Name = "foreign descriptor" }.UnsafeStart();
        }
        catch (Exception error) when (error is OutOfMemoryException or ThreadStartException)
        {
            // One descriptor less is less than a loop that waits.
        }
    }

    private static int Option(int descriptor, int name) => SystemCalls.GetSocketOption(descriptor, SystemCalls.SOL_SOCKET, name);
}
