// Folders of applications in which somebody has made more than any application has, and processes that keep whoever looks at them.

using System.Runtime.Versioning;
using Millrace.Command;
using Millrace.Command.Running;
using Millrace.Command.Serving;

namespace Millrace.Tests.Command;

[SupportedOSPlatform("linux")]
public sealed class SnapshotLimitTests : IDisposable
{
    private const int Many = 300;

    private readonly string _root = Directory.CreateTempSubdirectory("millrace-snapshot-").FullName;

    public void Dispose() => Directory.Delete(_root, recursive: true);

    private string App => Path.Combine(_root, "app");

    private string Snapshots => Path.Combine(_root, "snapshots");

    private DaemonPlaces Places => new(Path.Combine(_root, "control.sock"), Snapshots);

    [Fact]
    public void The_limits_are_those_of_the_manual() => Assert.Equal((100_000, 100_000), (CodeFiles.EntriesMax, ReaderOf(null).EntriesMax));

    [Theory]
    [InlineData("x", ".dll")]
    [InlineData("de/x", ".dll")]
    [InlineData("x", "/")]
    [InlineData("x", "/x.dll")]
    public void Code_and_folders_are_kept_up_to_the_limit_and_no_further(string begin, string end)
    {
        int all = Make(begin, end) + 1;     // and Shop.dll

        Assert.NotNull(CodeFiles.Read(App, seen: null, all));
        var failure = Assert.Throws<CommandFailure>(() => CodeFiles.Read(App, seen: null, all - 1));
        Assert.StartsWith($"{App} holds more than {all - 1} files of code and folders. ", failure.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(8, true)]
    [InlineData(9, false)]
    public void Code_is_found_in_the_folder_and_eight_levels_below_it(int levels, bool isFound)
    {
        string below = string.Concat(Enumerable.Repeat("x/", levels));
        Make(below, ".dll");

        Assert.Equal(isFound, CodeFiles.Read(App)!.Folders.Count == 1);
        using CodeSnapshot snapshot = Take(1_000);
        Assert.True(File.Exists($"{Snapshots}/shop/{below}0.dll"));
        Assert.Equal(isFound, new DirectoryInfo(Snapshots + "/shop/x").LinkTarget is null);
    }

    // Pages, pictures, what visitors have sent: of that there is any number.
    [Theory]
    [InlineData("x", ".jpg")]
    [InlineData("data/x", ".jpg")]
    [InlineData("data/x/", "/y/z.jpg")]
    public void What_is_no_code_does_not_count(string begin, string end)
    {
        Make(begin, end);
        File.WriteAllText(App + "/Shop", "");
        bool hasFoldersAtOnce = end[0] == '/';

        Assert.Equal(["Shop", "Shop.dll"], CodeFiles.Read(App, seen: null, hasFoldersAtOnce ? Many + 10 : 4)!.Files);
    }

    [Theory]
    [InlineData("x", ".dll")]
    [InlineData("x", ".jpg")]
    [InlineData("x", "/x.dll")]
    public void A_copy_has_so_many_files_folders_and_links_and_no_more(string begin, string end)
    {
        int all = Make(begin, end) + 1;

        using (CodeSnapshot snapshot = Take(all))
        {
            Assert.Equal(all, Directory.GetFileSystemEntries(Snapshots + "/shop", "*", SearchOption.AllDirectories).Length);
        }
        var failure = Assert.Throws<CommandFailure>(() => Take(all - 1));
        Assert.Contains($" a copy of the application has more than {all - 1} files, folders and links. ", failure.Message, StringComparison.Ordinal);
        Assert.Empty(Directory.GetFileSystemEntries(Snapshots));
    }

    [Fact]
    public async Task What_is_too_much_is_no_end_of_looking_for_changes()
    {
        Make("x", ".dll");
        List<string> said = [];
        int max = Many + 1;
        var watch = new CodeWatch(new PatientLook(), said.Add) { EntriesMax = () => max };
        await watch.BeginAsync(App, user: null, TestContext.Current.CancellationToken);
        max = Many;
        Assert.False(await watch.HasChangedAsync(TestContext.Current.CancellationToken));
        Assert.False(await watch.HasChangedAsync(TestContext.Current.CancellationToken));
        Assert.StartsWith("changes of its files are not seen for the time being: " + App + " holds more than 300", Assert.Single(said), StringComparison.Ordinal);

        max = Many + 2;
        File.WriteAllText(App + "/y.dll", "");
        Assert.True(await watch.HasChangedAsync(TestContext.Current.CancellationToken));
    }

    // A process may have put anything into the place of its command line, such as a page of a file of FUSE that nobody ever delivers.
    [Fact]
    public async Task A_process_that_keeps_its_command_line_keeps_no_application_from_its_start()
    {
        using var asked = new ManualResetEventSlim();
        using var never = new ManualResetEventSlim();
        IEnumerable<string> Standing()
        {
            asked.Set();
            never.Wait(CancellationToken.None);
            yield break;
        }
        string left = CodeSnapshot.Prepare(Snapshots, Places.Control, runsAsOthers: true) + "/left-1-1";
        Directory.CreateDirectory(left);
        using var folders = new DaemonFolders(Places) { CommandLines = Standing };
        try
        {
            for (int i = 0; i < 2; i++)
            {
                Assert.Equal(Path.GetDirectoryName(left), await Task.Run(() => folders.Snapshots, CancellationToken.None).WaitAsync(TimeSpan.FromSeconds(10), TestContext.Current.CancellationToken));
            }
            Assert.True(asked.Wait(TimeSpan.FromSeconds(10), TestContext.Current.CancellationToken));
            Assert.True(Directory.Exists(left));
        }
        finally
        {
            never.Set();
        }
        Assert.True(SpinWait.SpinUntil(() => !Directory.Exists(left), TimeSpan.FromSeconds(20)));
    }

    // Of a user without a home both are in /tmp/millrace-UID.
    [Fact]
    public void Where_one_daemon_had_its_snapshots_the_next_has_its_sockets()
    {
        CodeSnapshot.Prepare(Path.Combine(_root, "own/snapshots"), Places.Control, runsAsOthers: false);
        using var next = new DaemonFolders(new DaemonPlaces(Path.Combine(_root, "own/control.sock"), Snapshots));

        Assert.Equal(Path.Combine(_root, "own"), next.Sockets);
    }

    // The folder has one file of code besides.
    private int Make(string begin, string end)
    {
        for (int i = 0; i < Many; i++)
        {
            string path = Path.Combine(App, FormattableString.Invariant($"{begin}{i}{end}"));
            Directory.CreateDirectory(Path.GetDirectoryName(path)!);
            if (!path.EndsWith('/'))
            {
                File.WriteAllText(path, "");
            }
        }
        File.WriteAllText(Path.Combine(App, "Shop.dll"), "");
        foreach (string file in Directory.GetFiles(App, "*", SearchOption.AllDirectories))
        {
            File.SetLastWriteTimeUtc(file, DateTime.UtcNow.AddMinutes(-1));
        }
        return Directory.GetFileSystemEntries(App, "*", SearchOption.AllDirectories).Length - 1;
    }

    private CodeSnapshot Take(int entriesMax)
    {
        Directory.CreateDirectory(Snapshots);
        return CodeSnapshot.Take(App + "/Shop.dll", Snapshots, "shop", ReaderOf(entriesMax));
    }

    private static CodeReader ReaderOf(int? entriesMax)
    {
        var reader = new CodeReader(User: null, Group: null, static () => { }, CancellationToken.None);
        return entriesMax is { } max ? reader with { EntriesMax = max } : reader;
    }
}
