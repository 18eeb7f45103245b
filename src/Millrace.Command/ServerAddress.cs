// The address of a running server as a client needs it: scheme and a Unix socket or host and port. What a listener may add
// after '?' (mode, group, allow) is left out. Not the listener's own address type.

using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text.RegularExpressions;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Command;

internal enum ServerScheme
{
    FastCgi,
    Http,
}

/// <param name="Scheme">The protocol spoken at the address.</param>
/// <param name="SocketPath">An absolute path, or null for TCP.</param>
/// <param name="Host">Host name or IP address without brackets; empty for a Unix socket.</param>
/// <param name="Port">In [1, 65535]; 0 for a Unix socket.</param>
internal sealed partial record ServerAddress(ServerScheme Scheme, string? SocketPath, string Host, int Port)
{
    private const string Forms = "Write fastcgi://unix:/run/app.sock, fastcgi://127.0.0.1:9000, or the same with http.";

    /// <summary>host:port as URLs and configuration files write it; IPv6 in brackets.</summary>
    public string HostAndPort
    {
        get
        {
            string host = Host.Contains(':', StringComparison.Ordinal) ? $"[{Host}]" : Host;
            return string.Create(CultureInfo.InvariantCulture, $"{host}:{Port}");
        }
    }

    /// <summary>What a request to this address names as its host: that, as curl does; "localhost" for a Unix socket.</summary>
    public string DefaultHost => SocketPath is not null ? "localhost"
        : Scheme == ServerScheme.Http && Port == 80 ? HostAndPort[..HostAndPort.LastIndexOf(':')] : HostAndPort;

    /// <summary>Reads the address of a listener as another program on the same machine reaches it: "*" is the loopback address.</summary>
    public static ServerAddress ParseLocal(string text) => Parse(EveryAddress().Replace(text, "${scheme}127.0.0.1${port}", 1));

    [GeneratedRegex(@"^(?<scheme>[a-z]+://)(\*|\+|0\.0\.0\.0|\[::\])(?<port>:[0-9]+)", RegexOptions.IgnoreCase | RegexOptions.CultureInvariant | RegexOptions.ExplicitCapture)]
    private static partial Regex EveryAddress();

    public static ServerAddress Parse(string text)
    {
        ServerScheme scheme;
        if (text.StartsWith("fastcgi://", StringComparison.OrdinalIgnoreCase))
        {
            scheme = ServerScheme.FastCgi;
        }
        else if (text.StartsWith("http://", StringComparison.OrdinalIgnoreCase))
        {
            scheme = ServerScheme.Http;
        }
        else
        {
            throw CommandFailure.Usage($"'{text}' is not an address. {Forms}");
        }
        string rest = text[(text.IndexOf("//", StringComparison.Ordinal) + 2)..];
        RefuseWhatOnlyListens(text, rest);
        int query = rest.IndexOf('?', StringComparison.Ordinal);
        rest = query < 0 ? rest : rest[..query];
        return rest.StartsWith("unix:", StringComparison.OrdinalIgnoreCase) ? OfSocket(text, scheme, rest["unix:".Length..]) : OfHost(text, scheme, rest.TrimEnd('/'));
    }

    /// <summary>Connects a stream socket; the caller owns it.</summary>
    public async Task<Socket> ConnectAsync(CancellationToken ct)
    {
        Socket socket;
        EndPoint endPoint;
        if (SocketPath is not null)
        {
            socket = UnixSocket.New();
            endPoint = new UnixDomainSocketEndPoint(SocketPath);
        }
        else
        {
            socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
            endPoint = IPAddress.TryParse(Host, out var address) ? new IPEndPoint(address, Port) : new DnsEndPoint(Host, Port);
        }
        try
        {
            await socket.ConnectAsync(endPoint, ct);
            return socket;
        }
        catch (SocketException error)
        {
            socket.Dispose();
            throw new CommandFailure(ExitCode.CannotConnect, WhyNot(error));
        }
        catch
        {
            socket.Dispose();
            throw;
        }
    }

    public override string ToString()
    {
        string scheme = Scheme == ServerScheme.FastCgi ? "fastcgi" : "http";
        return SocketPath is not null ? $"{scheme}://unix:{SocketPath}" : $"{scheme}://{HostAndPort}";
    }

    // Forms that a listener understands, and that lead a client nowhere, or to several places.
    private static void RefuseWhatOnlyListens(string text, string rest)
    {
        if (rest.Contains(";fastcgi://", StringComparison.OrdinalIgnoreCase) || rest.Contains(";http://", StringComparison.OrdinalIgnoreCase))
        {
            throw CommandFailure.Usage($"'{text}' is a list of addresses. Name one of them.");
        }
        if (rest.StartsWith("fd:", StringComparison.OrdinalIgnoreCase))
        {
            throw CommandFailure.Usage($"'{text}' is a descriptor of the server's own, to which nobody else can connect. Name what it is bound to (ss -lxtp shows it), such as fastcgi://unix:/run/app.sock.");
        }
        if (rest is ['*' or '+', ':', ..] or ['*' or '+'])
        {
            throw CommandFailure.Usage($"'{text}' is every address of the machine that listens. Name the one to connect to, such as 127.0.0.1 on the machine itself.");
        }
    }

    private static ServerAddress OfSocket(string text, ServerScheme scheme, string path)
    {
        if (!path.StartsWith('/'))
        {
            throw CommandFailure.Usage($"'{text}' names a socket without an absolute path. {Forms}");
        }
        // sun_path holds 108 bytes, the last of them NUL (unix(7)).
        if (System.Text.Encoding.UTF8.GetByteCount(path) > 107)
        {
            throw CommandFailure.Usage($"The socket path '{path}' is longer than the 107 bytes the system allows. Choose a shorter one.");
        }
        return new ServerAddress(scheme, path, "", 0);
    }

    private static ServerAddress OfHost(string text, ServerScheme scheme, string authority)
    {
        int colon = authority.LastIndexOf(':');
        bool hasPort = colon >= 0 && !authority.EndsWith(']');
        string host = hasPort ? authority[..colon] : authority;
        int port = 80;
        bool good = hasPort
            ? int.TryParse(authority.AsSpan(colon + 1), NumberStyles.None, CultureInfo.InvariantCulture, out port) && port is >= 1 and <= 65535
            : scheme == ServerScheme.Http;
        if (host.StartsWith('[') && host.EndsWith(']'))
        {
            host = host[1..^1];
            good &= IPAddress.TryParse(host, out var address) && address.AddressFamily == AddressFamily.InterNetworkV6 && host.All(IsInIPv6);
        }
        else
        {
            good &= Uri.CheckHostName(host) is UriHostNameType.Dns or UriHostNameType.IPv4;
        }
        return good ? new ServerAddress(scheme, null, host, port) : throw CommandFailure.Usage($"'{text}' has no valid host and port. {Forms}");
    }

    // IPAddress takes anything for a zone (fe80::1%eth0) that it does not know, quotes and line ends too.
    private static bool IsInIPv6(char c) => char.IsAsciiLetterOrDigit(c) || c is ':' or '.' or '%' or '-' or '_';

    private string WhyNot(SocketException error) => error.SocketErrorCode switch
    {
        SocketError.ConnectionRefused when SocketPath is not null && FileFacts.At(SocketPath, out _) is { IsSocket: false, IsLink: false } => $"{SocketPath} is not a socket. Check the path.",
        SocketError.ConnectionRefused when SocketPath is not null => $"Nothing listens on {SocketPath}: the socket is left over from a server that has ended. Start the server again.",
        SocketError.ConnectionRefused => $"Nothing listens on {HostAndPort}. Start the server, or check the port.",
        SocketError.AddressNotAvailable when SocketPath is not null => $"There is no socket {SocketPath}. Start the server, or check the path.",
        SocketError.WouldBlock when SocketPath is not null => $"The queue of {SocketPath} is full: the server accepts no connections, or fewer than come. Look at the server.",
        SocketError.AccessDenied => $"You may not open {SocketPath ?? HostAndPort}. Run as a member of the socket's group, or give the listener ?mode=660&group=YOURS.",
        SocketError.HostNotFound or SocketError.TryAgain or SocketError.NoData => $"The host name {Host} is not known. Check its spelling.",
        _ => $"Cannot connect to {this}: {error.Message}.",
    };
}
