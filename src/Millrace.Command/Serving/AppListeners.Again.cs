// What an application's processes have shut down is opened anew before another of them is started: shutdown(2) is of the socket, and so of everybody who has it, and nobody gets in any more. So is a Unix
// socket whose file has been removed, by whomever: by the application itself, perhaps, at its start, as one does that would listen there by itself. Processes that run are given it besides what they have; where
// it lay in the folder of shared sockets they keep what they have, and are replaced.

using System.Globalization;
using Millrace.Command.Running;
using Millrace.Listeners;

namespace Millrace.Command.Serving;

/// <summary>What becomes of an application whose socket has lost its file, and cannot be opened anew.</summary>
internal enum LostAddress
{
    /// <summary>What is done with it fails, and says why.</summary>
    Fails,

    /// <summary>It goes on at its other addresses, and says so.</summary>
    GoesOn,
}

internal sealed partial class AppListeners
{
    private readonly Dictionary<int, int> _anew = [];       // by index: how often it has been opened anew, where processes are given it
    private volatile int _way;

    /// <summary>Another number behind each time that something lost has been opened anew: processes that were started before do not listen there.</summary>
    public int Way => _way;

    /// <summary>Whether routers do not find it: somebody has removed its socket.</summary>
    public bool IsLost(DaemonFolders folders) => _sockets.Exists(socket => IsLostThere(socket, folders));

    /// <summary>Opens those anew that have been shut down, or lost.</summary>
    /// <param name="folders">Where the daemon makes its own; they are stored there for the next one.</param>
    /// <param name="look">See <see cref="OpenAsync"/>.</param>
    /// <param name="lost">What becomes of one that is lost and cannot be opened anew.</param>
    /// <param name="happened">Is told of each.</param>
    /// <param name="ct">Nobody waits for it any more.</param>
    /// <returns>False: all of them listen, or they have been closed.</returns>
    /// <exception cref="MillraceStartException">One of them cannot be opened; the message says what to do.</exception>
    public async Task<bool> OpenAgainAsync(DaemonFolders folders, PatientLook look, LostAddress lost, Action<string> happened, CancellationToken ct)
    {
        bool isGone = _sockets.Exists(socket => IsShut(socket) || IsLostThere(socket, folders));
        if (!isGone && !_sockets.Exists(HasFile))
        {
            return false;
        }
        try
        {
            return await look.AtAsync(string.Join(", ", Shown), () => OpenAgain(folders, lost, happened, isGone), ct);       // where somebody else has done so meanwhile there is nothing left to do
        }
        catch (StandstillException) when (!isGone)
        {
            return false;       // it listens, and nobody knows more
        }
        catch (StandstillException error)
        {
            throw new MillraceStartException(error.Message, error);
        }
    }

    private static bool IsShut(ListenSocket socket) => !Posix.IsListening(socket.Descriptor) || Posix.HasHungUp(socket.Descriptor);

    // In the daemon's own folder, which nobody else has any business in, and whose file system answers.
    private static bool IsLostThere(ListenSocket socket, DaemonFolders folders) => folders.IsShared(socket.Address) && socket.HasLostFile;

    private static bool HasFile(ListenSocket socket) => socket.Address is { Kind: EndPointKind.Unix, IsAbstract: false };

    // True: one has been, or, where that was known before, somebody else has done so.
    private bool OpenAgain(DaemonFolders folders, LostAddress lost, Action<string> happened, bool isGone)
    {
        bool isOpened = isGone;
        for (int i = 0; i < _sockets.Count; i++)
        {
            var socket = _sockets[i];
            if (IsClosed)
            {
                return false;
            }
            bool isShut = IsShut(socket);
            if (isShut || (HasFile(socket) && socket.HasLostFile))
            {
                isOpened |= TryOpenAnew(i, isShut, folders, isShut || folders.IsShared(socket.Address) ? LostAddress.Fails : lost, happened);
            }
        }
        return isOpened && !IsClosed;
    }

    private bool IsClosed
    {
        get
        {
            lock (_lock)
            {
                return _isClosed;
            }
        }
    }

    private bool TryOpenAnew(int index, bool isShut, DaemonFolders folders, LostAddress lost, Action<string> happened)
    {
        var socket = _sockets[index];
        string how = isShut ? "shut down by its processes" : "removed by somebody";
        try
        {
            if (!Replace(socket, folders))
            {
                return false;
            }
        }
        catch (Exception error) when (error is MillraceStartException or CommandFailure)
        {
            string why = $"{socket.Address.Url} has been {how}, and cannot be opened anew: {error.Message} Reload the application then.";
            if (lost == LostAddress.Fails)
            {
                throw new MillraceStartException(why, error);
            }
            happened(why);
            return false;
        }
        if (folders.IsShared(socket.Address))
        {
            _way += isShut ? 0 : 1;
        }
        else
        {
            lock (_lock)
            {
                _anew[index] = _anew.GetValueOrDefault(index) + 1;
            }
        }
        happened($"{socket.Address.Url} had been {how}, and is opened anew");
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
