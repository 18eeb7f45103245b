// Which class speaks the protocol of a listener.

using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connections;

internal static class ConnectionFactory
{
    public static Connection Create<TKernel>(EventLoop<TKernel> loop, int descriptor, ListenAddress address, byte[] peer)
        where TKernel : struct, IKernel => address.Protocol switch
        {
            ListenProtocol.FastCgi => new FastCgiConnection<TKernel>(loop, descriptor, address.IsTcp) { IsUncounted = address.IsUncounted },
            _ => new Http1Connection<TKernel>(loop, descriptor, address.IsTcp, peer) { IsUncounted = address.IsUncounted },
        };
}
