// The directory `millrace run` makes for its sockets, and what another user has put there first.

using System.Runtime.Versioning;
using Millrace.Command;
using Millrace.Command.Running;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;
using Millrace.Tests.Listeners;

namespace Millrace.Tests.Command;

[SupportedOSPlatform("linux")]
public sealed class OwnDirectoryTests : IDisposable
{
    private readonly DirectoryInfo _temporary = Directory.CreateTempSubdirectory("millrace-test-");

    public OwnDirectoryTests() => File.SetUnixFileMode(_temporary.FullName, (UnixFileMode)0x3FF);   // 1777, as /tmp

    private string Place => Path.Combine(_temporary.FullName, "millrace-0");

    public void Dispose() => _temporary.Delete(recursive: true);

    [Fact]
    public void Directory_is_made_for_its_user_alone()
    {
        Prepare();
        Assert.Equal(("700", SystemCalls.GetEffectiveUser()), (Found.ModeText, Found.User));
        Prepare();
        Assert.Equal("700", Found.ModeText);
    }

    [Fact]
    public void Directory_is_one_the_web_servers_group_may_enter_and_no_more()
    {
        WebServerGroup group = new("mine", GroupOfMine());
        Prepare(group);
        Assert.Equal(("710", group.Id), (Found.ModeText, Found.Group));
        Prepare(group);
        Prepare();
        Assert.Equal("700", Found.ModeText);
    }

    [Theory]
    [InlineData("777")]
    [InlineData("755")]
    [InlineData("1777")]
    [InlineData("720")]
    [InlineData("701")]
    public void Hostile_72_A_directory_with_a_wide_mode_is_not_used(string mode)
    {
        Directory.CreateDirectory(Place);
        File.SetUnixFileMode(Place, (UnixFileMode)Convert.ToInt32(mode, 8));
        Assert.Contains($"{Place} was to hold the socket, but it is open to others (mode {mode})", Refusal(), StringComparison.Ordinal);
        Assert.Equal(mode, Found.ModeText);
    }

    [Theory]
    [InlineData("700")]
    [InlineData("777")]
    public void Hostile_72_A_directory_of_another_user_is_not_used(string mode)
    {
        AnotherUser.Run($"umask 0 && mkdir -m {mode} {Place}");

        // Where nobody but this user runs the tests, another's directory is root's.
        string place = AnotherUser.Exists ? Place : "/usr";
        FileFacts before = FileFacts.At(place, out _)!.Value;
        Assert.Contains($"{place} was to hold the socket, but it belongs to somebody else (user {before.User})", Refusal(place), StringComparison.Ordinal);
        FileFacts now = FileFacts.At(place, out _)!.Value;
        Assert.Equal((before.ModeText, before.User, before.Group), (now.ModeText, now.User, now.Group));
    }

    [Theory]
    [InlineData("target")]
    [InlineData("/nowhere")]
    [InlineData("file")]
    public void Hostile_72_A_link_is_not_used_and_what_it_leads_to_stays_as_it_is(string target)
    {
        string directory = Path.Combine(_temporary.FullName, "target");
        Directory.CreateDirectory(directory);
        File.SetUnixFileMode(directory, UnixFileMode.UserRead | UnixFileMode.OtherRead);
        File.WriteAllText(Path.Combine(_temporary.FullName, "file"), "precious");
        AnotherUser.Run($"ln -s {target} {Place}");
        Assert.Contains("is a link", Refusal(), StringComparison.Ordinal);
        Assert.Equal("404", FileFacts.At(directory, out _)!.Value.ModeText);
    }

    [Fact]
    public void Hostile_72_What_is_no_directory_is_not_used()
    {
        File.WriteAllText(Place, "precious");
        Assert.Contains("is not a directory", Refusal(), StringComparison.Ordinal);
        Assert.Equal("precious", File.ReadAllText(Place));
    }

    [Fact]
    public void Hostile_72_No_directory_is_made_where_others_could_exchange_it()
    {
        File.SetUnixFileMode(_temporary.FullName, (UnixFileMode)0x1FF);
        Assert.Contains("others may write there", Refusal(), StringComparison.Ordinal);
        Assert.False(Directory.Exists(Place));
    }

    [Fact]
    public void Hostile_72_A_runtime_directory_that_is_another_users_is_no_ones_own()
    {
        Directory.CreateDirectory(Place);
        File.SetUnixFileMode(Place, (UnixFileMode)0x1C0);
        Assert.True(OwnDirectory.IsOwn(Place));
        File.SetUnixFileMode(Place, (UnixFileMode)0x1FF);
        Assert.False(OwnDirectory.IsOwn(Place));
        string link = Place + "-link";
        File.CreateSymbolicLink(link, Place);
        Assert.False(OwnDirectory.IsOwn(link));
        Assert.False(OwnDirectory.IsOwn(Place + "-none"));
        File.SetUnixFileMode(Place, (UnixFileMode)0x1C0);
        AnotherUser.Give(Place);
        Assert.Equal(!AnotherUser.Exists, OwnDirectory.IsOwn(Place));
    }

    [Theory]
    [InlineData("/usr/bin/dotnet", "/usr/bin/dotnet")]
    [InlineData("/opt/millrace", "/opt/dotnet/dotnet")]
    [InlineData(null, "/opt/dotnet/dotnet")]
    public void Dotnet_is_the_one_that_runs_the_command(string? process, string expected) =>
        Assert.Equal(expected, DotNet.Find(process, "/opt/dotnet/shared/Microsoft.NETCore.App/10.0.0/", "/usr/bin", static _ => true));

    [Theory]
    [InlineData("/usr/local/bin:/usr/bin", "/usr/bin/dotnet")]
    [InlineData(".:bin::/usr/bin", "/usr/bin/dotnet")]
    public void Hostile_72_Dotnet_is_never_looked_for_in_the_current_folder(string path, string expected) =>
        Assert.Equal(expected, DotNet.Find("/srv/app/millrace", "/srv/app/", path, file => file == "/usr/bin/dotnet" || !file.StartsWith('/')));

    [Fact]
    public void Without_a_dotnet_the_command_says_so() =>
        Assert.Contains("Install .NET 10", Assert.Throws<CommandFailure>(static () => DotNet.Find(null, "/srv/app/", ".:bin", static file => !file.StartsWith('/'))).Message, StringComparison.Ordinal);

    [Fact]
    public void Dotnet_of_this_process_is_there()
    {
        Assert.StartsWith("/", DotNet.Path, StringComparison.Ordinal);
        Assert.True(File.Exists(DotNet.Path));
    }

    private FileFacts Found => FileFacts.At(Place, out _)!.Value;

    private void Prepare(WebServerGroup? group = null) => Prepare(Place, group);

    private static void Prepare(string place, WebServerGroup? group = null) => DefaultAddress.Prepare(new SocketPlace(place, IsOwn: true, place + "/s", group));

    private string Refusal(string? place = null)
    {
        var failure = Assert.Throws<CommandFailure>(() => Prepare(place ?? Place));
        Assert.Contains("--urls fastcgi://unix:/PATH", failure.Message, StringComparison.Ordinal);
        return failure.Message;
    }

    // Root may give files to any group, others to their own.
    private static uint GroupOfMine() => SystemCalls.GetEffectiveUser() == 0 ? 33 : Posix.Groups().First();
}
