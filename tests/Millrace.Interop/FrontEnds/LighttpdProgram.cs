// lighttpd. Its configuration is FrontEnds/lighttpd/fastcgi.conf or http.conf, or bin-path.conf where it starts the application.
using System.Globalization;

namespace Millrace.Interop.FrontEnds;

/// <param name="command">The command line of the application that it starts itself; none where the application runs already.</param>
public sealed class LighttpdProgram(string? command = null) : FrontEndProgram
{
    // check-local: no file has to exist. fix-root-scriptname: the whole path is PATH_INFO.
    private const string FastCgiOptions = ", \"check-local\" => \"disable\", \"fix-root-scriptname\" => \"enable\"";

    public override string Title => "lighttpd";

    public override string Package => "lighttpd";

    public override IReadOnlyList<string> Places => ["/usr/sbin/lighttpd", "/usr/local/sbin/lighttpd", "/usr/bin/lighttpd"];

    public override string LogFile => "error.log";

    public override string TemplateFor(Upstream upstream) =>
        command is not null ? "lighttpd/bin-path.conf"
        : upstream.Combination.Protocol == AppProtocol.FastCgi ? "lighttpd/fastcgi.conf"
        : "lighttpd/http.conf";

    public override void FillIn(IDictionary<string, string> words, Upstream upstream)
    {
        words["COMMAND"] = command ?? "";
        bool fastCgi = upstream.Combination.Protocol == AppProtocol.FastCgi;
        words["SERVERS"] = string.Join(",\n", upstream.Addresses.Select(address => $"    ( {Host(address)}{(fastCgi ? FastCgiOptions : "")} )"));
    }

    public override IReadOnlyList<string> Arguments(string directory, string configuration) => ["-D", "-f", configuration];

    // It has no levels: what it says beside complaints is that it starts and ends.
    public override bool IsError(string line) =>
        !line.Contains("server started", StringComparison.Ordinal) && !line.Contains("server stopped", StringComparison.Ordinal);

    public override IReadOnlyList<string> TextsOf(Complaint complaint) => complaint switch
    {
        Complaint.ResponseCut => ["unexpected end-of-file", "header.type not handled", "response already sent out, but backend returned error", "Connection reset by peer"],
        _ => [],
    };

    private static string Host(string address)
    {
        string host = Upstream.HostPart(address);
        if (host.StartsWith("unix:", StringComparison.Ordinal))
        {
            return $"\"socket\" => \"{host["unix:".Length..]}\"";
        }

        int colon = host.LastIndexOf(':');
        return string.Create(CultureInfo.InvariantCulture, $"\"host\" => \"{host[..colon]}\", \"port\" => {host[(colon + 1)..]}");
    }
}
