// The end-to-end list behind lighttpd, one class per combination. The list itself is EndToEndList; what lighttpd makes impossible
// is in LighttpdList.cs.
using Millrace.Interop.FrontEnds;
using static Millrace.Interop.FrontEnds.AppProtocol;
using static Millrace.Interop.FrontEnds.Transport;
using static Millrace.Interop.FrontEnds.UpstreamConnections;

namespace Millrace.Interop;

public abstract class LighttpdRig(AppProtocol protocol, Transport transport, UpstreamConnections connections)
    : EndToEndRig(new LighttpdProgram(), new Combination(protocol, transport, connections));

public sealed class LighttpdFastCgiTcpRig() : LighttpdRig(FastCgi, Tcp, ClosedAfterEachRequest);

public sealed class LighttpdFastCgiUnixRig() : LighttpdRig(FastCgi, Unix, ClosedAfterEachRequest);

public sealed class LighttpdHttpTcpRig() : LighttpdRig(Http, Tcp, ClosedAfterEachRequest);

public sealed class Lighttpd_FastCgi_Tcp(LighttpdFastCgiTcpRig rig)
    : LighttpdFastCgiList(rig), IClassFixture<LighttpdFastCgiTcpRig>;

public sealed class Lighttpd_FastCgi_Unix(LighttpdFastCgiUnixRig rig)
    : LighttpdFastCgiList(rig), IClassFixture<LighttpdFastCgiUnixRig>;

public sealed class Lighttpd_Http_Tcp(LighttpdHttpTcpRig rig)
    : LighttpdHttpList(rig), IClassFixture<LighttpdHttpTcpRig>;
