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

/// <summary>What nginx does otherwise over FastCGI without `fastcgi_keep_conn on`.</summary>
public abstract class NginxFastCgiClosedList(EndToEndRig rig) : EndToEndList(rig)
{
    [Deviation("Without `fastcgi_keep_conn on` a response that is collected (`fastcgi_buffering on`, the default) and broken off loses what nginx has of it in a buffer that is not full, up to all of it. It never looks whole.")]
    public override async Task What_was_sent_before_a_handler_throws_arrives_and_the_response_is_cut(string length, int bytes)
    {
        (_, int got, bool isCut) = await GetBrokenAsync(length, bytes, streamed: false);
        Assert.True(isCut, "A response that was broken off looks whole.");
        Assert.InRange(got, Math.Max(0, bytes - BuffersMax), bytes);
        Assert.Equal((200, bytes, true), await GetBrokenAsync(length, bytes, streamed: true));
        await AssertStillServesAsync();
    }

    // fastcgi_buffers and fastcgi_buffer_size, by default.
    private const int BuffersMax = 9 * 8 * 1024;
}

public sealed class Nginx_FastCgi_Tcp(NginxFastCgiTcpRig rig)
    : NginxFastCgiClosedList(rig), IClassFixture<NginxFastCgiTcpRig>;

public sealed class Nginx_FastCgi_Tcp_kept_alive(NginxFastCgiTcpKeptAliveRig rig)
    : EndToEndList(rig), IClassFixture<NginxFastCgiTcpKeptAliveRig>;

public sealed class Nginx_FastCgi_Unix(NginxFastCgiUnixRig rig)
    : NginxFastCgiClosedList(rig), IClassFixture<NginxFastCgiUnixRig>;

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
