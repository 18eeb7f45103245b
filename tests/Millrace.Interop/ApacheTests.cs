// The end-to-end list behind Apache, one class per combination. The list itself is EndToEndList; what Apache makes impossible
// is in ApacheList.cs.
using Millrace.Interop.FrontEnds;
using static Millrace.Interop.FrontEnds.AppProtocol;
using static Millrace.Interop.FrontEnds.Transport;
using static Millrace.Interop.FrontEnds.UpstreamConnections;

namespace Millrace.Interop;

public abstract class ApacheRig(AppProtocol protocol, Transport transport, UpstreamConnections connections)
    : EndToEndRig(new ApacheProgram(), new Combination(protocol, transport, connections));

public sealed class ApacheFastCgiTcpRig() : ApacheRig(FastCgi, Tcp, ClosedAfterEachRequest);

public sealed class ApacheFastCgiTcpKeptAliveRig() : ApacheRig(FastCgi, Tcp, KeptAlive);

public sealed class ApacheFastCgiUnixRig() : ApacheRig(FastCgi, Unix, ClosedAfterEachRequest);

public sealed class ApacheFastCgiUnixKeptAliveRig() : ApacheRig(FastCgi, Unix, KeptAlive);

public sealed class ApacheHttpTcpRig() : ApacheRig(Http, Tcp, ClosedAfterEachRequest);

public sealed class ApacheHttpUnixKeptAliveRig() : ApacheRig(Http, Unix, KeptAlive);

public sealed class Apache_FastCgi_Tcp(ApacheFastCgiTcpRig rig)
    : ApacheFastCgiList(rig), IClassFixture<ApacheFastCgiTcpRig>;

public sealed class Apache_FastCgi_Tcp_kept_alive(ApacheFastCgiTcpKeptAliveRig rig)
    : ApacheFastCgiList(rig), IClassFixture<ApacheFastCgiTcpKeptAliveRig>;

public sealed class Apache_FastCgi_Unix(ApacheFastCgiUnixRig rig)
    : ApacheFastCgiList(rig), IClassFixture<ApacheFastCgiUnixRig>;

public sealed class Apache_FastCgi_Unix_kept_alive(ApacheFastCgiUnixKeptAliveRig rig)
    : ApacheFastCgiList(rig), IClassFixture<ApacheFastCgiUnixKeptAliveRig>;

public sealed class Apache_Http_Tcp(ApacheHttpTcpRig rig)
    : ApacheHttpList(rig), IClassFixture<ApacheHttpTcpRig>;

public sealed class Apache_Http_Unix_kept_alive(ApacheHttpUnixKeptAliveRig rig)
    : ApacheHttpList(rig), IClassFixture<ApacheHttpUnixKeptAliveRig>;
