// Where the control socket of this process lies, and how it comes to be there: in a folder that is closed to others, under the number of the process, or where its owner has said.

using System.Globalization;
using System.Net.Sockets;
using System.Runtime.Versioning;
using Millrace.Workers.Processes;

namespace Millrace.Workers.Control;

internal sealed class ControlSocket : IDisposable
{
    private const string Ending = ".sock";
    private const int Backlog = 64;
    private const UnixFileMode Others =
        UnixFileMode.GroupRead | UnixFileMode.GroupWrite | UnixFileMode.GroupExecute | UnixFileMode.OtherRead | UnixFileMode.OtherWrite | UnixFileMode.OtherExecute;

    private readonly int _folder;
    private readonly string _name;

    private ControlSocket(int folder, string name, int descriptor) => (_folder, _name, Descriptor) = (folder, name, descriptor);

    /// <summary>It listens. Whoever is given it closes it.</summary>
    public int Descriptor { get; }

    /// <summary>The folder in which processes of this user have their control sockets, where nothing else is said.</summary>
    public static string DefaultFolder =>
        Environment.IsPrivilegedProcess ? "/run/millrace-pools"
        : Environment.GetEnvironmentVariable("XDG_RUNTIME_DIR") is { Length: > 0 } own && Path.IsPathFullyQualified(own) ? Path.Combine(own, "millrace-pools")
        : string.Create(CultureInfo.InvariantCulture, $"/tmp/millrace-pools-{Posix.User}");

    /// <param name="path">Where to; null: in <see cref="DefaultFolder"/>, under the number of this process.</param>
    /// <exception cref="IOException">It cannot be made, or somebody listens there.</exception>
    [SupportedOSPlatform("linux")]
    public static ControlSocket Listen(string? path)
    {
        string folderPath = path is null ? DefaultFolder : Path.GetDirectoryName(Path.GetFullPath(path))!;
        string name = path is null ? string.Create(CultureInfo.InvariantCulture, $"{Environment.ProcessId}{Ending}") : Path.GetFileName(path);
        if (path is null)
        {
            Posix.MakeOwnFolder(Path.GetDirectoryName(folderPath)!, Path.GetFileName(folderPath));
        }
        int folder = Posix.OpenFolder(folderPath);
        try
        {
            if (path is null)
            {
                RequireOwn(folder, folderPath);
                foreach (string one in Directory.GetFiles(Posix.PathIn(folder, ""), "*" + Ending).Select(static one => Path.GetFileName(one)))
                {
                    _ = RemoveStale(folder, one);       // of processes that were killed
                }
            }
            else if (!RemoveStale(folder, name))
            {
                throw new IOException($"Somebody listens on {path} already.");
            }
            return new ControlSocket(folder, name, Posix.Listen(Posix.PathIn(folder, name), Backlog));
        }
        catch
        {
            Posix.Close(folder);
            throw;
        }
    }

    public void Remove() => Posix.Remove(_folder, _name);

    public void Dispose() => Posix.Close(_folder);

    // Where others may write they may have put something there. Who makes a socket in a folder that is closed to all but its owner is the owner, or root, who has one of its own.
    [SupportedOSPlatform("linux")]
    private static void RequireOwn(int folder, string path)
    {
        if ((File.GetUnixFileMode(Posix.PathIn(folder, ".")) & Others) != 0)
        {
            throw new IOException($"The folder {path} is open to others. Remove it, or give the control socket another path.");
        }
    }

    /// <summary>Whether the place is free now.</summary>
    private static bool RemoveStale(int folder, string name)
    {
        if (!Posix.IsSocket(folder, name))
        {
            return true;        // nothing, or what bind(2) refuses to take the place of
        }
        using Socket socket = ClientSocket.New();
        socket.Blocking = false;
        try
        {
            socket.Connect(new UnixDomainSocketEndPoint(Posix.PathIn(folder, name)));
            return false;
        }
        catch (SocketException error) when (error.SocketErrorCode == SocketError.ConnectionRefused)
        {
            Posix.Remove(folder, name);
            return true;
        }
        catch (SocketException error)
        {
            return error.SocketErrorCode != SocketError.WouldBlock;     // a full queue is somebody's
        }
    }
}
