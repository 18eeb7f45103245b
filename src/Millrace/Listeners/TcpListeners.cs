// TCP: one socket per loop on the same port, so that the kernel spreads connections and no loop waits for another.
//
// SO_REUSEPORT alone would let two servers of the same user share a port without noticing. So the first socket binds and
// listens without it, which fails when anyone is there; only then is it set, on that socket and on the ones that join it.
//
// Where that cannot be done (gVisor decides at bind), the first socket stays alone, and all loops wait on it as on a Unix socket.

using System.Globalization;
using System.Net;
using System.Net.Sockets;
using Millrace.Platform;

namespace Millrace.Listeners;

internal static unsafe class TcpListeners
{
    // localhost with port 0: a port that is free on 127.0.0.1 may be taken on ::1.
    private const int FreePortTriesMax = 16;

    /// <summary>Sets SO_REUSEPORT on a socket; false with the error number set where that is not possible.</summary>
    internal delegate bool Share(int descriptor);

    /// <param name="address">Where.</param>
    /// <param name="loops">How many sockets there are to be on each end point.</param>
    /// <param name="backlog">See <see cref="ListenSockets.DefaultBacklog"/>.</param>
    /// <param name="share">SO_REUSEPORT unless a test has another kernel.</param>
    public static IReadOnlyList<ListenSocket> Open(ListenAddress address, int loops, int backlog, Share? share = null)
    {
        var group = new Group(address, loops, backlog, share ?? SetReusePort);
        try
        {
            if (address.Localhost)
            {
                OpenLocalhost(group, address.Port);
            }
            else if (address.AnyHost)
            {
                OpenAny(group, address.Port);
            }
            else
            {
                ThrowIfFailed(group, address.Address!, address.Port, group.TryOpen(address.Address!, address.Port, out _));
            }

            return group.Sockets;
        }
        catch
        {
            group.CloseAll();
            throw;
        }
    }

    private static void OpenLocalhost(Group group, int asked)
    {
        for (int attempt = 1; ; attempt++)
        {
            ThrowIfFailed(group, IPAddress.Loopback, asked, group.TryOpen(IPAddress.Loopback, asked, out int port));
            int errno = group.TryOpen(IPAddress.IPv6Loopback, port, out _);
            if (errno == 0 || IsWithoutIPv6(errno))
            {
                return;
            }

            if (errno != SystemCalls.EADDRINUSE || asked != 0 || attempt == FreePortTriesMax)
            {
                ThrowIfFailed(group, IPAddress.IPv6Loopback, port, errno);
            }

            group.CloseAll();
        }
    }

    private static void OpenAny(Group group, int port)
    {
        int errno = group.TryOpen(IPAddress.IPv6Any, port, out _);
        if (IsWithoutIPv6(errno))
        {
            ThrowIfFailed(group, IPAddress.Any, port, group.TryOpen(IPAddress.Any, port, out _));
            return;
        }

        ThrowIfFailed(group, IPAddress.IPv6Any, port, errno);
    }

    private static bool SetReusePort(int descriptor) =>
        SystemCalls.SetSocketOption(descriptor, SystemCalls.SOL_SOCKET, SystemCalls.SO_REUSEPORT, 1) == 0;

    private static bool IsWithoutIPv6(int errno) => errno is SystemCalls.EAFNOSUPPORT or SystemCalls.EADDRNOTAVAIL;

    private static void ThrowIfFailed(Group group, IPAddress address, int port, int errno)
    {
        if (errno != 0)
        {
            string reason = Explain(group.Asked, new IPEndPoint(address, port), errno);
            throw errno == SystemCalls.EADDRINUSE ? MillraceStartException.InUse(reason) : new MillraceStartException(reason);
        }
    }

    private static string Explain(ListenAddress asked, IPEndPoint place, int errno) => errno switch
    {
        SystemCalls.EADDRINUSE when SocketOwner.OfPort(place.Address, place.Port) is string owner => owner == SocketOwner.Self
            ? $"{place} is in use by this process already: the address is given twice, or another server of this process has it; leave one out or choose another port."
            : $"{place} is in use by {owner}; stop it or choose another port.",
        SystemCalls.EADDRINUSE =>
            string.Create(CultureInfo.InvariantCulture, $"{place} is in use by a process this user cannot see (root can: ss -ltnp 'sport = :{place.Port}'); stop it or choose another port."),
        SystemCalls.EADDRNOTAVAIL =>
            $"{place.Address} is not an address of this machine (ip address lists them); choose one of those, or * for all of them.",
        SystemCalls.EACCES =>
            string.Create(CultureInfo.InvariantCulture, $"Port {place.Port} needs a right this process lacks; choose a port above 1023, or give it CAP_NET_BIND_SERVICE (systemd: AmbientCapabilities=CAP_NET_BIND_SERVICE)."),
        SystemCalls.EAFNOSUPPORT =>
            $"This machine has no IPv6, so {asked.Url} cannot be opened; use an IPv4 address.",
        SystemCalls.EMFILE =>
            $"No descriptor is left for {asked.Url}; raise the limit of open files (ulimit -n, or LimitNOFILE= with systemd).",
        _ => $"{asked.Url} cannot be opened: {SystemCalls.Describe(errno)} at {place}.",
    };

    /// <summary>The sockets of one address, in the making.</summary>
    private sealed class Group(ListenAddress asked, int loops, int backlog, Share share)
    {
        private readonly List<ListenSocket> _sockets = [];

        public ListenAddress Asked => asked;

        public IReadOnlyList<ListenSocket> Sockets => _sockets;

        /// <summary>
        /// Opens one socket per loop on this end point, or one for all of them where they cannot share it. Answers 0, or the error number of what
        /// failed; what was opened stays in the list.
        /// </summary>
        public int TryOpen(IPAddress address, int askedPort, out int port)
        {
            port = askedPort;
            int errno = OpenOne(address, ref port, isFirst: true, out int first);
            if (errno != 0)
            {
                return errno;
            }

            List<int> joined = [];
            bool isShared = loops > 1 && !share(first);
            while (!isShared && errno == 0 && joined.Count < loops - 1)
            {
                errno = OpenOne(address, ref port, isFirst: false, out int next);
                if (errno == 0)
                {
                    joined.Add(next);
                }
                else if (CannotShare(errno))
                {
                    (isShared, errno) = (true, 0);
                }
            }

            if (isShared)
            {
                joined.ForEach(static descriptor => _ = SystemCalls.Close(descriptor));
                joined.Clear();
            }

            Add(first, address, port, isShared ? -1 : 0);
            for (int i = 0; i < joined.Count; i++)
            {
                Add(joined[i], address, port, i + 1);
            }

            return errno;
        }

        public void CloseAll()
        {
            _sockets.ForEach(static socket => socket.Dispose());
            _sockets.Clear();
        }

        // Running out of descriptors or memory is no reason to do with less: it would come again with the first connections.
        private static bool CannotShare(int errno) => errno is SystemCalls.EADDRINUSE or SystemCalls.EINVAL or SystemCalls.ENOPROTOOPT
            or SystemCalls.EOPNOTSUPP or SystemCalls.ENOSYS or SystemCalls.EPERM;

        private void Add(int descriptor, IPAddress address, int port, int loop) => _sockets.Add(new ListenSocket(
            descriptor, asked with { Port = port, Address = asked.AnyHost ? address : asked.Address }, SocketName.Of(descriptor)!.Value, loop));

        private int OpenOne(IPAddress address, ref int port, bool isFirst, out int descriptor)
        {
            bool isIPv6 = address.AddressFamily == AddressFamily.InterNetworkV6;
            int family = isIPv6 ? SystemCalls.AF_INET6 : SystemCalls.AF_INET;
            descriptor = SystemCalls.Socket(family, SystemCalls.SOCK_STREAM | SystemCalls.SOCK_NONBLOCK | SystemCalls.SOCK_CLOEXEC, 0);
            if (descriptor < 0)
            {
                return SystemCalls.Errno;
            }

            int errno = Listen(descriptor, address, port, isIPv6, isFirst);
            if (errno != 0)
            {
                _ = SystemCalls.Close(descriptor);
                return errno;
            }

            port = SocketName.Of(descriptor)!.Value.Port;
            return 0;
        }

        private int Listen(int descriptor, IPAddress address, int port, bool isIPv6, bool isFirst)
        {
            // SO_REUSEADDR: a restart must not wait for TIME_WAIT. It lets nobody bind beside a socket that listens.
            int any = isIPv6 && address.Equals(IPAddress.IPv6Any) ? 0 : 1;
            if (SystemCalls.SetSocketOption(descriptor, SystemCalls.SOL_SOCKET, SystemCalls.SO_REUSEADDR, 1) < 0
                || SystemCalls.SetSocketOption(descriptor, SystemCalls.IPPROTO_TCP, SystemCalls.TCP_NODELAY, 1) < 0
                || (isIPv6 && SystemCalls.SetSocketOption(descriptor, SystemCalls.IPPROTO_IPV6, SystemCalls.IPV6_V6ONLY, any) < 0)
                || (!isFirst && !share(descriptor)))
            {
                return SystemCalls.Errno;
            }

            byte[] place = SocketName.Write(address, port);
            fixed (byte* bytes = place)
            {
                return SystemCalls.Bind(descriptor, bytes, (uint)place.Length) < 0 || SystemCalls.Listen(descriptor, backlog) < 0 ? SystemCalls.Errno : 0;
            }
        }
    }
}
