// Sockets that whoever started this process has opened for it: descriptor 0 (FastCGI 1.0, section 2.2: spawn-fcgi, lighttpd,
// mod_fcgid, systemd with StandardInput=socket) and the descriptors from 3 on that systemd passes (sd_listen_fds(3)).

using System.Globalization;
using Microsoft.Win32.SafeHandles;
using Millrace.Platform;

namespace Millrace.Listeners;

internal static class InheritedListeners
{
    private const int StandardInput = 0;
    private const int FirstPassed = 3; // SD_LISTEN_FDS_START

    // systemd passes FileDescriptorName= of the socket unit; without it the unit's own name, which says nothing of the protocol.
    private const string HttpName = "http";

    /// <summary>
    /// The listening sockets this process was given, none if it was given none. Descriptors named <c>http</c> (FileDescriptorName=http) speak HTTP/1.1,
    /// all others FastCGI. Variables that were used are removed, so that child processes do not take them for theirs.
    /// </summary>
    /// <exception cref="MillraceStartException">A descriptor is not what it was said to be, FCGI_WEB_SERVER_ADDRS is not a list of addresses, or a FastCGI
    /// socket is open to other machines without such a list, or abstract.</exception>
    public static IReadOnlyList<ListenAddress> Find() =>
        Find(
            Environment.GetEnvironmentVariable,
            static name => Environment.SetEnvironmentVariable(name, null),
            Environment.ProcessId,
            StandardInput,
            FirstPassed);

    /// <summary>The same with everything it looks at passed in.</summary>
    internal static IReadOnlyList<ListenAddress> Find(Func<string, string?> read, Action<string> remove, int process, int standardInput, int firstPassed)
    {
        var found = new List<ListenAddress>();
        if (IsConnectionless(standardInput) && TryDescribe(standardInput, ListenProtocol.FastCgi) is ListenAddress first)
        {
            found.Add(first);
        }

        FindPassed(found, read, remove, process, firstPassed);
        if (!found.Exists(static address => address.Protocol == ListenProtocol.FastCgi))
        {
            return found;
        }

        AllowList? allow = ReadWebServerAddresses(read("FCGI_WEB_SERVER_ADDRS"));
        remove("FCGI_WEB_SERVER_ADDRS");
        return [.. found.Select(address => Restrict(address, allow))];
    }

    /// <summary>Takes an inherited descriptor over: non-blocking, close-on-exec, and number 0 to 2 replaced by /dev/null for everyone else.</summary>
    /// <exception cref="MillraceStartException">It is not a listening socket, or one that would let in whoever comes: open to other machines without an allow-list, or abstract without allow=local.</exception>
    public static ListenSocket Open(ListenAddress address)
    {
        int descriptor = address.InheritedDescriptor;
        ListenAddress real = TryDescribe(descriptor, address.Protocol)
            ?? throw new MillraceStartException(string.Create(
                CultureInfo.InvariantCulture,
                $"Descriptor {descriptor} is not a listening stream socket; have it opened by what starts this process (systemd socket unit, spawn-fcgi), or write an address instead of fd:{descriptor}."));
        real = Restrict(real with { Allow = address.Allow, AllowLocal = address.AllowLocal, IsUncounted = address.IsUncounted }, allow: null);
        SocketName name = SocketName.Of(descriptor)!.Value;
        _ = name.Path is null
            ? SystemCalls.SetSocketOption(descriptor, SystemCalls.IPPROTO_TCP, SystemCalls.TCP_NODELAY, 1) == 0
            : PassedDescriptors.Refuse(descriptor);

        return new ListenSocket(TakeOver(descriptor, isStandard: descriptor < FirstPassed), real, name, loop: -1);
    }

    /// <summary>Standard descriptors keep their number, as /dev/null: closed, the next file opened would become somebody's standard input.</summary>
    internal static int TakeOver(int descriptor, bool isStandard)
    {
        int flags = SystemCalls.Fcntl(descriptor, SystemCalls.F_GETFL, 0);
        _ = SystemCalls.Fcntl(descriptor, SystemCalls.F_SETFL, flags | SystemCalls.O_NONBLOCK);
        if (!isStandard)
        {
            _ = SystemCalls.Fcntl(descriptor, SystemCalls.F_SETFD, SystemCalls.FD_CLOEXEC);
            return descriptor;
        }

        int moved = SystemCalls.Fcntl(descriptor, SystemCalls.F_DUPFD_CLOEXEC, FirstPassed);
        if (moved < 0)
        {
            throw new MillraceStartException($"The inherited socket cannot be moved: {SystemCalls.Describe(SystemCalls.Errno)}; raise the limit of open files (ulimit -n).");
        }

        using SafeFileHandle nowhere = File.OpenHandle("/dev/null", FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite);
        _ = SystemCalls.Dup3((int)nowhere.DangerousGetHandle(), descriptor, 0);
        return moved;
    }

    // sd_listen_fds(3): LISTEN_PID is the process they are meant for, LISTEN_FDS how many, LISTEN_FDNAMES their names with ':' between them.
    private static void FindPassed(List<ListenAddress> found, Func<string, string?> read, Action<string> remove, int process, int firstPassed)
    {
        string? count = read("LISTEN_FDS");
        if (count is null || read("LISTEN_PID") != process.ToString(CultureInfo.InvariantCulture))
        {
            return;
        }

        if (!ushort.TryParse(count, NumberStyles.None, CultureInfo.InvariantCulture, out ushort passed))
        {
            throw new MillraceStartException($"LISTEN_FDS is '{count}', which is not a number of descriptors; let systemd set it, or remove it.");
        }

        string[] names = (read("LISTEN_FDNAMES") ?? string.Empty).Split(':');
        for (int i = 0; i < passed; i++)
        {
            string name = i < names.Length ? names[i] : string.Empty;
            ListenProtocol protocol = string.Equals(name, HttpName, StringComparison.Ordinal) ? ListenProtocol.Http1 : ListenProtocol.FastCgi;
            found.Add(TryDescribe(firstPassed + i, protocol) ?? throw new MillraceStartException(string.Create(
                CultureInfo.InvariantCulture,
                $"Descriptor {firstPassed + i} ({name}), passed by systemd, is not a listening stream socket; use ListenStream= with Accept=no in the socket unit.")));
        }

        remove("LISTEN_FDS");
        remove("LISTEN_PID");
        remove("LISTEN_FDNAMES");
    }

    // FastCGI 1.0, section 2.2: a FastCGI application tells descriptor 0 from a CGI program's by getpeername failing with ENOTCONN.
    private static unsafe bool IsConnectionless(int descriptor)
    {
        byte* buffer = stackalloc byte[SystemCalls.SocketAddressSizeMax];
        uint length = SystemCalls.SocketAddressSizeMax;
        return SystemCalls.GetPeerName(descriptor, buffer, &length) < 0 && SystemCalls.Errno == SystemCalls.ENOTCONN;
    }

    /// <summary>The address of a listening stream socket; null when the descriptor is something else.</summary>
    private static ListenAddress? TryDescribe(int descriptor, ListenProtocol protocol)
    {
        bool isListening = SystemCalls.GetSocketOption(descriptor, SystemCalls.SOL_SOCKET, SystemCalls.SO_ACCEPTCONN) == 1
            && SystemCalls.GetSocketOption(descriptor, SystemCalls.SOL_SOCKET, SystemCalls.SO_TYPE) == SystemCalls.SOCK_STREAM;
        return isListening && SocketName.Of(descriptor) is SocketName name
            ? new ListenAddress
            {
                Protocol = protocol,
                Kind = EndPointKind.Inherited,
                InheritedDescriptor = descriptor,
                Address = name.Address,
                Port = name.Port,
                Path = name.Path,
                IsAbstract = name.IsAbstract,
            }
            : null;
    }

    // FastCGI 1.0, section 3.2: FCGI_WEB_SERVER_ADDRS is a comma-separated list of the web servers' IP addresses, for TCP only.
    private static AllowList? ReadWebServerAddresses(string? text)
    {
        try
        {
            return text is null ? null : AllowList.Parse(text);
        }
        catch (FormatException e)
        {
            throw new MillraceStartException($"FCGI_WEB_SERVER_ADDRS is not a list of addresses: {e.Message}", e);
        }
    }

    internal static ListenAddress Restrict(ListenAddress address, AllowList? allow)
    {
        if (address.AllowLocal && !address.IsAbstract)
        {
            throw new MillraceStartException(string.Create(
                CultureInfo.InvariantCulture,
                $"Descriptor {address.InheritedDescriptor} has allow=local, which is for abstract Unix sockets, and it is none; {(address.Address is null ? "leave it out: the mode of its file says who may connect" : "write the web server's address, such as allow=10.0.0.5")}."));
        }

        if (address.Protocol == ListenProtocol.Http1)
        {
            return address;
        }

        if (address.IsAbstract && !address.AllowLocal)
        {
            throw new MillraceStartException(string.Create(
                CultureInfo.InvariantCulture,
                $"Descriptor {address.InheritedDescriptor} is the abstract Unix socket {address.Path}, which has no file and so no rights: every process of this machine may connect, and whoever can speak FastCGI to it is trusted; pass a socket with a file (systemd: ListenStream=/run/app.sock with SocketMode=0600), or write fastcgi://fd:{address.InheritedDescriptor}?allow=local to let all of them in."));
        }

        if (address.Address is null)
        {
            return address;
        }

        ListenAddress restricted = address with { Allow = address.Allow ?? allow };
        return restricted.IsLocal || restricted.Allow is not null
            ? restricted
            : throw new MillraceStartException(string.Create(
                CultureInfo.InvariantCulture,
                $"Descriptor {address.InheritedDescriptor} listens on {address.Address} port {address.Port}, which other machines can reach, and whoever can speak FastCGI to it is trusted; set FCGI_WEB_SERVER_ADDRS to the web server's address, write fd:{address.InheritedDescriptor}?allow=, or bind it to 127.0.0.1 or a Unix socket."));
    }
}
