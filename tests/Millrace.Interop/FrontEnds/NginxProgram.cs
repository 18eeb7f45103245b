// nginx. Its configuration is FrontEnds/nginx/fastcgi.conf or http.conf.
namespace Millrace.Interop.FrontEnds;

/// <param name="template">A file of FrontEnds/nginx; without it the one of the upstream's protocol.</param>
public sealed class NginxProgram(string? template = null) : FrontEndProgram
{
    public override string Title => "nginx";

    public override string Package => "nginx";

    public override IReadOnlyList<string> Places => ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"];

    public override string LogFile => "error.log";

    public override string TemplateFor(Upstream upstream) =>
        "nginx/" + (template ?? (upstream.Combination.Protocol == AppProtocol.FastCgi ? "fastcgi.conf" : "http.conf"));

    public override void FillIn(IDictionary<string, string> words, Upstream upstream)
    {
        bool keptAlive = upstream.Combination.Connections == UpstreamConnections.KeptAlive;

        // max_fails=0: a server that refused one connection is asked again for the next request.
        IEnumerable<string> servers = upstream.Addresses.Select(static address => $"server {Upstream.HostPart(address)} max_fails=0;");
        words["USER"] = System.Environment.IsPrivilegedProcess ? "user root;" : "";
        words["SERVERS"] = string.Join("\n        ", servers);
        words["KEEPALIVE"] = keptAlive ? "keepalive 16; keepalive_requests 1000000;" : "";
        words["KEEP_CONN"] = keptAlive ? "on" : "off";
        words["CONNECTION"] = keptAlive ? "" : "close";
    }

    public override IReadOnlyList<string> Arguments(string directory, string configuration) =>
        ["-p", directory, "-e", Path.Combine(directory, "error.log"), "-c", configuration];

    public override IReadOnlyList<string> TextsOf(Complaint complaint) => complaint switch
    {
        // Over FastCGI the server makes it visible by an impossible record, then the end of the connection.
        Complaint.ResponseCut =>
            ["upstream prematurely closed", "upstream sent unsupported FastCGI protocol version", "Connection reset by peer"],
        _ => [],
    };
}
