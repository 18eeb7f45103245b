// What the daemon listens on for an application: opened once, inherited by every process of it, closed when the application is stopped. As
// long as one of them is open nobody is refused: who connects while no process accepts waits in its queue. The channel between its generations
// lives as long.

using System.Globalization;
using Millrace.Command.Running;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal sealed unsafe class AppListeners : IDisposable
{
    private readonly List<ListenSocket> _sockets = [];

    private readonly int _gives;
    private readonly int _takes;

    private const int DescriptorsEach = 8;

    private AppListeners()
    {
        int* pair = stackalloc int[2];
        if (SystemCalls.SocketPair(SystemCalls.AF_UNIX, SystemCalls.SOCK_SEQPACKET | SystemCalls.SOCK_CLOEXEC | SystemCalls.SOCK_NONBLOCK, 0, pair) < 0)
        {
            throw new MillraceStartException($"A channel between processes cannot be made: {SystemCalls.Describe(SystemCalls.Errno)}; raise the limit of open files (ulimit -n).");
        }
        (_gives, _takes) = (pair[0], pair[1]);
    }

    /// <summary>The ends of the channel through which connections move from one generation to the next. Open here as well: what is on its way is lost with no process.</summary>
    public string MoveDescriptors => string.Create(CultureInfo.InvariantCulture, $"{_gives},{_takes}");

    /// <summary>As they were asked for, with real ports and without what only concerns the listener.</summary>
    public IReadOnlyList<string> Shown => [.. _sockets.Select(static socket => socket.Address.Url).Distinct()];

    /// <summary>Those that are listened on.</summary>
    public IEnumerable<int> Listening => _sockets.Select(static socket => socket.Descriptor);

    /// <summary>The end of the channel at which connections are given.</summary>
    public int Gives => _gives;

    /// <summary>That at which they are taken.</summary>
    public int Takes => _takes;

    /// <summary>The descriptors, for whoever inherits them.</summary>
    public IEnumerable<int> Descriptors => [.. _sockets.Select(static socket => socket.Descriptor), _gives, _takes];

    /// <summary>Addresses of the descriptors, for whoever inherits them, separated by ';'.</summary>
    public string InheritedUrls => string.Join(';', _sockets.Select(static socket => Inherited(socket.Address, socket.Descriptor)));

    /// <param name="settings">Whose.</param>
    /// <param name="folders">Where the daemon makes its own.</param>
    /// <param name="which">Which of them; null: all.</param>
    /// <exception cref="MillraceStartException">One of them cannot be listened on; none is open then.</exception>
    /// <exception cref="CommandFailure">The folder of shared sockets cannot be made.</exception>
    public static AppListeners Open(AppSettings settings, DaemonFolders folders, Func<string, bool>? which = null)
    {
        if (settings.SharedUrls.Count > 0)
        {
            _ = folders.Shared;
        }
        return Headroom.Open(DescriptorsEach + settings.Urls.Count, () => OpenAll(settings, which));
    }

    private static AppListeners OpenAll(AppSettings settings, Func<string, bool>? which)
    {
        var listeners = new AppListeners();
        try
        {
            foreach (var address in settings.Urls.Where(which ?? (static _ => true)).SelectMany(ListenAddress.ParseList))
            {
                listeners._sockets.AddRange(ListenSockets.Open(address, loops: 1));
            }
            return listeners;
        }
        catch
        {
            listeners.Dispose();
            throw;
        }
    }

    /// <summary>Addresses of copies of the descriptors, for a server in this process, which closes them.</summary>
    public string Copy() => string.Join(';', _sockets.Select(static socket => Inherited(socket.Address, Copy(socket.Descriptor))));

    /// <summary>A copy of the end of the channel at which connections are given, for whoever closes it.</summary>
    public int CopyOfGives() => Copy(_gives);

    /// <summary>The same of that at which they are taken.</summary>
    public int CopyOfTakes() => Copy(_takes);

    private static int Copy(int descriptor)
    {
        int copy = SystemCalls.Fcntl(descriptor, SystemCalls.F_DUPFD_CLOEXEC, 3);
        return copy >= 0 ? copy : throw new MillraceStartException($"A socket cannot be opened again: {SystemCalls.Describe(SystemCalls.Errno)}; raise the limit of open files (ulimit -n).");
    }

    public void Dispose()
    {
        _sockets.ForEach(static socket => socket.Dispose());
        _ = SystemCalls.Close(_gives);
        _ = SystemCalls.Close(_takes);
    }

    private static string Inherited(ListenAddress address, int descriptor) => new ListenAddress
    {
        Protocol = address.Protocol,
        Kind = EndPointKind.Inherited,
        InheritedDescriptor = descriptor,
        Allow = address.Allow,
    }.ToString();
}
