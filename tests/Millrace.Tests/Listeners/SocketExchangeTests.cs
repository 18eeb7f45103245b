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
    // So it is for servers of different users, and where a lock cannot be had.
    [Theory]
    [InlineData("stale")]
    [InlineData("aside")]
    public async Task Of_two_servers_that_start_at_the_same_moment_on_one_path_one_listens_there(string second)
    {
        NobodyWaitsForTheOthers();
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
        Assert.Equal([StartLock.NameFor("app.sock"), "app.sock"], _directory.GetFileSystemInfos().Select(static entry => entry.Name).Order());
    }

    // The second finds the first's file before anybody answers there, and has its name in hand when the first listens; so a third finds nothing.
    [Fact]
    public async Task Of_three_servers_that_start_at_the_same_moment_on_one_path_one_listens()
    {
        using var isStaleOrWaits = new SemaphoreSlim(0);
        using var listens = new ManualResetEventSlim();
        Task<ListenSocket>? second = null, third = null;
        Task<ListenSocket> first = Task.Run(() => Open("?mode=600", step =>
        {
            if (step == "bind")
            {
                second = Task.Run(() => Open("?mode=600", other =>
                {
                    if (other == "aside")
                    {
                        third = Task.Run(() => Open("?mode=600"));
                        ((IAsyncResult)third).AsyncWaitHandle.WaitOne();
                    }
                    else if (other is "stale" or "wait")
                    {
                        isStaleOrWaits.Release();
                        listens.Wait(30_000);
                    }
                }));
                Assert.True(isStaleOrWaits.Wait(30_000));
            }
        }));
        _ = await Task.WhenAny(first);
        listens.Set();
        _ = await Task.WhenAny(second!);
        Task<ListenSocket>[] all = [first, second!, third ?? Task.Run(() => Open("?mode=600"))];
        _ = await Task.WhenAny(Task.WhenAll(all));
        _open.AddRange(all.Where(static one => one.IsCompletedSuccessfully).Select(static one => one.Result));
        _ = Assert.Single(all, static one => one.IsCompletedSuccessfully);
        Assert.All(all.Where(static one => one.IsFaulted), static one =>
            Assert.Contains("in use by this process", Assert.IsType<MillraceStartException>(one.Exception!.InnerException).Message, StringComparison.Ordinal));
        Assert.Equal("app.sock", Assert.Single(_directory.GetFileSystemInfos()).Name);
    }

    // What is made there is the lock of nobody who starts: it is left alone, and nobody waits for it.
    [Theory]
    [InlineData("file of his own, open to all")]
    [InlineData("file of his own, closed")]
    [InlineData("file that others may open")]
    [InlineData("link")]
    [InlineData("pipe")]
    [InlineData("directory")]
    public void Hostile_74_Another_user_cannot_hold_up_the_start_of_a_server(string what)
    {
        File.SetUnixFileMode(_directory.FullName, Everything | UnixFileMode.StickyBit);
        string name = StartLock.NameFor("app.sock");
        MakeVictims();
        if (what == "file that others may open")
        {
            NobodyWaitsForTheOthers();
        }
        else
        {
            AnotherUser.Run($"cd {_directory.FullName} && " + what switch
            {
                "file of his own, open to all" => $"umask 0; touch {name}",
                "file of his own, closed" => $"umask 077; touch {name}",
                "link" => $"ln -s {Secret} {name}",
                "pipe" => $"umask 0; mkfifo {name}",
                _ => $"mkdir {name}",
            });
        }

        string lockPath = Path.Combine(_directory.FullName, name);
        (FileFacts secret, FileFacts put) = (Look(Secret), Look(lockPath));
        using FileStream? held = what.StartsWith("file", StringComparison.Ordinal) ? new FileStream(lockPath, FileMode.Open, FileAccess.Read, FileShare.None) : null;
        bool isAlone = !AnotherUser.Exists && what == "file of his own, closed";       // then it is his own in truth
        int waits = 0;
        using ListenSocket socket = Open("?mode=600", step => waits += step == "wait" ? 1 : 0);
        Assert.Equal(isAlone, waits > 0);
        AssertUntouched(secret, Secret);
        AssertUntouched(put, lockPath);
    }

    [Fact]
    public void A_lock_that_nobody_lets_go_of_holds_up_a_start_for_a_second_and_no_longer()
    {
        using SocketDirectory directory = SocketDirectory.Open(SocketPath, out _)!;
        using StartLock held = StartLock.Take(directory, "app.sock")!;
        int waits = 0;
        using ListenSocket socket = Open("?mode=600", step => waits += step == "wait" ? 1 : 0);
        Assert.Equal(200, waits);
    }

    [Fact]
    public void A_lock_whose_holder_was_killed_is_taken_and_its_file_goes()
    {
        string lockPath = Path.Combine(_directory.FullName, StartLock.NameFor("app.sock"));
        File.WriteAllText(lockPath, string.Empty);
        File.SetUnixFileMode(lockPath, OwnerOnly);
        using ListenSocket socket = Open("?mode=600", static step => Assert.NotEqual("wait", step));
        Assert.False(File.Exists(lockPath));
    }

    // Who waited for the file that its holder takes away has a lock on nothing.
    [Fact]
    public async Task A_lock_is_had_by_one_at_a_time_whoever_comes_and_goes()
    {
        using SocketDirectory directory = SocketDirectory.Open(SocketPath, out _)!;
        int inside = 0, had = 0;
        await Task.WhenAll(Enumerable.Range(0, 4).Select(_ => Task.Factory.StartNew(
            () =>
            {
                for (int i = 0; i < 200; i++)
                {
                    using StartLock? mine = StartLock.Take(directory, "app.sock");
                    if (mine is not null)
                    {
                        Assert.Equal(1, Interlocked.Increment(ref inside));
                        Thread.Yield();
                        Interlocked.Increment(ref had);
                        Interlocked.Decrement(ref inside);
                    }
                }
            },
            TaskCreationOptions.LongRunning)));
        Assert.True(had > 0);
        Assert.Empty(_directory.GetFileSystemInfos());
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

    // Like the lock of another user: nobody takes it.
    private void NobodyWaitsForTheOthers()
    {
        string path = Path.Combine(_directory.FullName, StartLock.NameFor("app.sock"));
        File.WriteAllText(path, string.Empty);
        File.SetUnixFileMode(path, Everything);
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
