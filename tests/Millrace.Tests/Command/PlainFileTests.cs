// Files of an application's user that the daemon reads with that user's rights, where links by way of /proc lead past the folders that are closed to him.

using System.Runtime.Versioning;
using Millrace.Command.Running;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Tests.Command;

[SupportedOSPlatform("linux")]
public sealed unsafe class PlainFileTests : IDisposable
{
    private const string Text = "the secret";

    private readonly DirectoryInfo _temporary = Directory.CreateTempSubdirectory("millrace-plain-");
    private readonly DirectoryInfo _open;
    private readonly DirectoryInfo _inner;
    private readonly OtherUser? _nobody = OtherUser.Find("nobody");     // null where these tests are not root's
    private readonly int _folder;

    // open/closed/inner/file: everything may be read but for the folder on the way.
    public PlainFileTests()
    {
        File.SetUnixFileMode(_temporary.FullName, (UnixFileMode)0x1ED);     // 755
        _open = _temporary.CreateSubdirectory("open");
        _inner = _open.CreateSubdirectory("closed/inner");
        File.WriteAllText(SecretFile, Text);
        File.SetUnixFileMode(SecretFile, (UnixFileMode)0x1A4);      // 644
        File.SetUnixFileMode(_inner.Parent!.FullName, (UnixFileMode)0x1C0);     // 700
        fixed (byte* name = FileFacts.Encode(_inner.FullName))
        {
            _folder = SystemCalls.OpenAt(SystemCalls.AT_FDCWD, name, SystemCalls.O_CLOEXEC);
        }
        Assert.InRange(_folder, 0, int.MaxValue);
    }

    private string SecretFile => Path.Combine(_inner.FullName, "file");

    public void Dispose()
    {
        SystemCalls.Close(_folder);
        _temporary.Delete(recursive: true);
    }

    [Theory]
    [InlineData("folder")]
    [InlineData("file")]
    [InlineData("link")]
    public void What_lies_in_a_closed_folder_is_not_read_by_way_of_what_this_process_has_open(string way)
    {
        using var file = File.OpenHandle(SecretFile);
        string path = way == "folder" ? SystemCalls.PathOf(_folder) + "/file" : SystemCalls.PathOf((int)file.DangerousGetHandle());
        if (way == "link")
        {
            string link = Path.Combine(_open.FullName, "a.dll");
            File.CreateSymbolicLink(link, path);
            path = link;
        }

        Assert.Equal(Text, PlainFile.ReadText(path));       // with the rights of this process, which may go there
        if (_nobody is not null)
        {
            var refused = Assert.Throws<UnauthorizedAccessException>(() => OtherUser.Read(_nobody, () => PlainFile.ReadText(path)));
            Assert.Equal($"{path} may not be read: it leads to {SecretFile}, past a folder that is closed", refused.Message);
        }
    }

    [Fact]
    public void What_has_no_path_any_more_is_not_read()
    {
        using var file = File.OpenHandle(SecretFile);
        string path = SystemCalls.PathOf((int)file.DangerousGetHandle());
        File.Delete(SecretFile);

        Assert.Throws<FileNotFoundException>(() => PlainFile.ReadText(path));
        File.WriteAllText(SecretFile, "another");       // nor is it what has its path now
        Assert.Throws<FileNotFoundException>(() => PlainFile.ReadText(path));
    }

    [Fact]
    public void What_other_links_lead_to_is_read()
    {
        string file = Path.Combine(_open.FullName, "file"), link = Path.Combine(_open.FullName, "link"), folder = Path.Combine(_temporary.FullName, "folder");
        File.WriteAllText(file, "open");
        File.CreateSymbolicLink(link, "file");
        Directory.CreateSymbolicLink(folder, "open");

        Assert.Equal("open", OtherUser.Read(_nobody, () => PlainFile.ReadText(Path.Combine(folder, "link"))));
    }
}
