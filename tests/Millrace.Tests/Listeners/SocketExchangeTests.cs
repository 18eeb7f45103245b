// Another user who may write in a socket's directory puts something else under its name between any two steps of its making: whatever that
// is stays as it was. What is put there is put there really, by another user where the tests run as root.

using System.Net.Sockets;
using System.Runtime.Versioning;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Listeners;

[SupportedOSPlatform("linux")]
public sealed class SocketExchangeTests : IDisposable
{
    private const UnixFileMode Everything = (UnixFileMode)0x1FF;
    private const UnixFileMode OwnerOnly = UnixFileMode.UserRead | UnixFileMode.UserWrite;

    private readonly DirectoryInfo _directory = Directory.CreateTempSubdirectory("millrace-");
    private readonly DirectoryInfo _elsewhere = Directory.CreateTempSubdirectory("millrace-");
    private readonly List<IDisposable> _open = [];

    private string SocketPath => Path.Combine(_directory.FullName, "app.sock");

    // Only its owner may read it, and it lies where nobody else gets by himself.
    private string Secret => Path.Combine(_elsewhere.FullName, "secret");

    public void Dispose()
    {
        _open.ForEach(static one => one.Dispose());
        _directory.Delete(recursive: true);
        _elsewhere.Delete(recursive: true);
    }

    [Theory]
    [InlineData("bind", "link to a file")]
    [InlineData("bind", "link to a socket")]
    [InlineData("bind", "link to nothing")]
    [InlineData("bind", "file")]
    [InlineData("bind", "another socket of the server's user")]
    [InlineData("bind", "socket of his own")]
    [InlineData("bind", "directory")]
    [InlineData("bind", "nothing")]
    [InlineData("hold", "link to a file")]
    [InlineData("hold", "another socket of the server's user")]
    [InlineData("hold", "nothing")]
    [InlineData("rights", "link to a file")]
    [InlineData("rights", "socket of his own")]
    [InlineData("rights", "nothing")]
    public void Hostile_74_What_is_put_in_the_place_of_a_new_socket_keeps_its_owner_and_mode(string after, string what)
    {
        string other = MakeVictims();
        (FileFacts secret, FileFacts socket) = (Look(Secret), Look(other));
        var refusal = Assert.Throws<MillraceStartException>(() => Open("?mode=666&group=1", step =>
        {
            if (step == after)
            {
                Exchange(what, other);
            }
        }));
        Assert.Contains("was exchanged for another file", refusal.Message, StringComparison.Ordinal);
        Assert.Contains("chmod go-w", refusal.Message, StringComparison.Ordinal);
        AssertUntouched(secret, Secret);
        AssertUntouched(socket, File.Exists(other) ? other : SocketPath);
        Assert.Equal(what != "nothing", FileFacts.At(SocketPath, out _) is not null);
    }

    [Theory]
    [InlineData("link to a file")]
    [InlineData("another socket of the server's user")]
    [InlineData("file")]
    public void Hostile_74_What_is_put_in_the_place_of_a_socket_between_looking_and_removing_stays(string what)
    {
        string other = MakeVictims();
        using ListenSocket socket = Open("?mode=600");
        using SocketDirectory directory = SocketDirectory.Open(SocketPath, out _)!;
        using SocketFile file = SocketFile.Open(directory, "app.sock", out _)!;
        FileFacts? put = null;
        Assert.Equal(0, file.RemoveIfSame(compared: () =>
        {
            Exchange(what, other);
            put = Look(SocketPath);
        }));
        Assert.True(Look(SocketPath).IsSame(put!.Value));
        Assert.Equal(["app.sock", .. what == "another socket of the server's user" ? (string[])["aside"] : ["aside", "other.sock"]],
            _directory.GetFileSystemInfos().Select(static entry => entry.Name).Where(static name => name != "his").Order());
    }

    [Fact]
    public void Hostile_74_A_socket_is_removed_from_the_directory_it_was_made_in_and_from_no_other()
    {
        ListenSocket socket = Open("?mode=600");
        string moved = _directory.FullName + "-moved";
        Directory.Move(_directory.FullName, moved);
        Directory.CreateDirectory(_directory.FullName);
        File.WriteAllText(SocketPath, "another's");
        socket.Dispose();
        Assert.Equal("another's", File.ReadAllText(SocketPath));
        Assert.Empty(Directory.GetFileSystemEntries(moved));
        Directory.Delete(moved);
    }

    [Fact]
    public void Hostile_74_A_socket_that_is_stopped_twice_removes_nothing_the_second_time()
    {
        ListenSocket first = Open("?mode=600");
        first.Refuse();
        Assert.Null(FileFacts.At(SocketPath, out _));
        using ListenSocket second = Open("?mode=600");
        first.Dispose();
        first.Refuse();
        Assert.True(Look(SocketPath).IsSocket);
    }

    // The second finds the first's file before anybody answers there; then the first goes on: to its end, or to its look for a name that is gone.
    [Theory]
    [InlineData("stale")]
    [InlineData("aside")]
    public async Task Of_two_servers_that_start_at_the_same_moment_on_one_path_one_listens_there(string second)
    {
        using var isBound = new SemaphoreSlim(0);
        using var mayListen = new SemaphoreSlim(0);
        using var listens = new SemaphoreSlim(0);
        Task<ListenSocket> starting = Task.Run(() => Open("?mode=600", step =>
        {
            if (step == "rights")
            {
                isBound.Release();
                Assert.True(mayListen.Wait(30_000));
            }
            else if (step == "listen")
            {
                listens.Release();
            }
        }));
        Assert.True(await isBound.WaitAsync(30_000));
        var refusal = Assert.Throws<MillraceStartException>(() => Open("?mode=600", step =>
        {
            if (step == second)
            {
                mayListen.Release();
                Assert.True(step == "aside" ? listens.Wait(30_000) : ((IAsyncResult)starting).AsyncWaitHandle.WaitOne(30_000));
            }
        }));
        Assert.Contains("in use by this process", refusal.Message, StringComparison.Ordinal);
        Assert.Equal(SocketError.AddressAlreadyInUse, Assert.IsType<SocketException>(refusal.InnerException).SocketErrorCode);
        using ListenSocket socket = await starting;
        using var client = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        client.Connect(new UnixDomainSocketEndPoint(SocketPath));
        Assert.Equal("app.sock", Assert.Single(_directory.GetFileSystemInfos()).Name);
    }

    [Fact]
    public void Hostile_74_Whether_a_stale_socket_is_alive_is_asked_of_that_very_file()
    {
        using ListenSocket socket = Open("?mode=600");
        using SocketDirectory directory = SocketDirectory.Open(SocketPath, out _)!;
        using SocketFile file = SocketFile.Open(directory, "app.sock", out _)!;
        File.Move(SocketPath, SocketPath + "-moved");
        File.CreateSymbolicLink(SocketPath, "/nowhere");
        using var client = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        client.Connect(new UnixDomainSocketEndPoint(file.HeldPath));
        Assert.True(client.Connected);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void The_mode_of_a_held_socket_is_set_with_and_without_fchmodat2(bool byProc)
    {
        using ListenSocket socket = Open("?mode=600");
        int descriptor = SocketDirectory.OpenEntry(SystemCalls.AT_FDCWD, SocketPath, out _);
        Assert.Equal(0, byProc ? SystemCalls.ChangeModeByProc(descriptor, 0x1B0) : SystemCalls.ChangeMode(descriptor, 0x1B6));
        Assert.Equal(byProc ? "660" : "666", Look(SocketPath).ModeText);
        _ = SystemCalls.Close(descriptor);
    }

    private static FileFacts Look(string path) => FileFacts.At(path, out _)!.Value;

    private static void AssertUntouched(FileFacts before, string path)
    {
        FileFacts now = Look(path);
        Assert.True(now.IsSame(before));
        Assert.Equal((before.ModeText, before.User, before.Group, before.Links), (now.ModeText, now.User, now.Group, now.Links));
    }

    /// <summary>A file and a socket that belong to the server's user and are for nobody else; answers the socket's path.</summary>
    private string MakeVictims()
    {
        File.WriteAllText(Secret, "precious");
        File.SetUnixFileMode(Secret, OwnerOnly);
        string other = Path.Combine(_directory.FullName, "other.sock");
        Listen(other);
        File.SetUnixFileMode(other, OwnerOnly);
        return other;
    }

    // What the directory's other writer does. He may do it because everybody may write there from this moment on.
    private void Exchange(string what, string otherSocket)
    {
        File.SetUnixFileMode(_directory.FullName, Everything);
        AnotherUser.Run($"cd {_directory.FullName} && mv app.sock aside && " + what switch
        {
            "link to a file" => $"ln -s {Secret} app.sock",
            "link to a socket" => $"ln -s {otherSocket} app.sock",
            "link to nothing" => $"ln -s {_elsewhere.FullName}/nothing app.sock",
            "file" => "touch app.sock",
            "another socket of the server's user" => "mv other.sock app.sock",
            "directory" => "mkdir app.sock",
            _ => "true",
        });
        if (what == "socket of his own")
        {
            Listen(SocketPath);
            AnotherUser.Give(SocketPath);
        }
    }

    private void Listen(string path)
    {
        var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        socket.Bind(new UnixDomainSocketEndPoint(path));
        socket.Listen();
        _open.Add(socket);
    }

    private ListenSocket Open(string options, Action<string>? between = null) =>
        UnixListener.Open(ListenAddress.Parse($"fastcgi://unix:{SocketPath}{options}"), 16, between);
}
