// The end-to-end list behind H2O, one class per combination. The list itself is EndToEndList; what H2O makes impossible
// is in H2oList.cs.
// Not over FastCGI with kept connections: there H2O 2.2 fails an assertion (h2o_socket_export) and ends where an application answers
// before it has taken a long request body.
using Millrace.Interop.FrontEnds;
using static Millrace.Interop.FrontEnds.AppProtocol;
using static Millrace.Interop.FrontEnds.Transport;
using static Millrace.Interop.FrontEnds.UpstreamConnections;

namespace Millrace.Interop;

public abstract class H2oRig(AppProtocol protocol, Transport transport, UpstreamConnections connections)
    : EndToEndRig(new H2oProgram(), new Combination(protocol, transport, connections));

public sealed class H2oFastCgiTcpRig() : H2oRig(FastCgi, Tcp, ClosedAfterEachRequest);

public sealed class H2oFastCgiUnixRig() : H2oRig(FastCgi, Unix, ClosedAfterEachRequest);

public sealed class H2oHttpTcpRig() : H2oRig(Http, Tcp, ClosedAfterEachRequest);

public sealed class H2oHttpUnixKeptAliveRig() : H2oRig(Http, Unix, KeptAlive);

public sealed class H2o_FastCgi_Tcp(H2oFastCgiTcpRig rig)
    : H2oFastCgiList(rig), IClassFixture<H2oFastCgiTcpRig>;

public sealed class H2o_FastCgi_Unix(H2oFastCgiUnixRig rig)
    : H2oFastCgiList(rig), IClassFixture<H2oFastCgiUnixRig>;

public sealed class H2o_Http_Tcp(H2oHttpTcpRig rig)
    : H2oHttpList(rig), IClassFixture<H2oHttpTcpRig>;

public sealed class H2o_Http_Unix_kept_alive(H2oHttpUnixKeptAliveRig rig)
    : H2oHttpList(rig), IClassFixture<H2oHttpUnixKeptAliveRig>;
