// Where the sockets of a pool are: a folder that is closed to others. It is held open, and whatever is done in it is done in this one, whoever may have exchanged what its path leads to. Whoever tidies up
// temporary files leaves it alone while it is locked; where somebody removes it all the same there is another one for the next socket.

using System.Globalization;
using System.Net.Sockets;
using Microsoft.Win32.SafeHandles;

namespace Millrace.Workers.Processes;

internal sealed class SocketFolder : IDisposable
{
    private readonly Lock _lock = new();
    private SafeFileHandle _folder;
    private int _count;

    /// <exception cref="IOException">It cannot be made.</exception>
    public SocketFolder() => (_folder, Path) = Make();

    /// <summary>Of the one that there is now.</summary>
    public string Path { get; private set; }

    /// <summary>Is told of another one, which is open here under this number, and of its path.</summary>
    public Action<int, string>? Moved { get; set; }

    /// <summary>A socket that listens, under a name that no other here has had.</summary>
    /// <param name="backlog">Connections that may wait.</param>
    /// <param name="listener">The socket.</param>
    /// <exception cref="IOException">It cannot be made.</exception>
    public PlacedSocket Listen(int backlog, out int listener)
    {
        lock (_lock)
        {
            try
            {
                return Place(backlog, out listener);
            }
            catch (IOException error) when (error.HResult == Posix.IsNotThere)
            {
                SafeFileHandle before = _folder;
                (_folder, Path) = Make();
                before.Dispose();
                Moved?.Invoke((int)_folder.DangerousGetHandle(), Path);
                return Place(backlog, out listener);
            }
        }
    }

    public void Dispose() => _folder.Dispose();

    private PlacedSocket Place(int backlog, out int listener)
    {
        var socket = new PlacedSocket(_folder, (++_count).ToString(CultureInfo.InvariantCulture));
        try
        {
            listener = Posix.Listen(socket.Path, backlog);
            return socket;
        }
        catch
        {
            socket.Remove();
            throw;
        }
    }

    private static (SafeFileHandle Folder, string Path) Make()
    {
        string path = Posix.MakeFolder("millrace-pool-");
        return (new SafeFileHandle(Posix.LockFolder(path), ownsHandle: true), path);
    }
}

/// <summary>A socket in a folder that stays open until the socket has been taken away, also where there is another folder by then.</summary>
internal sealed class PlacedSocket
{
    private readonly SafeFileHandle _folder;
    private readonly string _name;
    private int _hasLeft;

    public PlacedSocket(SafeFileHandle folder, string name)
    {
        bool isHeld = false;
        (_folder, _name) = (folder, name);
        _folder.DangerousAddRef(ref isHeld);
    }

    /// <summary>For this process alone.</summary>
    public string Path => Posix.PathIn((int)_folder.DangerousGetHandle(), _name);

    public UnixDomainSocketEndPoint EndPoint => new(Path);

    /// <summary>Takes it away. Any number of times.</summary>
    public void Remove()
    {
        if (Interlocked.Exchange(ref _hasLeft, 1) == 0)
        {
            Posix.Remove((int)_folder.DangerousGetHandle(), _name);
            _folder.DangerousRelease();
        }
    }
}
