// Where a daemon keeps what it makes. The folder of its sockets is there before it listens, that of snapshots when the first application needs one.

using Millrace.Command.Running;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Command.Serving;

/// <param name="places">As the file says.</param>
internal sealed class DaemonFolders(DaemonPlaces places) : IDisposable
{
    private const string Cure = "It was there when the daemon was started: put it back, or start the daemon again.";

    private readonly Lock _lock = new();
    private readonly Lock _sharing = new();
    private readonly HashSet<string> _goOn = [];
    private string? _snapshots;
    private OwnFolder? _shared;
    private volatile int _sharedWay = WayBefore;

    /// <summary>Of sockets: closed to others. Made again where whoever tidies up has removed it, so that there can be further processes.</summary>
    /// <exception cref="CommandFailure">It cannot be made, or what is there is not to be trusted.</exception>
    public string Sockets
    {
        get
        {
            string path = Path.GetDirectoryName(places.Control)!;
            OwnDirectory.Prepare(path, group: null, Cure, Cure);
            return path;
        }
    }

    /// <summary>Its name below <see cref="Sockets"/>.</summary>
    public const string SharedName = "shared";

    /// <summary>
    /// Of the sockets that lead from routers to applications, below the others: nobody passes those, but a router has this one's descriptor. Made again where somebody has removed it; routers that run have
    /// the one before.
    /// </summary>
    /// <exception cref="CommandFailure">It cannot be made.</exception>
    public OwnFolder Shared
    {
        get
        {
            lock (_sharing)
            {
                if (_shared?.IsAt(SharedPath) == true)
                {
                    return _shared;
                }
                var folder = MakeShared(out bool isNew);
                if (_shared is null)
                {
                    _sharedWay += isNew ? 1 : 0;        // else routers may have it that were there before this daemon
                    return _shared = folder;
                }
                using (folder)
                {
                    _sharedWay += ProcessStart.With(() => _shared.Become(folder)) ? 1 : 0;     // what a process is about to inherit stays what it is meanwhile
                    return _shared;
                }
            }
        }
    }

    /// <summary>Of what was started before this daemon: with the folder that was there then.</summary>
    public const int WayBefore = 0;

    /// <summary>Another number for another <see cref="Shared"/>: what was started with another one does not find who listens there.</summary>
    public int SharedWay => _sharedWay;

    /// <summary>Whether a socket lies there.</summary>
    public bool IsShared(ListenAddress address) => address.Kind == EndPointKind.Unix && Path.GetDirectoryName(address.Path) == SharedPath;

    /// <summary>Where <see cref="Shared"/> is.</summary>
    public string SharedPath => Path.Combine(Path.GetDirectoryName(places.Control)!, SharedName);

    /// <summary>What is kept of sockets while there is no daemon.</summary>
    public StoredSockets Stored { get; set; } = StoredSockets.None;

    /// <summary>Where processes are put under their limits.</summary>
    public ControlGroups Groups { get; } = new();

    /// <summary>Those of processes of this machine.</summary>
    public Func<IEnumerable<string>> CommandLines { get; init; } = LeftSnapshots.CommandLines;

    /// <summary>A snapshot from before this daemon, which a generation runs from.</summary>
    public CodeSnapshot Resume(CodeState code)
    {
        lock (_lock)
        {
            _goOn.Add(code.Name);
        }
        return CodeSnapshot.Resume(code);
    }

    /// <summary>Of this daemon's snapshots alone; made again likewise.</summary>
    /// <exception cref="CommandFailure">It cannot be made, or others may write there.</exception>
    public string Snapshots
    {
        get
        {
            lock (_lock)
            {
                if (_snapshots is null || !Directory.Exists(_snapshots))
                {
                    _snapshots = CodeSnapshot.Prepare(places.Snapshots, places.Control, runsAsOthers: SystemCalls.GetEffectiveUser() == 0);
                    _ = LeftSnapshots.BeginRemoving(_snapshots, _goOn, CommandLines);
                }
                return _snapshots;
            }
        }
    }

    public void Dispose() => Groups.Dispose();

    private OwnFolder MakeShared(out bool isNew)
    {
        try
        {
            using var sockets = OwnFolder.Open(Sockets);
            var shared = sockets.Make(SharedName, out isNew);
            shared.LetPass();
            return shared;
        }
        catch (IOException error)
        {
            throw new CommandFailure(ExitCode.Failure, $"{SharedPath} cannot be made: {error.Message}");
        }
    }
}
