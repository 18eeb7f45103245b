// Reads the text of one listen address. Every refusal is one sentence: what is wrong, and what to write instead.
//
// address  = scheme "://" ( tcp / unix / fd ) [ "?" option *( "&" option ) ]
// scheme   = "fastcgi" / "http"
// tcp      = ( IPv4 / "[" IPv6 "]" / "localhost" / "*" / "+" ) ":" port [ "/" ]      options: allow
// unix     = "unix:" absolute-path                                                  options: mode, group, owner
// fd       = "fd:" number                                                           options: allow (a list, or "local")
//                                                                                   and gate ("off") of any

using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Millrace.Listeners;

internal static class ListenAddressParser
{
    /// <summary>sun_path has 108 bytes, the last of them NUL (unix(7)).</summary>
    public const int PathBytesMax = 107;

    /// <summary>In place of a list: whoever can connect to an abstract socket.</summary>
    public const string LocalPeers = "local";

    /// <summary>What <c>gate=</c> may say.</summary>
    public const string GateOff = "off";

    private const int HttpDefaultPort = 80;

    public static ListenAddress Parse(string text)
    {
        string address = text.Trim();
        ListenProtocol protocol = ReadScheme(address, out string rest);
        int question = rest.IndexOf('?', StringComparison.Ordinal);
        string place = question < 0 ? rest : rest[..question];
        string query = question < 0 ? string.Empty : rest[(question + 1)..];

        ListenAddress parsed = place switch
        {
            _ when place.StartsWith("unix:", StringComparison.OrdinalIgnoreCase) => ReadUnix(address, protocol, place[5..]),
            _ when place.StartsWith("fd:", StringComparison.OrdinalIgnoreCase) => ReadDescriptor(address, protocol, place[3..]),
            _ => ReadTcp(address, protocol, place),
        };
        parsed = ReadOptions(address, parsed, query);
        return RequireAllowList(address, parsed);
    }

    private static ListenProtocol ReadScheme(string address, out string rest)
    {
        int end = address.IndexOf("://", StringComparison.Ordinal);
        if (end <= 0)
        {
            throw Bad(address, "has no scheme; write fastcgi:// or http:// in front of it, such as fastcgi://127.0.0.1:9000");
        }

        rest = address[(end + 3)..];
        return address[..end].ToLowerInvariant() switch
        {
            "fastcgi" => ListenProtocol.FastCgi,
            "http" => ListenProtocol.Http1,
            "https" => throw Bad(
                address,
                "asks for TLS, which Millrace leaves to the web server in front; let that server hold the certificate and forward to a fastcgi:// or http:// address, or serve this address with Kestrel"),
            string other => throw Bad(address, $"has the unknown scheme '{other}'; fastcgi:// and http:// are known"),
        };
    }

    private static ListenAddress ReadUnix(string address, ListenProtocol protocol, string path)
    {
        if (path.StartsWith('@'))
        {
            throw Bad(address, $"names an abstract socket, which has no file and so no rights: every process of this machine may connect; name a file, such as {SchemeOf(protocol)}://unix:/run/app.sock");
        }

        if (!path.StartsWith('/'))
        {
            throw Bad(address, $"needs an absolute path after unix:, such as {SchemeOf(protocol)}://unix:/run/app.sock");
        }

        if (path.EndsWith('/'))
        {
            throw Bad(address, $"names a directory; add the name of the socket file, such as {path}app.sock");
        }

        if (path.Contains('\0', StringComparison.Ordinal))
        {
            throw Bad(address, "has a NUL character in its path; leave it out");
        }

        int bytes = Encoding.UTF8.GetByteCount(path);
        return bytes <= PathBytesMax
            ? new ListenAddress { Protocol = protocol, Kind = EndPointKind.Unix, Path = path }
            : throw Bad(address, $"has a path of {bytes} bytes, and the kernel takes at most {PathBytesMax} for a socket; choose a shorter one, such as /run/app.sock");
    }

    private static ListenAddress ReadDescriptor(string address, ListenProtocol protocol, string number) =>
        int.TryParse(number, NumberStyles.None, CultureInfo.InvariantCulture, out int descriptor)
            ? new ListenAddress { Protocol = protocol, Kind = EndPointKind.Inherited, InheritedDescriptor = descriptor }
            : throw Bad(address, $"needs the number of an inherited descriptor after fd:, such as {SchemeOf(protocol)}://fd:3");

    private static ListenAddress ReadTcp(string address, ListenProtocol protocol, string place)
    {
        string authority = place.EndsWith('/') ? place[..^1] : place;
        if (authority.Contains('/', StringComparison.Ordinal))
        {
            throw Bad(address, "has a path; leave it out here, and set it in the application (UsePathBase) or in the web server");
        }

        SplitPort(address, authority, out string host, out string? port);
        var parsed = new ListenAddress { Protocol = protocol, Kind = EndPointKind.Tcp, Port = ReadPort(address, protocol, host, port) };
        if (host is "*" or "+")
        {
            return parsed with { AnyHost = true };
        }

        return string.Equals(host, "localhost", StringComparison.OrdinalIgnoreCase)
            ? parsed with { Localhost = true }
            : parsed with { Address = ReadHost(address, host) };
    }

    private static void SplitPort(string address, string authority, out string host, out string? port)
    {
        int hostEnd = authority.StartsWith('[') ? authority.IndexOf(']', StringComparison.Ordinal) + 1 : authority.IndexOf(':', StringComparison.Ordinal);
        if (authority.StartsWith('[') ? hostEnd == 0 : hostEnd != authority.LastIndexOf(':'))
        {
            throw Bad(address, "has an IPv6 address without its brackets; write it as [::1]:9000");
        }

        hostEnd = hostEnd < 0 ? authority.Length : hostEnd;
        host = authority[..hostEnd];
        port = hostEnd == authority.Length ? null
            : authority[hostEnd] == ':' ? authority[(hostEnd + 1)..]
            : throw Bad(address, "has something other than ':' and a port after the ']'; write it as [::1]:9000");
    }

    private static int ReadPort(string address, ListenProtocol protocol, string host, string? port)
    {
        if (string.IsNullOrEmpty(port))
        {
            return protocol == ListenProtocol.Http1 && port is null
                ? HttpDefaultPort
                : throw Bad(address, $"has no port; write {SchemeOf(protocol)}://{(host.Length == 0 ? "127.0.0.1" : host)}:9000, or port 0 for any free one");
        }

        return ushort.TryParse(port, NumberStyles.None, CultureInfo.InvariantCulture, out ushort number)
            ? number
            : throw Bad(address, $"has the port '{port}'; write a number from 0 (any free port) to 65535");
    }

    private static IPAddress ReadHost(string address, string host)
    {
        bool isBracketed = host.StartsWith('[');
        if (!IPAddress.TryParse(host, out IPAddress? parsed)
            || isBracketed != (parsed.AddressFamily == AddressFamily.InterNetworkV6)
            || (!isBracketed && !string.Equals(parsed.ToString(), host, StringComparison.Ordinal)))
        {
            // Taking a name to mean "every address", as other servers do, would open more than was asked for.
            throw Bad(address, $"has the host '{host}'; write an IP address, localhost, or * for every address of this machine");
        }

        return parsed.IsIPv4MappedToIPv6 ? parsed.MapToIPv4() : parsed;
    }

    private static ListenAddress ReadOptions(string address, ListenAddress parsed, string query)
    {
        var seen = new HashSet<string>(StringComparer.Ordinal);
        foreach (string option in query.Split('&', StringSplitOptions.RemoveEmptyEntries))
        {
            int equals = option.IndexOf('=', StringComparison.Ordinal);
            string name = equals < 0 ? option : option[..equals];
            string value = equals < 0 ? string.Empty : Uri.UnescapeDataString(option[(equals + 1)..]);
            if (!seen.Add(name))
            {
                throw Bad(address, $"has the option '{name}' twice; keep one of them");
            }

            parsed = ReadOption(address, parsed, name, value);
        }

        return parsed;
    }

    private static ListenAddress ReadOption(string address, ListenAddress parsed, string name, string value) => (parsed.Kind, name) switch
    {
        (_, "gate") => value == GateOff ? parsed with { IsUncounted = true } : throw Bad(address, $"has gate={value}; the one thing to write is gate=off, for requests that do not count for MaxConcurrentRequests"),
        (EndPointKind.Unix, "mode") => parsed with { Mode = ReadMode(address, value) },
        (EndPointKind.Unix, "group") => parsed with { Group = ReadName(address, name, value) },
        (EndPointKind.Unix, "owner") => parsed with { Owner = ReadName(address, name, value) },
        (EndPointKind.Unix, "allow") => throw Bad(address, "has allow=, which is for TCP; who may use a Unix socket is set with mode=, group= and owner="),
        (EndPointKind.Unix, _) => throw Bad(address, $"has the unknown option '{name}'; a Unix socket knows mode, group, owner and gate"),
        (EndPointKind.Inherited, "allow") when value == LocalPeers => parsed with { AllowLocal = true },
        (_, "allow") => parsed with { Allow = ReadAllow(address, value) },
        (_, "mode" or "group" or "owner") => throw Bad(address, $"has {name}=, which is for Unix sockets made here; who may connect is set with allow= in this case"),
        _ => throw Bad(address, $"has the unknown option '{name}'; the known ones are allow and gate"),
    };

    private static UnixFileMode ReadMode(string address, string value)
    {
        bool isOctal = value.Length is 3 or 4 && value.AsSpan().IndexOfAnyExceptInRange('0', '7') < 0 && (value.Length == 3 || value[0] == '0');
        return isOctal
            ? (UnixFileMode)Convert.ToInt32(value, 8)
            : throw Bad(address, $"has mode={value}; write three octal digits, such as mode=660");
    }

    private static string ReadName(string address, string option, string value) =>
        value.Length > 0 && !value.Contains('\0', StringComparison.Ordinal)
            ? value
            : throw Bad(address, $"has {option}= without a name; write for example {option}=www-data");

    private static AllowList ReadAllow(string address, string value)
    {
        try
        {
            return AllowList.Parse(value);
        }
        catch (FormatException e)
        {
            throw new FormatException($"The address '{address}' has a bad allow-list: {e.Message}", e);
        }
    }

    // FastCGI has no authentication: whoever can connect sets REMOTE_USER, HTTPS and every other variable.
    private static ListenAddress RequireAllowList(string address, ListenAddress parsed) =>
        parsed.Protocol == ListenProtocol.Http1 || parsed.Kind != EndPointKind.Tcp || parsed.IsLocal || parsed.Allow is not null
            ? parsed
            : throw Bad(
                address,
                "can be reached from other machines, and whoever can speak FastCGI to it is trusted; add the web server's address as ?allow=10.0.0.5 (ranges such as 10.0.0.0/8 and several with commas), or listen on 127.0.0.1 or a Unix socket");

    private static string SchemeOf(ListenProtocol protocol) => protocol == ListenProtocol.FastCgi ? "fastcgi" : "http";

    private static FormatException Bad(string address, string sentence) => new($"The address '{address}' {sentence}.");
}
