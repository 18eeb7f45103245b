// What an application's processes have shut down is opened anew before another of them is started: shutdown(2) is of the socket, and so of everybody who has it, and nobody gets in any more. So is what
// lay in the folder of shared sockets, and has been removed. Processes that run keep what they have.

using System.Globalization;
using Millrace.Command.Running;
using Millrace.Listeners;

namespace Millrace.Command.Serving;

internal sealed partial class AppListeners
{
    private volatile int _way;

    /// <summary>Another number behind each time that something lost has been opened anew: processes that were started before do not listen there.</summary>
    public int Way => _way;

    /// <summary>Whether routers do not find it: somebody has removed its socket.</summary>
    public bool IsLost(DaemonFolders folders) => _sockets.Exists(socket => IsLost(socket, folders));

    /// <summary>Opens those anew that have been shut down, or lost.</summary>
    /// <param name="folders">Where the daemon makes its own; they are stored there for the next one.</param>
    /// <param name="look">See <see cref="OpenAsync"/>.</param>
    /// <param name="happened">Is told of each.</param>
    /// <param name="ct">Nobody waits for it any more.</param>
    /// <returns>False: all of them listen, or they have been closed.</returns>
    /// <exception cref="MillraceStartException">One of them cannot be opened; the message says what to do.</exception>
    public async Task<bool> OpenAgainAsync(DaemonFolders folders, PatientLook look, Action<string> happened, CancellationToken ct)
    {
        if (!_sockets.Exists(socket => IsGone(socket, folders)))
        {
            return false;
        }
        try
        {
            return await look.AtAsync(string.Join(", ", Shown), () => OpenAgain(folders, happened), ct);       // where somebody else has done so meanwhile there is nothing left to do
        }
        catch (StandstillException error)
        {
            throw new MillraceStartException(error.Message, error);
        }
    }

    private static bool IsShut(ListenSocket socket) => !Posix.IsListening(socket.Descriptor) || Posix.HasHungUp(socket.Descriptor);

    // In the daemon's own folder, which nobody else has any business in.
    private static bool IsLost(ListenSocket socket, DaemonFolders folders) => folders.IsShared(socket.Address) && socket.HasLostFile;

    private static bool IsGone(ListenSocket socket, DaemonFolders folders) => IsShut(socket) || IsLost(socket, folders);

    private bool OpenAgain(DaemonFolders folders, Action<string> happened)
    {
        foreach (var socket in _sockets.Where(socket => IsGone(socket, folders)))
        {
            bool isLost = IsLost(socket, folders);
            string how = isLost ? "removed by somebody" : "shut down by its processes";
            try
            {
                if (!Replace(socket, folders))
                {
                    return false;
                }
            }
            catch (Exception error) when (error is MillraceStartException or CommandFailure)
            {
                throw new MillraceStartException($"{socket.Address.Url} has been {how}, and cannot be opened anew: {error.Message} Reload the application then.", error);
            }
            _way += isLost ? 1 : 0;
            happened($"{socket.Address.Url} had been {how}, and is opened anew");
        }
        return true;
    }

    // False: they have been closed meanwhile.
    private bool Replace(ListenSocket socket, DaemonFolders folders)
    {
        if (socket.Address.Kind == EndPointKind.Inherited)
        {
            throw new MillraceStartException(string.Create(CultureInfo.InvariantCulture, $"descriptor {socket.Address.InheritedDescriptor} was opened by what has started this process, and only that can open it again (systemd: restart the .socket and the service)."));
        }
        _ = folders.IsShared(socket.Address) ? folders.Shared : null;
        var fresh = ListenSockets.Open(socket.Address.Kind == EndPointKind.Unix ? socket.Address : PlaceOf(socket), loops: 1)[0];
        var before = State;
        bool isReplaced = false;
        try
        {
            isReplaced = ProcessStart.With(() => TryReplace(socket, fresh));        // what a process is about to inherit stays what it is meanwhile
        }
        finally
        {
            if (!isReplaced)
            {
                fresh.Dispose();
            }
        }
        lock (_lock)
        {
            isReplaced &= !_isClosed;
        }
        if (isReplaced)
        {
            folders.Stored.Forget(StoredAs, before);
            folders.Stored.Keep(StoredAs, State);
        }
        return isReplaced;
    }

    // Of localhost, and of all addresses, the one end point that it is: the others are listened on.
    private static ListenAddress PlaceOf(ListenSocket socket) => socket.Address with { Address = socket.Name.Address, Port = socket.Name.Port, AnyHost = false, Localhost = false };

    // Not where they are closed: the address is another's by then.
    private bool TryReplace(ListenSocket socket, ListenSocket fresh)
    {
        lock (_lock)
        {
            return !_isClosed && socket.TryBecome(fresh);
        }
    }
}
