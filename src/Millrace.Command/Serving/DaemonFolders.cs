// Where a daemon keeps what it makes. The folder of its sockets is there before it listens, that of snapshots when the first application needs one.

using Millrace.Command.Running;

namespace Millrace.Command.Serving;

/// <param name="places">As the file says.</param>
internal sealed class DaemonFolders(DaemonPlaces places)
{
    private readonly Lock _lock = new();
    private string? _snapshots;

    /// <summary>Of sockets: closed to others.</summary>
    public string Sockets { get; } = Path.GetDirectoryName(places.Control)!;

    /// <summary>Of this daemon's snapshots alone.</summary>
    /// <exception cref="CommandFailure">It cannot be made, or others may write there.</exception>
    public string Snapshots
    {
        get
        {
            lock (_lock)
            {
                return _snapshots ??= CodeSnapshot.Prepare(places.Snapshots, places.Control);
            }
        }
    }
}
