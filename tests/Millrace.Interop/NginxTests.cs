// The end-to-end list behind nginx, one class per combination. The list itself is EndToEndList.
using Millrace.Interop.FrontEnds;
using static Millrace.Interop.FrontEnds.AppProtocol;
using static Millrace.Interop.FrontEnds.Transport;
using static Millrace.Interop.FrontEnds.UpstreamConnections;

namespace Millrace.Interop;

public abstract class NginxRig(AppProtocol protocol, Transport transport, UpstreamConnections connections)
    : EndToEndRig(new NginxProgram(), new Combination(protocol, transport, connections));

public sealed class NginxFastCgiTcpRig() : NginxRig(FastCgi, Tcp, ClosedAfterEachRequest);

public sealed class NginxFastCgiTcpKeptAliveRig() : NginxRig(FastCgi, Tcp, KeptAlive);

public sealed class NginxFastCgiUnixRig() : NginxRig(FastCgi, Unix, ClosedAfterEachRequest);

public sealed class NginxFastCgiUnixKeptAliveRig() : NginxRig(FastCgi, Unix, KeptAlive);

public sealed class NginxHttpTcpRig() : NginxRig(Http, Tcp, ClosedAfterEachRequest);

public sealed class NginxHttpTcpKeptAliveRig() : NginxRig(Http, Tcp, KeptAlive);

public sealed class NginxHttpUnixRig() : NginxRig(Http, Unix, ClosedAfterEachRequest);

public sealed class NginxHttpUnixKeptAliveRig() : NginxRig(Http, Unix, KeptAlive);

public sealed class Nginx_FastCgi_Tcp(NginxFastCgiTcpRig rig)
    : EndToEndList(rig), IClassFixture<NginxFastCgiTcpRig>;

public sealed class Nginx_FastCgi_Tcp_kept_alive(NginxFastCgiTcpKeptAliveRig rig)
    : EndToEndList(rig), IClassFixture<NginxFastCgiTcpKeptAliveRig>;

public sealed class Nginx_FastCgi_Unix(NginxFastCgiUnixRig rig)
    : EndToEndList(rig), IClassFixture<NginxFastCgiUnixRig>;

public sealed class Nginx_FastCgi_Unix_kept_alive(NginxFastCgiUnixKeptAliveRig rig)
    : EndToEndList(rig), IClassFixture<NginxFastCgiUnixKeptAliveRig>;

public sealed class Nginx_Http_Tcp(NginxHttpTcpRig rig)
    : EndToEndList(rig), IClassFixture<NginxHttpTcpRig>;

public sealed class Nginx_Http_Tcp_kept_alive(NginxHttpTcpKeptAliveRig rig)
    : EndToEndList(rig), IClassFixture<NginxHttpTcpKeptAliveRig>;

public sealed class Nginx_Http_Unix(NginxHttpUnixRig rig)
    : EndToEndList(rig), IClassFixture<NginxHttpUnixRig>;

public sealed class Nginx_Http_Unix_kept_alive(NginxHttpUnixKeptAliveRig rig)
    : EndToEndList(rig), IClassFixture<NginxHttpUnixKeptAliveRig>;
