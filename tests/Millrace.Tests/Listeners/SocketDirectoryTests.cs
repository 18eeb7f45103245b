// Which directories a socket may be made in, where whoever can exchange it could have root do his work.

using System.Runtime.Versioning;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Listeners;

[SupportedOSPlatform("linux")]
public sealed class SocketDirectoryTests : IDisposable
{
    private readonly DirectoryInfo _directory = Directory.CreateTempSubdirectory("millrace-");

    public void Dispose() => _directory.Delete(recursive: true);

    [Theory]
    [InlineData("755", true)]
    [InlineData("700", true)]
    [InlineData("2755", true)]
    [InlineData("1777", true)]
    [InlineData("1770", true)]
    [InlineData("777", false)]
    [InlineData("775", false)]
    [InlineData("757", false)]
    [InlineData("722", false)]
    public void Hostile_74_A_directory_that_others_may_write_needs_the_sticky_bit(string mode, bool isTaken)
    {
        string directory = Make("a", mode);
        if (isTaken)
        {
            Open(directory + "/app.sock")!.Dispose();
            return;
        }

        var refusal = Assert.Throws<MillraceStartException>(() => Open(directory + "/app.sock"));
        Assert.Contains($"{directory}, on the way to {directory}/app.sock, has mode {mode}: others may write there", refusal.Message, StringComparison.Ordinal);
        Assert.Contains($"chmod go-w {directory}", refusal.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("a/b/app.sock")]
    [InlineData("a/b/../b/app.sock")]
    [InlineData("a//./b/app.sock")]
    [InlineData("link/app.sock")]
    [InlineData("absolute/app.sock")]
    public void Hostile_74_Every_directory_on_the_way_counts_also_behind_links(string file)
    {
        string wide = Make("a", "777");
        Make("a/b", "755");
        File.CreateSymbolicLink(Path.Combine(_directory.FullName, "link"), "a/b");
        File.CreateSymbolicLink(Path.Combine(_directory.FullName, "absolute"), wide + "/b");
        var refusal = Assert.Throws<MillraceStartException>(() => Open(Path.Combine(_directory.FullName, file)));
        Assert.StartsWith($"{wide}, on the way to", refusal.Message, StringComparison.Ordinal);

        File.SetUnixFileMode(wide, (UnixFileMode)0x1ED);
        using SocketDirectory opened = Open(Path.Combine(_directory.FullName, file))!;
        Assert.True(FileFacts.Of(opened.Descriptor, out _)!.Value.IsSame(FileFacts.At(wide + "/b", out _)!.Value));
        Assert.False(opened.OthersMayWrite);
    }

    [Theory]
    [InlineData("a", false)]
    [InlineData("a/b", false)]
    [InlineData("link", true)]
    public void Hostile_74_Nothing_on_the_way_belongs_to_another_user(string theirs, bool isLink)
    {
        Make("a", "755");
        Make("a/b", "755");
        File.CreateSymbolicLink(Path.Combine(_directory.FullName, "link"), "a/b");
        string given = Path.Combine(_directory.FullName, theirs);
        AnotherUser.Give(given);

        // Where there is no other user, the socket is for one that does not exist, to whom this one is another.
        uint user = AnotherUser.Exists ? 0u : 4_000_000_000u;
        string file = Path.Combine(_directory.FullName, isLink ? "link" : "a/b", "app.sock");
        var refusal = Assert.Throws<MillraceStartException>(() => SocketDirectory.OpenFor(user, file, out _));
        Assert.Contains("belongs to user", refusal.Message, StringComparison.Ordinal);
        Assert.True(!AnotherUser.Exists || refusal.Message.StartsWith($"{given}, on the way to {file}", StringComparison.Ordinal), refusal.Message);
    }

    [Fact]
    public void Hostile_74_Root_makes_no_socket_where_others_may_exchange_it()
    {
        string address = $"fastcgi://unix:{Make("a", "777")}/app.sock?mode=666";
        if (SystemCalls.GetEffectiveUser() != 0)
        {
            ListenSockets.Open(ListenAddress.Parse(address), 1)[0].Dispose();   // nobody else's rights are at stake
            return;
        }

        var refusal = Assert.Throws<MillraceStartException>(() => ListenSockets.Open(ListenAddress.Parse(address), 1));
        Assert.Contains("others may write there", refusal.Message, StringComparison.Ordinal);
        Assert.Empty(Directory.GetFileSystemEntries(_directory.FullName + "/a"));
    }

    [Fact]
    public void Links_in_a_circle_lead_nowhere()
    {
        File.CreateSymbolicLink(Path.Combine(_directory.FullName, "one"), "two");
        File.CreateSymbolicLink(Path.Combine(_directory.FullName, "two"), "one");
        Assert.Null(Open(Path.Combine(_directory.FullName, "one", "app.sock"), out int errno));
        Assert.Equal(SystemCalls.ELOOP, errno);
    }

    [Theory]
    [InlineData("missing/app.sock", SystemCalls.ENOENT)]
    [InlineData("file/app.sock", SystemCalls.ENOTDIR)]
    [InlineData("file/more/app.sock", SystemCalls.ENOTDIR)]
    public void What_is_missing_or_no_directory_is_told_by_its_number(string file, int expected)
    {
        File.WriteAllText(Path.Combine(_directory.FullName, "file"), string.Empty);
        Assert.Null(Open(Path.Combine(_directory.FullName, file), out int errno));
        Assert.Equal(expected, errno);
    }

    [Theory]
    [InlineData(0u, true)]
    [InlineData(65534u, false)]
    [InlineData(99u, false)]
    [InlineData(100u, true)]
    [InlineData(109u, true)]
    [InlineData(110u, false)]
    public void Users_outside_the_user_namespace_are_nobody_in_it(uint user, bool isMapped) =>
        Assert.Equal(isMapped, Accounts.IsMapped(user, ["         0       1000          1", "       100     100000         10"]));

    [Fact]
    public void Without_user_namespaces_every_user_is_one()
    {
        Assert.True(Accounts.IsMapped(65534, []));
        Assert.True(Accounts.IsMapped(65534, ["         0          0 4294967295"]));
        Assert.True(Accounts.IsMapped(SystemCalls.GetEffectiveUser()));
        Assert.True(Accounts.IsMappedGroup(FileFacts.At(_directory.FullName, out _)!.Value.Group));
    }

    private static SocketDirectory? Open(string file) => Open(file, out _);

    private static SocketDirectory? Open(string file, out int errno) => SocketDirectory.OpenFor(SystemCalls.GetEffectiveUser(), file, out errno);

    private string Make(string name, string mode)
    {
        string path = Path.Combine(_directory.FullName, name);
        Directory.CreateDirectory(path);
        File.SetUnixFileMode(path, (UnixFileMode)Convert.ToInt32(mode, 8));
        return path;
    }
}
