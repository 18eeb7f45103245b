// A descriptor that another process has sent (SCM_RIGHTS, unix(7)), or a socket on which some may wait: whether it is what it should be, and how to be rid of it where it is not.

namespace Millrace.Platform;

internal static class ForeignDescriptor
{
    /// <summary>Where a call waits that closes one, for a sentence.</summary>
    public const string Sent = "what an application has sent";

    /// <summary>Whether it is the socket of a connection, over TCP or a Unix socket.</summary>
    public static bool IsConnection(int descriptor) =>
        Option(descriptor, SystemCalls.SO_DOMAIN) is SystemCalls.AF_UNIX or SystemCalls.AF_INET or SystemCalls.AF_INET6
        && Option(descriptor, SystemCalls.SO_TYPE) == SystemCalls.SOCK_STREAM
        && Option(descriptor, SystemCalls.SO_ACCEPTCONN) == 0;

    public static bool IsUnix(int descriptor) => Option(descriptor, SystemCalls.SO_DOMAIN) == SystemCalls.AF_UNIX;

    /// <summary>
    /// Closes what is no connection, on a thread of its own: a close may wait for as long as whoever stands behind the file likes (FUSE, a terminal, SO_LINGER). Where there is
    /// no thread it stays open.
    /// </summary>
    public static void Close(int descriptor) => Begin(() => _ = SystemCalls.Close(descriptor));

    /// <summary>The same of several, one behind the other: each may wait, and none is worth a thread of its own.</summary>
    /// <param name="descriptors">Which; where there is none, no thread is needed.</param>
    public static void Close(int[] descriptors)
    {
        if (descriptors.Length > 0)
        {
            Begin(() => Array.ForEach(descriptors, static descriptor => _ = SystemCalls.Close(descriptor)));
        }
    }

    /// <summary>The same of a socket, with which what nobody has received is closed.</summary>
    public static void Close(IDisposable socket) => Begin(socket.Dispose);

    /// <summary>Has a thread of its own do what may wait; false, and nothing is done, where there is none.</summary>
    public static bool TryStart(Action close)
    {
        try
        {
            new Thread(close.Invoke) { IsBackground = true, Name = "foreign descriptor" }.UnsafeStart();
            return true;
        }
        catch (Exception error) when (error is OutOfMemoryException or ThreadStartException)
        {
            return false;
        }
    }

    private static void Begin(Action close)
    {
        long call = ForeignCalls.Begin(Sent);
        void Run()
        {
            close();
            ForeignCalls.End(call);
        }
        if (!TryStart(Run))
        {
            ForeignCalls.End(call);     // one descriptor less is less than a loop that waits
        }
    }

    private static int Option(int descriptor, int name) => SystemCalls.GetSocketOption(descriptor, SystemCalls.SOL_SOCKET, name);
}
