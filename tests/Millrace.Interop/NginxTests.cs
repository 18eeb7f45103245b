// The end-to-end list behind nginx, one class per combination. The list itself is EndToEndList.
using Millrace.Interop.FrontEnds;
using static Millrace.Interop.FrontEnds.AppProtocol;
using static Millrace.Interop.FrontEnds.Transport;
using static Millrace.Interop.FrontEnds.UpstreamConnections;

namespace Millrace.Interop;

public abstract class NginxRig(AppProtocol protocol, Transport transport, UpstreamConnections connections)
    : EndToEndRig(new Combination(protocol, transport, connections))
{
    protected override async Task<IFrontEnd> StartFrontEndAsync(Upstream upstream) => await NginxServer.StartAsync(upstream);
}

public sealed class NginxFastCgiTcpRig() : NginxRig(FastCgi, Tcp, ClosedAfterEachRequest);

public sealed class NginxFastCgiTcpKeptAliveRig() : NginxRig(FastCgi, Tcp, KeptAlive);

public sealed class NginxFastCgiUnixRig() : NginxRig(FastCgi, Unix, ClosedAfterEachRequest);

public sealed class NginxFastCgiUnixKeptAliveRig() : NginxRig(FastCgi, Unix, KeptAlive);

public sealed class Nginx_FastCgi_Tcp(NginxFastCgiTcpRig rig)
    : EndToEndList(rig), IClassFixture<NginxFastCgiTcpRig>;

public sealed class Nginx_FastCgi_Tcp_kept_alive(NginxFastCgiTcpKeptAliveRig rig)
    : EndToEndList(rig), IClassFixture<NginxFastCgiTcpKeptAliveRig>;

public sealed class Nginx_FastCgi_Unix(NginxFastCgiUnixRig rig)
    : EndToEndList(rig), IClassFixture<NginxFastCgiUnixRig>;

public sealed class Nginx_FastCgi_Unix_kept_alive(NginxFastCgiUnixKeptAliveRig rig)
    : EndToEndList(rig), IClassFixture<NginxFastCgiUnixKeptAliveRig>;
