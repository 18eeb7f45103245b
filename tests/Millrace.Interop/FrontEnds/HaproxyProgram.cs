// HAProxy. Its configuration is FrontEnds/haproxy/fastcgi.conf or http.conf.
namespace Millrace.Interop.FrontEnds;

/// <param name="multiplexes">Whether it may put several requests on one connection, if the application says that it can.</param>
public sealed class HaproxyProgram(bool multiplexes = false) : FrontEndProgram
{
    public override string Title => "HAProxy";

    public override string Package => "haproxy";

    public override IReadOnlyList<string> Places => ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy"];

    public override string TemplateFor(Upstream upstream) =>
        upstream.Combination.Protocol == AppProtocol.FastCgi ? "haproxy/fastcgi.conf" : "haproxy/http.conf";

    public override void FillIn(IDictionary<string, string> words, Upstream upstream)
    {
        bool keptAlive = upstream.Combination.Connections == UpstreamConnections.KeptAlive;
        string protocol = upstream.Combination.Protocol == AppProtocol.FastCgi ? " proto fcgi" : "";
        IEnumerable<string> servers = upstream.Addresses.Select((address, index) =>
            $"server app{index} {Upstream.HostPart(address).Replace("unix:", "unix@", StringComparison.Ordinal)}{protocol}");
        words["SERVERS"] = string.Join("\n    ", servers);
        words["REUSE"] = keptAlive ? "always" : "never";
        words["KEEP_CONN"] = keptAlive ? "option keep-conn" : "no option keep-conn";
        words["CLOSE"] = keptAlive ? "" : "option http-server-close";
        words["MULTIPLEX"] = multiplexes ? "option mpxs-conns" : "";
    }

    public override IReadOnlyList<string> Arguments(string directory, string configuration) => ["-db", "-f", configuration];

    public override IReadOnlyList<string> TextsOf(Complaint complaint) => [];
}
