// H2O. Its configuration is FrontEnds/h2o/fastcgi.conf or http.conf, or spawn.conf where it starts the application.
namespace Millrace.Interop.FrontEnds;

/// <param name="command">The command line of the application that it starts itself; none where the application runs already.</param>
public sealed class H2oProgram(string? command = null) : FrontEndProgram
{
    public override string Title => "H2O";

    public override string Package => "h2o";

    public override IReadOnlyList<string> Places => ["/usr/bin/h2o", "/usr/local/bin/h2o"];

    public override string LogFile => "error.log";

    public override string TemplateFor(Upstream upstream) =>
        command is not null ? "h2o/spawn.conf"
        : upstream.Combination.Protocol == AppProtocol.FastCgi ? "h2o/fastcgi.conf"
        : "h2o/http.conf";

    public override void FillIn(IDictionary<string, string> words, Upstream upstream)
    {
        words["COMMAND"] = command ?? "";
        words["USER"] = System.Environment.IsPrivilegedProcess ? "user: root" : "";
        words["KEEPALIVE_MS"] = upstream.Combination.Connections == UpstreamConnections.KeptAlive ? "60000" : "0";
        if (command is not null)
        {
            return;
        }

        string host = Upstream.HostPart(upstream.Addresses.Single());
        bool unix = host.StartsWith("unix:", StringComparison.Ordinal);
        words["SERVER"] = (upstream.Combination.Protocol, unix) switch
        {
            (AppProtocol.FastCgi, true) => $"{{ type: unix, port: \"{host["unix:".Length..]}\" }}",
            (AppProtocol.FastCgi, false) => $"{{ host: {host.Split(':')[0]}, port: {host.Split(':')[1]} }}",
            (_, true) => $"http://[{host}]/",
            (_, false) => $"http://{host}/",
        };
    }

    public override IReadOnlyList<string> Arguments(string directory, string configuration) => ["-m", "worker", "-c", configuration];

    public override bool IsError(string line) =>
        !line.Contains("is ready to serve requests", StringComparison.Ordinal) &&
        !line.StartsWith("[INFO]", StringComparison.Ordinal) &&
        !line.Contains("gracefully shutting down", StringComparison.Ordinal);

    public override IReadOnlyList<string> TextsOf(Complaint complaint) => complaint switch
    {
        Complaint.ResponseCut => ["received unexpected record", "I/O error"],
        _ => [],
    };
}
