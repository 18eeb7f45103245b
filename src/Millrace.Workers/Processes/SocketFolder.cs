// Where the sockets of a pool are: a folder that is closed to others. It is held open, and whatever is done in it is done in this one, whoever may have exchanged what its path leads to.

using System.Globalization;
using System.Net.Sockets;

namespace Millrace.Workers.Processes;

internal sealed class SocketFolder : IDisposable
{
    private readonly int _descriptor;
    private int _count;

    /// <exception cref="IOException">It cannot be made.</exception>
    public SocketFolder()
    {
        Path = Posix.MakeFolder("millrace-pool-");
        _descriptor = Posix.OpenFolder(Path);
    }

    public string Path { get; }

    /// <summary>A name that no other socket here has had.</summary>
    public string NextName() => Interlocked.Increment(ref _count).ToString(CultureInfo.InvariantCulture);

    /// <summary>The path of a name, for this process alone.</summary>
    public string PathOf(string name) => Posix.PathIn(_descriptor, name);

    public UnixDomainSocketEndPoint EndPointOf(string name) => new(PathOf(name));

    public void Remove(string name) => Posix.Remove(_descriptor, name);

    public void Dispose() => Posix.Close(_descriptor);
}
