// One address to listen on, as text and as values. Knows what may be written, nothing about whether the machine can do it:
// no socket, no look at the file system, no lookup of names. Reading the text is ListenAddressParser's part.

using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Millrace.Listeners;

internal enum ListenProtocol
{
    FastCgi,
    Http1,
}

internal enum EndPointKind
{
    /// <summary>An address and a port.</summary>
    Tcp,

    /// <summary>A path in the file system.</summary>
    Unix,

    /// <summary>A descriptor that is already listening, made by whoever started this process.</summary>
    Inherited,
}

/// <summary>A parsed address; immutable. <see cref="ToString"/> gives text that <see cref="Parse"/> reads back.</summary>
internal sealed record ListenAddress
{
    /// <summary>Who may connect to a Unix socket unless <c>?mode=</c> says otherwise: its owner and its group.</summary>
    public const UnixFileMode DefaultMode =
        UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.GroupRead | UnixFileMode.GroupWrite;

    public ListenProtocol Protocol { get; init; }

    public EndPointKind Kind { get; init; }

    /// <summary>
    /// Null for <see cref="Localhost"/> and Unix sockets. Of an inherited descriptor known once it was looked at, of <see cref="AnyHost"/> once it is open:
    /// that of IPv6, or of IPv4 where the machine has no other.
    /// </summary>
    public IPAddress? Address { get; init; }

    /// <summary>In [0, 65535]; 0 asks for a free port, and the opened socket's address has the chosen one.</summary>
    public int Port { get; init; }

    /// <summary>Written <c>*</c> or <c>+</c>: every address of the machine, IPv6 and IPv4.</summary>
    public bool AnyHost { get; init; }

    /// <summary>Written <c>localhost</c>: 127.0.0.1 and ::1.</summary>
    public bool Localhost { get; init; }

    /// <summary>Absolute, at most 107 bytes in UTF-8. Of an inherited descriptor what it is bound to, abstract names with '@' in front.</summary>
    public string? Path { get; init; }

    /// <summary>An inherited Unix socket without a file, known once it was looked at: every process of the machine may connect.</summary>
    public bool IsAbstract { get; init; }

    public UnixFileMode Mode { get; init; } = DefaultMode;

    /// <summary>Name or number of the group that owns the socket file; null leaves the process's own.</summary>
    public string? Group { get; init; }

    /// <summary>Name or number of the user that owns the socket file; null leaves the process's own.</summary>
    public string? Owner { get; init; }

    /// <summary>The peers that may connect over TCP; null is everyone.</summary>
    public AllowList? Allow { get; init; }

    /// <summary>Written <c>allow=local</c>: every process of the machine may connect to an inherited abstract socket.</summary>
    public bool AllowLocal { get; init; }

    /// <summary>Written <c>gate=off</c>: what comes by this address does not count for MaxConcurrentRequests, and waits for no place, and its connections are taken beyond MaxConnections and ReservedDescriptors. For whoever asks how the application is.</summary>
    public bool IsUncounted { get; init; }

    /// <summary>The descriptor of <see cref="EndPointKind.Inherited"/>, otherwise -1.</summary>
    public int InheritedDescriptor { get; init; } = -1;

    /// <summary>True when only this machine can reach it: a Unix socket, or TCP on a loopback address.</summary>
    public bool IsLocal => Localhost || (!AnyHost && (Address is null || IPAddress.IsLoopback(Address)));

    /// <summary>True for TCP, known of an inherited descriptor once it was looked at.</summary>
    public bool IsTcp => Kind == EndPointKind.Tcp || (Kind == EndPointKind.Inherited && Address is not null);

    /// <summary>The address without its options, as a client would write it: <c>fastcgi://unix:/run/app.sock</c>.</summary>
    public string Url => Kind switch
    {
        EndPointKind.Unix => $"{Scheme}://unix:{Path}",
        EndPointKind.Inherited => string.Create(CultureInfo.InvariantCulture, $"{Scheme}://fd:{InheritedDescriptor}"),
        _ => string.Create(CultureInfo.InvariantCulture, $"{Scheme}://{Host}:{Port}"),
    };

    /// <summary>
    /// <see cref="Url"/> as an application is told of it that knows Kestrel: every address of the machine is <c>http://[::]:5000</c>, which
    /// <see cref="Uri"/> reads, unlike <c>http://*:5000</c>.
    /// </summary>
    public string UrlAsOnKestrel => AnyHost && Address is not null ? (this with { AnyHost = false }).Url : Url;

    private string Scheme => Protocol == ListenProtocol.FastCgi ? "fastcgi" : "http";

    private string Host => AnyHost ? "*"
        : Localhost ? "localhost"
        : Address!.AddressFamily == AddressFamily.InterNetworkV6 ? $"[{Address}]"
        : Address.ToString();

    /// <exception cref="FormatException">The text is not an address Millrace listens on; the message says what to write instead.</exception>
    public static ListenAddress Parse(string address) => ListenAddressParser.Parse(address);

    /// <summary>Addresses with <c>;</c> between them, as in ASPNETCORE_URLS.</summary>
    /// <exception cref="FormatException">One of them cannot be read, or there is none.</exception>
    public static IReadOnlyList<ListenAddress> ParseList(string addresses)
    {
        ListenAddress[] list =
        [
            .. addresses.Split(';', StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries).Select(ListenAddressParser.Parse),
        ];
        return list.Length > 0
            ? list
            : throw new FormatException("There is no address to listen on; write one such as fastcgi://unix:/run/app.sock or http://127.0.0.1:5000.");
    }

    /// <summary>The canonical form: options in a fixed order, defaults left out.</summary>
    public override string ToString()
    {
        var text = new StringBuilder(Url);
        char separator = '?';
        Append("mode", Mode == DefaultMode ? null : Convert.ToString((int)Mode, 8).PadLeft(3, '0'));
        Append("owner", Owner);
        Append("group", Group);
        Append("allow", AllowLocal ? ListenAddressParser.LocalPeers : Allow?.ToString());
        Append("gate", IsUncounted ? ListenAddressParser.GateOff : null);
        return text.ToString();

        void Append(string name, string? value)
        {
            if (value is not null)
            {
                text.Append(separator).Append(name).Append('=').Append(value.Replace("%", "%25", StringComparison.Ordinal).Replace("&", "%26", StringComparison.Ordinal));
                separator = '&';
            }
        }
    }
}
