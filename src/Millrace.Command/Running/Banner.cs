// What `run` prints once the app listens: the addresses, what is to be known of them where nobody named any, and the nginx
// block that leads to the first FastCGI one.

using System.Net;
using System.Text;
using Millrace.Command.FrontEnds;
using Millrace.Command.Terminals;

namespace Millrace.Command.Running;

internal static class Banner
{
    /// <param name="console">Where to print.</param>
    /// <param name="command">How the user calls `millrace`.</param>
    /// <param name="name">The app's short name.</param>
    /// <param name="addresses">As reported by the app.</param>
    /// <param name="chosen">The addresses as they were chosen, or null where somebody named them.</param>
    /// <param name="hasIPv6">Whether the machine has IPv6.</param>
    public static void Print(CommandConsole console, string command, string name, IReadOnlyList<string> addresses, ChosenAddresses? chosen, bool hasIPv6)
    {
        var text = new StringBuilder();
        text.AppendLine($"{name} listens on {console.Bold(string.Join(" and ", addresses.Select(WithoutQuery)))}");
        if (chosen?.HttpNotice is { } notice && !addresses.Any(static address => address.StartsWith("http://", StringComparison.OrdinalIgnoreCase)))
        {
            text.AppendLine(notice);
        }
        if (FirstFastCgi(addresses) is { } address)
        {
            text.AppendLine($"Try it: {command} get {address} /");
            if (chosen is { IsPrivate: true })
            {
                text.AppendLine("The socket is private to you. For a web server that runs as another user: join its group (usermod -aG www-data YOU), or use --urls fastcgi://127.0.0.1:9000, which every user of this machine may open");
            }
            else if (chosen is null && address.SocketPath is not null && !addresses.Any(static one => one.StartsWith("fastcgi://unix:", StringComparison.OrdinalIgnoreCase) && one.Contains('?', StringComparison.Ordinal)))
            {
                text.AppendLine("The socket is open to you and your group. For a web server that runs as another user, say which group may open it: '?mode=660&group=www-data' behind the address");
            }
            var site = new FrontEndSite(address, name, FrontEndSite.DefaultHostNames, "/", hasIPv6);
            text.AppendLine().AppendLine(console.Dim(new Nginx().Configure(site).TrimEnd('\n'))).AppendLine();
        }

        // One write of bytes, so that the app's log does not get in between: a TextWriter would write it piece by piece.
        console.RawOutput.Write(Encoding.UTF8.GetBytes(text.ToString()));
        console.RawOutput.Flush();
    }

    private static ServerAddress? FirstFastCgi(IReadOnlyList<string> addresses)
    {
        string? first = addresses.FirstOrDefault(a => a.StartsWith("fastcgi://", StringComparison.OrdinalIgnoreCase));
        try
        {
            return first is not null && ServerAddress.Parse(first) is var address && !IsEvery(address.Host) ? address : null;
        }
        catch (CommandFailure)
        {
            return null; // an inherited descriptor, for one, has no address to connect to
        }
    }

    // Every address of the machine is none to connect to.
    private static bool IsEvery(string host) => IPAddress.TryParse(host, out IPAddress? address) && (address.Equals(IPAddress.Any) || address.Equals(IPAddress.IPv6Any));

    private static string WithoutQuery(string address) => address.Split('?')[0];
}
