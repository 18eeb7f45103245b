// Unix sockets in a temporary directory: rights, what is in the way, and what is left behind.

using System.Globalization;
using System.Net.Sockets;
using System.Runtime.InteropServices;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Listeners;

public sealed partial class UnixListenerTests : IDisposable
{
    private readonly DirectoryInfo _directory = Directory.CreateTempSubdirectory("millrace-");

    private string SocketPath => Path.Combine(_directory.FullName, "app.sock");

    public void Dispose() => _directory.Delete(recursive: true);

    [Theory]
    [InlineData("600", 0x1FF)]
    [InlineData("660", 0x3F)]
    [InlineData("666", 0x1FF)]
    [InlineData("666", 0)]
    [InlineData("000", 0)]
    public void Mode_is_as_asked_whatever_the_umask(string mode, uint mask)
    {
        uint before = SetFileCreationMask(mask);
        try
        {
            using ListenSocket socket = Open($"?mode={mode}");
            Assert.Equal(Convert.ToInt32(mode, 8), (int)FileFacts.At(SocketPath, out _)!.Value.Mode);
        }
        finally
        {
            _ = SetFileCreationMask(before);
        }
    }

    [Fact]
    public void Mode_is_660_unless_asked_otherwise()
    {
        using ListenSocket socket = Open();
        Assert.Equal(ListenAddress.DefaultMode, FileFacts.At(SocketPath, out _)!.Value.Mode);
        Assert.True(socket.IsShared);
        Assert.Equal(SocketPath, socket.Name.Path);
        using Socket client = Connect();
        Assert.True(client.Connected);
    }

    [Fact]
    public async Task File_is_never_wider_than_asked_while_it_is_made()
    {
        (string name, uint id) = AnotherGroup();
        uint before = SetFileCreationMask(0);
        using var stop = new CancellationTokenSource();
        var seen = new HashSet<(UnixFileMode Mode, uint Group)>();
        int looks = 0;
        Task observer = Task.Factory.StartNew(
            () =>
            {
                while (!stop.IsCancellationRequested)
                {
                    if (FileFacts.At(SocketPath, out _) is FileFacts file)
                    {
                        seen.Add((file.Mode, file.Group));
                        Interlocked.Increment(ref looks);
                    }
                }
            },
            stop.Token,
            TaskCreationOptions.LongRunning,
            TaskScheduler.Default);
        try
        {
            // On a busy machine the observer may have to be waited for.
            for (int i = 0; i < 500 || (Volatile.Read(ref looks) == 0 && i < 100_000); i++)
            {
                Open($"?mode=660&group={name}").Dispose();
            }
        }
        finally
        {
            await stop.CancelAsync();
            await observer;
            _ = SetFileCreationMask(before);
        }

        // Either still only for its owner, or finished: the group's rights never come before the group.
        Assert.NotEmpty(seen);
        Assert.All(seen, file => Assert.True(
            ((int)file.Mode & 0x1FF) == Convert.ToInt32("600", 8) || (file.Mode == ListenAddress.DefaultMode && file.Group == id), $"{file}"));
    }

    [Fact]
    public void Group_is_set_by_name_and_by_number()
    {
        (string name, uint id) = AnotherGroup();
        foreach (string group in new[] { name, id.ToString(CultureInfo.InvariantCulture) })
        {
            using ListenSocket socket = Open($"?group={group}");
            Assert.Equal(id, FileFacts.At(SocketPath, out _)!.Value.Group);
        }
    }

    [Fact]
    public void Owner_is_set_by_name()
    {
        using ListenSocket socket = Open($"?owner={Environment.UserName}");
        Assert.Equal(SystemCalls.GetEffectiveUser(), FileFacts.At(SocketPath, out _)!.Value.User);
    }

    [Theory]
    [InlineData("group")]
    [InlineData("owner")]
    public void Unknown_names_are_refused_and_nothing_is_made(string option)
    {
        var refusal = Assert.Throws<MillraceStartException>(() => Open($"?{option}=no-such-name"));
        Assert.Contains("'no-such-name'", refusal.Message, StringComparison.Ordinal);
        Assert.False(File.Exists(SocketPath));
    }

    [Fact]
    public void Stale_socket_is_replaced()
    {
        LeaveStaleSocket();
        Assert.Throws<SocketException>(() => Connect().Dispose());
        using ListenSocket socket = Open();
        using Socket client = Connect();
        Assert.True(client.Connected);
    }

    [Theory]
    [InlineData(SystemCalls.EROFS, "lies on a read-only file system and cannot be removed; choose a path under /run or /tmp")]
    [InlineData(SystemCalls.EACCES, "may not remove the stale socket /srv/app/app.sock; give that user the right to write in /srv/app")]
    [InlineData(SystemCalls.EPERM, "belongs to another user and cannot be removed")]
    [InlineData(SystemCalls.EMFILE, "cannot be removed: ")]
    public void Stale_socket_that_stays_is_refused_with_what_happened_and_a_cure(int errno, string said)
    {
        string message = UnixListener.CannotRemove("/srv/app/app.sock", errno).Message;
        Assert.Contains(said, message, StringComparison.Ordinal);
        Assert.Equal(errno == SystemCalls.EPERM, message.Contains("another user", StringComparison.Ordinal));
    }

    [Fact]
    public void Live_socket_is_refused_with_its_owner_and_left_alone()
    {
        using ListenSocket socket = Open();
        var refusal = Assert.Throws<MillraceStartException>(() => Open());
        Assert.Equal($"The socket {SocketPath} is in use by this process already: the address is given twice, or another server of this process has it; leave one out or choose another path.", refusal.Message);
        using Socket client = Connect();
        Assert.True(client.Connected);
    }

    [Fact]
    public void Live_socket_with_a_full_queue_is_refused()
    {
        using var listener = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        listener.Bind(new UnixDomainSocketEndPoint(SocketPath));
        listener.Listen(0);
        using Socket waiting = Connect();
        var refusal = Assert.Throws<MillraceStartException>(() => Open());
        Assert.Contains("queue of connections is full", refusal.Message, StringComparison.Ordinal);
        Assert.True(File.Exists(SocketPath));
    }

    [Fact]
    public void Socket_of_another_type_is_refused()
    {
        using var datagrams = new Socket(AddressFamily.Unix, SocketType.Dgram, ProtocolType.Unspecified);
        datagrams.Bind(new UnixDomainSocketEndPoint(SocketPath));
        var refusal = Assert.Throws<MillraceStartException>(() => Open());
        Assert.Contains("another type of socket", refusal.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("file")]
    [InlineData("directory")]
    [InlineData("link")]
    public void What_is_not_a_socket_is_refused_and_left_alone(string what)
    {
        if (what == "file")
        {
            File.WriteAllText(SocketPath, "precious");
        }
        else if (what == "directory")
        {
            Directory.CreateDirectory(SocketPath);
        }
        else
        {
            File.CreateSymbolicLink(SocketPath, Path.Combine(_directory.FullName, "elsewhere"));
        }

        var refusal = Assert.Throws<MillraceStartException>(() => Open());
        Assert.Equal($"{SocketPath} exists and is not a socket; remove it or choose another path.", refusal.Message);
        Assert.NotNull(FileFacts.At(SocketPath, out _));
    }

    [Fact]
    public void Missing_directory_is_refused_with_a_cure()
    {
        string path = Path.Combine(_directory.FullName, "missing", "app.sock");
        var refusal = Assert.Throws<MillraceStartException>(() => ListenSockets.Open(ListenAddress.Parse("http://unix:" + path), 1));
        Assert.Contains($"mkdir -p {Path.GetDirectoryName(path)}", refusal.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Path_through_a_file_is_refused_with_a_cure()
    {
        File.WriteAllText(SocketPath, string.Empty);
        var refusal = Assert.Throws<MillraceStartException>(() => ListenSockets.Open(ListenAddress.Parse($"http://unix:{SocketPath}/app.sock"), 1));
        Assert.Contains("not a directory", refusal.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void File_is_removed_on_dispose()
    {
        Open().Dispose();
        Assert.False(File.Exists(SocketPath));
    }

    [Fact]
    public void File_of_a_successor_is_left_alone_on_dispose()
    {
        ListenSocket first = Open();
        File.Delete(SocketPath);
        using ListenSocket second = Open();
        first.Dispose();
        using Socket client = Connect();
        Assert.True(client.Connected);
    }

    [Fact]
    public void Path_of_107_bytes_works()
    {
        string path = Path.Combine(_directory.FullName, new string('s', ListenAddressParser.PathBytesMax - _directory.FullName.Length - 1));
        using ListenSocket socket = ListenSockets.Open(ListenAddress.Parse("http://unix:" + path), 1)[0];
        Assert.Equal(path, SocketName.Of(socket.Descriptor)!.Value.Path);
        Assert.True(File.Exists(path));
    }

    [Fact]
    public void Socket_does_not_block_and_does_not_leak_into_children()
    {
        using ListenSocket socket = Open();
        Assert.Equal(SystemCalls.FD_CLOEXEC, SystemCalls.Fcntl(socket.Descriptor, SystemCalls.F_GETFD, 0));
        Assert.NotEqual(0, SystemCalls.Fcntl(socket.Descriptor, SystemCalls.F_GETFL, 0) & SystemCalls.O_NONBLOCK);
    }

    private ListenSocket Open(string options = "") =>
        Assert.Single(ListenSockets.Open(ListenAddress.Parse($"fastcgi://unix:{SocketPath}{options}"), 4));

    private Socket Connect()
    {
        var client = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        client.Connect(new UnixDomainSocketEndPoint(SocketPath));
        return client;
    }

    // Closing does not remove the file: that is how a killed server leaves it. (Disposing a bound Socket would; its descriptor is closed by hand.)
    private unsafe void LeaveStaleSocket()
    {
        int descriptor = SystemCalls.Socket(SystemCalls.AF_UNIX, SystemCalls.SOCK_STREAM | SystemCalls.SOCK_CLOEXEC, 0);
        byte[] name = SocketName.Write(SocketPath);
        fixed (byte* bytes = name)
        {
            Assert.Equal(0, SystemCalls.Bind(descriptor, bytes, (uint)name.Length));
        }

        Assert.Equal(0, SystemCalls.Listen(descriptor, 1));
        _ = SystemCalls.Close(descriptor);
        Assert.True(File.Exists(SocketPath));
    }

    // A group this process may give a file to: any for root, otherwise one it is a member of.
    private static (string Name, uint Id) AnotherGroup()
    {
        string[] mine = File.ReadAllLines("/proc/self/status").First(line => line.StartsWith("Groups:", StringComparison.Ordinal))[7..]
            .Split([' ', '\t'], StringSplitOptions.RemoveEmptyEntries);
        string[][] groups = [.. File.ReadAllLines("/etc/group").Select(line => line.Split(':')).Where(fields => fields.Length > 2)];
        string[] chosen = groups.Last(fields => SystemCalls.GetEffectiveUser() == 0 ? fields[2] != "0" : mine.Contains(fields[2]));
        return (chosen[0], uint.Parse(chosen[2], CultureInfo.InvariantCulture));
    }

    [LibraryImport("libc", EntryPoint = "umask")]
    private static partial uint SetFileCreationMask(uint mask);
}
