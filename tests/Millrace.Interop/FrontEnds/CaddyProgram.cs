// Caddy. Its configuration is FrontEnds/caddy/fastcgi.conf or http.conf, in the form of a Caddyfile.
namespace Millrace.Interop.FrontEnds;

public sealed class CaddyProgram : FrontEndProgram
{
    public override string Title => "Caddy";

    public override string Package => "caddy";

    public override IReadOnlyList<string> Places => ["/usr/bin/caddy", "/usr/local/bin/caddy"];

    public override string TemplateFor(Upstream upstream) =>
        upstream.Combination.Protocol == AppProtocol.FastCgi ? "caddy/fastcgi.conf" : "caddy/http.conf";

    public override void FillIn(IDictionary<string, string> words, Upstream upstream)
    {
        words["SERVERS"] = string.Join(' ', upstream.Addresses.Select(static address =>
            Upstream.HostPart(address).Replace("unix:", "unix/", StringComparison.Ordinal)));
        words["KEEPALIVE"] = upstream.Combination.Connections == UpstreamConnections.KeptAlive ? "" : "keepalive off";
    }

    public override IReadOnlyList<string> Arguments(string directory, string configuration) =>
        ["run", "--config", configuration, "--adapter", "caddyfile"];

    // It keeps its settings where the user keeps his.
    public override IReadOnlyDictionary<string, string> Environment(string directory) => new Dictionary<string, string>
    {
        ["HOME"] = directory,
        ["XDG_CONFIG_HOME"] = directory,
        ["XDG_DATA_HOME"] = directory,
    };

    // "Use of closed network connection" is a connection to the application that Caddy closed itself: its client had closed
    // while it still looked for the end of an answer. What the application does wrong reads otherwise (EOF, reset, malformed).
    public override bool IsError(string line) =>
        line.Contains("\"level\":\"error\"", StringComparison.Ordinal) && !line.Contains("use of closed network connection", StringComparison.Ordinal);

    public override IReadOnlyList<string> TextsOf(Complaint complaint) => complaint switch
    {
        Complaint.ResponseCut => ["aborting with incomplete response", "reading from backend"],
        Complaint.ClientGone => ["aborting with incomplete response", "context canceled", "i/o timeout", "unexpected EOF", "reading from backend"],
        _ => [],
    };
}
