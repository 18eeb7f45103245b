// `millrace config FRONT-END ADDRESS`: prints a web server's side of the connection. Writes nothing but its standard output.

using System.CommandLine;
using System.Net.Sockets;
using Millrace.Command.FrontEnds;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;

namespace Millrace.Command.Verbs;

internal static class ConfigVerb
{
    private static readonly Help s_help = new(
        Examples:
        [
            ("millrace config nginx 'fastcgi://unix:/run/app.sock' > /etc/nginx/conf.d/app.conf", "the whole of what nginx needs"),
            ("millrace config nginx /etc/millrace/millrace.json", "a site for each shared address, each pool, and each application with an address of its own, of a file"),
            ("millrace config nginx fastcgi://127.0.0.1:9000 --host shop.example.org --path /shop", "a site of its own, the application below /shop"),
            ("millrace config nginx 'fastcgi://*:9000?allow=10.0.0.5'", "the address as the application has it: on the same machine it is 127.0.0.1"),
        ],
        ExitCodes: [(ExitCode.Success, "printed"), (ExitCode.Usage, "the command line is wrong, or the web server is not supported")]);

    public static System.CommandLine.Command Create(CommandConsole console)
    {
        var frontEnd = new Argument<string>("FRONT-END") { Description = "The web server: " + string.Join(", ", FrontEnd.All.Select(f => $"{f.Name} ({f.Description})")) };
        frontEnd.CompletionSources.Add([.. FrontEnd.All.Select(static its => its.Name)]);
        var address = new Argument<string>("ADDRESS") { Description = "Where the application listens, e.g. fastcgi://unix:/run/app.sock, or the file of `millrace serve`" };
        var host = new Option<string>("--host") { Description = "Host name of the site (several: separated by spaces)", HelpName = "NAME", DefaultValueFactory = _ => FrontEndSite.DefaultHostNames };
        var path = new Option<string>("--path") { Description = "Serve the application below this path only", HelpName = "PREFIX", DefaultValueFactory = _ => "/" };
        var command = new System.CommandLine.Command("config", "Print the matching configuration of a web server, ready to paste.") { frontEnd, address, host, path };
        command.SetAction(result =>
        {
            var chosen = Find(result.GetRequiredValue(frontEnd));
            if (IsFile(result.GetRequiredValue(address)))
            {
                if (result.GetResult(host) is { Implicit: false } || result.GetResult(path) is { Implicit: false })
                {
                    throw CommandFailure.Usage("--host and --path are for one address; a file says by itself which hosts lead where.");
                }
                console.Output.Write(FileSites.Configure(chosen, ServeFileSource.Read(ServeFileSource.Find(result.GetRequiredValue(address)))));
                return ExitCode.Success;
            }
            if (!result.GetRequiredValue(address).Contains("://", StringComparison.Ordinal))
            {
                throw CommandFailure.Usage($"There is no file '{result.GetRequiredValue(address)}'; and an address has a scheme: fastcgi://unix:/run/app.sock, fastcgi://127.0.0.1:9000, or http:// likewise.");
            }
            var where = CheckSocket(ServerAddress.ParseLocal(result.GetRequiredValue(address)));
            var site = new FrontEndSite(where, NameOf(where), CheckHosts(result.GetRequiredValue(host)), CheckPath(result.GetRequiredValue(path)), Socket.OSSupportsIPv6);
            console.Output.Write(chosen.Configure(site));
            return ExitCode.Success;
        });
        return command.WithHelp(s_help);
    }

    // An address has a scheme, and whoever leaves that out is told so.
    private static bool IsFile(string address) => !address.Contains("://", StringComparison.Ordinal) && (File.Exists(address) || Directory.Exists(address));

    internal static FrontEnd Find(string name) =>
        FrontEnd.All.FirstOrDefault(f => string.Equals(f.Name, name, StringComparison.OrdinalIgnoreCase))
        ?? throw CommandFailure.Usage($"There is no configuration for '{name}'. Supported: {string.Join(", ", FrontEnd.All.Select(f => f.Name))}.");

    /// <summary>A name for the upstream and the file, from the socket's file name or the port.</summary>
    internal static string NameOf(ServerAddress address)
    {
        if (address.SocketPath is null)
        {
            return $"app{address.Port}";
        }
        string file = Path.GetFileNameWithoutExtension(address.SocketPath);
        file = file.StartsWith("millrace-", StringComparison.Ordinal) ? file["millrace-".Length..] : file;
        string name = string.Concat(file.ToLowerInvariant().Select(c => char.IsAsciiLetterOrDigit(c) || c is '-' or '_' ? c : '-')).Trim('-');
        return name.Length == 0 ? "app" : name;
    }

    // What no web server's configuration can quote, or not all of them.
    internal static ServerAddress CheckSocket(ServerAddress address) =>
        address.SocketPath?.Any(c => char.IsControl(c) || c == '\\') == true
            ? throw CommandFailure.Usage("The socket path holds a backslash or a control character, which web servers cannot be told. Choose another one.")
            : address;

    // In lower case, as some web servers compare them: names are the same in any (RFC 4343).
    private static string CheckHosts(string names)
    {
        string[] list = names.Split(' ', StringSplitOptions.RemoveEmptyEntries);
        return list.Length == 0 ? throw NoHostName(names)
            : string.Join(' ', list.Select(static name => HostName.TryWriteAsSent(name, out string sent) ? sent : throw NoHostName(name)));
    }

    private static CommandFailure NoHostName(string name) =>
        CommandFailure.Usage($"'{name}' is not a host name. Write one such as shop.example.org, without a port, or *.example.org for all below one.");

    private static string CheckPath(string path)
    {
        if (!path.StartsWith('/') || path.Any(c => char.IsControl(c) || c is ' ' or '"' or '?' or '#' or '\\'))
        {
            throw CommandFailure.Usage($"'{path}' is not a path. It starts with '/' and holds no spaces, quotes, '?' or '#'.");
        }
        return path.TrimEnd('/') is { Length: > 0 } prefix ? prefix : "/";
    }
}
