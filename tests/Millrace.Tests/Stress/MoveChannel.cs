// The two ends of a channel as the daemon makes it, through which connections go from one server to another. Whoever gets an end closes it.

using Millrace.Platform;

namespace Millrace.Tests.Stress;

internal static class MoveChannel
{
    public static unsafe (int Gives, int Takes) New()
    {
        int* pair = stackalloc int[2];
        Assert.Equal(0, SystemCalls.SocketPair(SystemCalls.AF_UNIX, SystemCalls.SOCK_SEQPACKET | SystemCalls.SOCK_CLOEXEC | SystemCalls.SOCK_NONBLOCK, 0, pair));
        return (pair[0], pair[1]);
    }
}
