// H2O, over FastCGI or HTTP/1.1. Written in YAML.

using System.Globalization;

namespace Millrace.Command.FrontEnds;

internal sealed class H2o : FrontEnd
{
    public override string Name => "h2o";

    public override string Description => "H2O 2.2 or later, FastCGI or HTTP";

    public override string ReloadCommand => "h2o -t -c /etc/h2o/h2o.conf && systemctl reload h2o";

    public override string FileFor(FrontEndSite site) => "/etc/h2o/h2o.conf";

    public override string Configure(FrontEndSite site)
    {
        string[] names = site.HostNames.Split(' ', StringSplitOptions.RemoveEmptyEntries);
        string note = site.PathPrefix == "/" ? "" : $"\n      # the application sees the whole path: app.UsePathBase(\"{site.PathPrefix}\")";
        string others = string.Concat(names.Skip(1).Select(name => $"  {Quote(name)}:\n    paths: *{site.Name}\n"));
        return $$"""
            # In {{FileFor(site)}}, in place of the lines there with these names, then: {{ReloadCommand}}
            limit-request-body: {{site.BodyMaxDigits}}                    # {{site.BodyMaxSource}}
            hosts:
              {{Quote(names[0])}}:
                paths: &{{site.Name}}{{note}}
                  {{Quote(site.PathPrefix)}}:
            {{(site.Address.Scheme == ServerScheme.FastCgi ? FastCgi(site) : Http(site))}}
            {{others}}
            """.TrimEnd('\n') + "\n";
    }

    private static string FastCgi(FrontEndSite site) => $$"""
                fastcgi.connect: { {{Server(site)}} }
                fastcgi.timeout.io: 60000               # ms: the slowest handler
                fastcgi.timeout.keepalive: 0            # H2O 2.2 fails over kept FastCGI connections
        """;

    private static string Http(FrontEndSite site)
    {
        string server = site.Address.SocketPath is { } path ? $"[unix:{WithoutBracket(path)}]" : site.Address.HostAndPort;
        return $"""
                    proxy.reverse.url: {Quote($"http://{server}{site.PathPrefix}")}
                    proxy.preserve-host: ON
                    # H2O adds the address to what the client says
                    proxy.header.unset: X-Forwarded-For
                    proxy.timeout.io: 60000                 # ms: the slowest handler
                    proxy.timeout.keepalive: 60000          # ms: an idle connection to the application
                    proxy.websocket: ON
            """;
    }

    private static string WithoutBracket(string path) => path.Contains(']', StringComparison.Ordinal)
        ? throw CannotBeTold("H2O", path, "a path without ], or FastCGI")
        : path;

    private static string Server(FrontEndSite site) => site.Address.SocketPath is { } path
        ? $"type: unix, port: {Quote(path)}"
        : string.Create(System.Globalization.CultureInfo.InvariantCulture, $"host: {Quote(site.Address.Host)}, port: {site.Address.Port}");

    // Between double quotes '\' and '"' are special.
    private static string Quote(string text) =>
        "\"" + text.Replace("\\", "\\\\", StringComparison.Ordinal).Replace("\"", "\\\"", StringComparison.Ordinal) + "\"";
}
