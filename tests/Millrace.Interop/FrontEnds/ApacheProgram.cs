// Apache. Its configuration is FrontEnds/apache/fastcgi.conf (mod_proxy_fcgi) or http.conf (mod_proxy_http).
namespace Millrace.Interop.FrontEnds;

public sealed class ApacheProgram : FrontEndProgram
{
    /// <summary>Where its modules are.</summary>
    public static string Modules => Directory.Exists("/usr/lib64/httpd/modules") ? "/usr/lib64/httpd/modules" : "/usr/lib/apache2/modules";

    public override string Title => "Apache";

    public override string Package => "apache2";

    public override IReadOnlyList<string> Places => ["/usr/sbin/apache2", "/usr/sbin/httpd"];

    public override string LogFile => "error.log";

    // Apache refuses to run its workers as root: they are nobody (65534) then.
    public override bool IsAnotherUser => System.Environment.IsPrivilegedProcess;

    public override string TemplateFor(Upstream upstream) =>
        upstream.Combination.Protocol == AppProtocol.FastCgi ? "apache/fastcgi.conf" : "apache/http.conf";

    public override void FillIn(IDictionary<string, string> words, Upstream upstream)
    {
        words["USER"] = IsAnotherUser ? "User #65534\nGroup #65534" : "";
        words["MODULES"] = Modules;
        words["BUFFERED_APP"] = ProxyPass(upstream, "buffered", "");
        words["STREAMING_APP"] = ProxyPass(upstream, "streaming", " flushpackets=on");
    }

    public override IReadOnlyList<string> Arguments(string directory, string configuration) => ["-D", "FOREGROUND", "-f", configuration];

    public override bool IsError(string line) => !line.Contains(":notice]", StringComparison.Ordinal);

    public override IReadOnlyList<string> TextsOf(Complaint complaint) => complaint switch
    {
        Complaint.ResponseCut => ["AH01067: Failed to read FastCGI header", "AH01068: Got bogus version", "AH01075: Error dispatching request", "AH01110: error reading response"],
        Complaint.ClientGone =>
            ["AH01075: Error dispatching request", "AH01095: prefetch request body failed", "read request body failed", "AH01097: pass request body failed"],
        _ => [],
    };

    private static string ProxyPass(Upstream upstream, string name, string options)
    {
        bool fastCgi = upstream.Combination.Protocol == AppProtocol.FastCgi;

        options = (upstream.Combination.Connections, fastCgi) switch
        {
            (UpstreamConnections.KeptAlive, true) => " enablereuse=on",
            (UpstreamConnections.KeptAlive, false) => "",
            _ => " disablereuse=on",
        } + (fastCgi ? "" : " upgrade=websocket") + options;

        // nocanon: the path as the client wrote it. Without it Apache refuses /100%25.
        const string Path = " nocanon";
        if (upstream.Addresses is [string only])
        {
            return $"ProxyPass \"/\" \"{Url(only, "app", fastCgi)}/\"{options}{Path}";
        }

        // retry=1: a server that refused a connection is asked again after a second, or when no other is left.
        IEnumerable<string> members = upstream.Addresses.Select((address, i) => $"    BalancerMember \"{Url(address, $"app{i}", fastCgi)}\" retry=1{options}");
        return $"""
            <Proxy "balancer://{name}">
            {string.Join('\n', members)}
                </Proxy>
                ProxyPass "/" "balancer://{name}/"{Path}
            """;
    }

    private static string Url(string address, string name, bool fastCgi)
    {
        string scheme = fastCgi ? "fcgi" : "http";
        string host = Upstream.HostPart(address);
        return host.StartsWith("unix:", StringComparison.Ordinal) ? $"{host}|{scheme}://{name}" : $"{scheme}://{host}";
    }
}
