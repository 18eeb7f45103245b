// What of an application's folder is copied when a generation starts, what a link leads to, and when the code counts as changed.

using Millrace.Command;
using Millrace.Command.Running;
using Millrace.Command.Serving;
using Millrace.Tests.Listeners;

namespace Millrace.Tests.Command;

public sealed class CodeSnapshotTests : IDisposable
{
    private static readonly DateTime s_before = DateTime.UtcNow.AddMinutes(-1);

    private readonly string _root = Directory.CreateTempSubdirectory("millrace-snapshot-").FullName;

    public void Dispose() => Directory.Delete(_root, recursive: true);

    private string App => Path.Combine(_root, "app");

    private string Snapshots => Path.Combine(_root, "snapshots");

    [Fact]
    public async Task Code_is_copied_and_everything_else_is_a_link_to_what_lies_in_the_folder()
    {
        Write("Shop.dll", "Shop", "Shop.deps.json", "Shop.runtimeconfig.json", "Shop.pdb", "createdump", "de/Shop.resources.dll", "runtimes/linux-x64/native/libe.so.1", "runtimes/note.txt");
        Write("appsettings.json", "data/shop.db", "wwwroot/_framework/Client.dll", "shop", "empty/x/y.txt");

        using CodeSnapshot snapshot = await TakeAsync();
        string copy = Path.GetDirectoryName(snapshot.Move(new RunnableApp(App + "/Shop.dll", App, App + "/Shop")).Assembly)!;

        string[] copied = ["Shop.dll", "Shop", "Shop.deps.json", "Shop.runtimeconfig.json", "Shop.pdb", "createdump", "de/Shop.resources.dll", "runtimes/linux-x64/native/libe.so.1"];
        Assert.All(copied, name => Assert.Null(new FileInfo(Path.Combine(copy, name)).LinkTarget));
        Assert.All(copied, name => Assert.Equal("of " + name, File.ReadAllText(Path.Combine(copy, name))));
        string[] linked = ["appsettings.json", "data", "wwwroot", "shop", "empty", "runtimes/note.txt"];
        Assert.All(linked, name => Assert.Equal(Path.Combine(App, name), new FileInfo(Path.Combine(copy, name)).LinkTarget));
        Assert.Equal([.. copied.Concat(linked).Select(static name => name.Split('/')[0]).Distinct().Order(StringComparer.Ordinal)], Directory.GetFileSystemEntries(copy).Select(static entry => Path.GetFileName(entry)).Order(StringComparer.Ordinal));

        File.WriteAllText(Path.Combine(copy, "data/shop.db"), "written");
        snapshot.Dispose();
        Assert.False(Directory.Exists(copy));
        Assert.Equal("written", File.ReadAllText(App + "/data/shop.db"));
        Assert.True(File.Exists(App + "/wwwroot/_framework/Client.dll"));
    }

    // Some file systems keep times of which .NET has no word.
    [Fact]
    public void Code_of_a_time_beyond_all_calendars_is_code_and_its_changes_are_seen()
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        string folder = Directory.CreateDirectory($"/dev/shm/millrace-{Guid.NewGuid():N}").FullName;
        try
        {
            string file = Path.Combine(folder, "Shop.dll");
            File.WriteAllText(file, "old");
            using (var touch = System.Diagnostics.Process.Start("touch", ["-d", "@99999999999999", file]))
            {
                touch.WaitForExit();
            }
            string? then = CodeFiles.Sign(CodeFiles.Read(folder));
            DateTime written = CodeFiles.WrittenUtc(CodeFiles.Read(folder)!);
            string sources = SourceFiles.Sign([folder]);
            File.WriteAllText(file, "younger");

            Assert.NotNull(then);
            Assert.True(written > DateTime.UtcNow);
            Assert.NotEqual(then, CodeFiles.Sign(CodeFiles.Read(folder)));
            Assert.Equal(sources, SourceFiles.Sign([folder]));
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }

    // Root runs it for another user: who can write there could have root remove, or give away, what a link leads to.
    [Theory]
    [InlineData(false, "700 400 500")]
    [InlineData(true, "750 440 550")]
    public async Task A_copy_is_read_by_the_users_group_at_most_and_written_by_nobody(bool hasUser, string modes)
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        Write("Shop.dll", "Shop", "de/Shop.resources.dll");
        File.SetUnixFileMode(App + "/Shop.dll", (UnixFileMode)0x1B6);
        File.SetUnixFileMode(App + "/Shop", (UnixFileMode)0x1FF);
        File.SetUnixFileMode(App + "/de", (UnixFileMode)0x1FF);

        uint group = Posix.Groups().First();
        CodeSnapshot snapshot = await TakeAsync(hasUser ? group : null);
        string copy = Path.GetDirectoryName(snapshot.Move(new RunnableApp(App + "/Shop.dll", App, null)).Assembly)!;
        Assert.Equal(modes, $"{ModeOf(copy)} {ModeOf(copy + "/de/Shop.resources.dll")} {ModeOf(copy + "/Shop")}");
        Assert.Equal(ModeOf(copy), ModeOf(copy + "/de"));
        Assert.Equal((Millrace.Platform.SystemCalls.GetEffectiveUser(), group), (FactsOf(copy).User, FactsOf(copy + "/Shop").Group));

        snapshot.Dispose();
        Assert.False(Directory.Exists(copy));
    }

    private static string CopyOf(CodeSnapshot snapshot) => Path.GetDirectoryName(snapshot.Move(new RunnableApp("/Shop.dll", "/", null)).Assembly)!;

    private static string ModeOf(string path) => FactsOf(path).ModeText;

    private static Millrace.Listeners.FileFacts FactsOf(string path) => Millrace.Listeners.FileFacts.At(path, out _)!.Value;

    [Fact]
    public async Task While_files_are_written_there_is_no_copy()
    {
        Write("Shop.dll");
        File.SetLastWriteTimeUtc(App + "/Shop.dll", DateTime.UtcNow);
        Task<CodeSnapshot> taking = TakeAsync();
        long writtenAt = Environment.TickCount64;
        for (int i = 0; i < 5; i++)
        {
            await Task.Delay(100, CancellationToken.None);
            if (Environment.TickCount64 - writtenAt > 400)
            {
                return;     // this machine has given this test no time: it was quiet for so long
            }
            writtenAt = Environment.TickCount64;
            File.WriteAllText(App + "/Shop.dll", $"part {i}");
            Assert.False(taking.IsCompleted);
        }

        using CodeSnapshot snapshot = await taking;
        Assert.Equal("part 4", await File.ReadAllTextAsync(snapshot.Move(new RunnableApp(App + "/Shop.dll", App, null)).Assembly, CancellationToken.None));
    }

    [Fact]
    public async Task A_place_without_room_or_rights_is_a_sentence()
    {
        Write("Shop.dll");
        File.WriteAllText(_root + "/file", "");

        var failure = await Assert.ThrowsAsync<CommandFailure>(() => TakeAsync(_root + "/file", "shop-1"));

        Assert.Contains($"The code in {App} cannot be copied to {_root}/file/shop-1: ", failure.Message, StringComparison.Ordinal);
        Assert.Contains("name another folder with \"snapshots\"", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Copies_that_no_process_runs_from_go_when_a_daemon_starts_and_others_stay()
    {
        string folder = PrepareAt("/run/a/control.sock");
        string others = PrepareAt("/run/b/control.sock");
        Assert.NotEqual(folder, others);
        Directory.CreateDirectory(folder + "/left-1-1/de");
        Directory.CreateDirectory(folder + "/used-1-1");
        Directory.CreateDirectory(folder + "/kept-1-1");
        Directory.CreateDirectory(others + "/other-1-1");
        using var process = System.Diagnostics.Process.Start(new System.Diagnostics.ProcessStartInfo("/bin/sh", ["-c", "read -r line", folder + "/used-1-1/Shop.dll"]) { RedirectStandardInput = true })!;
        try
        {
            using var folders = new DaemonFolders(new DaemonPlaces("/run/a/control.sock", Snapshots));
            _ = folders.Resume(new CodeState(folder, "kept-1-1", ""));
            Assert.Equal(folder, folders.Snapshots);
            Assert.True(SpinWait.SpinUntil(() => !Directory.Exists(folder + "/left-1-1"), TimeSpan.FromSeconds(20)));
            Assert.Equal([folder + "/kept-1-1", folder + "/used-1-1"], Directory.GetDirectories(folder).Order(StringComparer.Ordinal));
            Assert.Equal([others + "/other-1-1"], Directory.GetDirectories(others));
        }
        finally
        {
            process.Kill();
        }
    }

    [Fact]
    public void A_folder_that_others_may_write_to_holds_no_code()
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        Directory.CreateDirectory(Snapshots);
        File.SetUnixFileMode(Snapshots, (UnixFileMode)0x1FF);

        var failure = Assert.Throws<CommandFailure>(() => PrepareAt("/run/a/control.sock"));

        Assert.StartsWith($"{Snapshots} was to hold the applications' code, but it is open to others (mode 777)", failure.Message, StringComparison.Ordinal);
        Assert.Contains("\"snapshot\": false", failure.Message, StringComparison.Ordinal);
        File.SetUnixFileMode(Snapshots, (UnixFileMode)0x1C9);
        Assert.StartsWith(Snapshots + "/", PrepareAt("/run/a/control.sock"), StringComparison.Ordinal);
    }

    // Who may write in the folder may put anything there under the name of code: what has no end is not copied, and nobody is waited for.
    [Fact]
    public async Task What_is_no_file_is_no_code()
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        Write("Shop.dll", "de/Shop.resources.dll");
        File.CreateSymbolicLink(App + "/Endless.so", "/dev/zero");
        File.CreateSymbolicLink(App + "/Folder.dll", "de");
        File.CreateSymbolicLink(App + "/Nowhere.dll", "nowhere");
        File.CreateSymbolicLink(App + "/Other.dll", "Shop.dll");
        AnotherUser.RunAsThis($"mkfifo {App}/Pipe.dll");

        using CodeSnapshot snapshot = await TakeAsync();
        string copy = CopyOf(snapshot);
        Assert.All((string[])["Endless.so", "Folder.dll", "Nowhere.dll", "Pipe.dll"], name => Assert.Equal(App + "/" + name, new FileInfo(copy + "/" + name).LinkTarget));
        Assert.All((string[])["Shop.dll", "Other.dll"], name => Assert.Null(new FileInfo(copy + "/" + name).LinkTarget));
        Assert.Equal("of Shop.dll", await File.ReadAllTextAsync(copy + "/Other.dll", CancellationToken.None));
    }

    [Fact]
    public async Task Code_without_end_is_a_sentence()
    {
        Write("Shop.dll", "Large.dll");
        using (var large = File.OpenWrite(App + "/Large.dll"))
        {
            large.SetLength(17L * 1024 * 1024 * 1024);      // one hole
        }
        File.SetLastWriteTimeUtc(App + "/Large.dll", s_before);

        var failure = await Assert.ThrowsAsync<CommandFailure>(() => TakeAsync());

        Assert.StartsWith($"With {App}/Large.dll the code of the application is larger than 16 GiB.", failure.Message, StringComparison.Ordinal);
        Assert.Empty(Directory.GetFileSystemEntries(PrepareAt("/run/a/control.sock")));
    }

    [Fact]
    public async Task Holes_of_code_are_none_of_the_copys_bytes()
    {
        Write("Shop.dll", "Hole.dll");
        using (var hole = File.OpenWrite(App + "/Hole.dll"))
        {
            hole.SetLength(3_500_000);
            hole.Position = 2_000_000;
            hole.Write("in the middle"u8);
        }
        File.SetLastWriteTimeUtc(App + "/Hole.dll", s_before);

        using CodeSnapshot snapshot = await TakeAsync();
        Assert.Equal(await File.ReadAllBytesAsync(App + "/Hole.dll", CancellationToken.None), await File.ReadAllBytesAsync(CopyOf(snapshot) + "/Hole.dll", CancellationToken.None));
    }

    // The folder may be the user's own: what he cannot read root does not read for him.
    [Fact]
    public async Task Code_is_read_with_the_rights_of_the_user_that_it_runs_as()
    {
        if (!OperatingSystem.IsLinux() || OtherUser.Find("nobody") is not { } nobody)
        {
            return;     // there are no rights but one's own
        }

        File.SetUnixFileMode(_root, (UnixFileMode)0x1C9);
        Write("Shop.dll", "closed/Closed.dll");
        Directory.CreateDirectory(_root + "/hidden");
        File.WriteAllText(_root + "/secret", "of root's");
        File.WriteAllText(_root + "/hidden/secret", "of root's");
        File.SetUnixFileMode(_root + "/secret", UnixFileMode.UserRead);
        File.SetUnixFileMode(_root + "/hidden", UnixFileMode.UserExecute);
        File.SetUnixFileMode(App + "/closed", UnixFileMode.UserExecute);
        File.CreateSymbolicLink(App + "/Hidden.dll", _root + "/hidden/secret");
        using (CodeSnapshot snapshot = await TakeAsync(user: nobody))
        {
            Assert.Equal(["Hidden.dll", "Shop.dll", "closed"], Directory.GetFileSystemEntries(CopyOf(snapshot)).Select(static entry => Path.GetFileName(entry)).Order(StringComparer.Ordinal));
            Assert.Equal(_root + "/hidden/secret", new FileInfo(App + "/Hidden.dll").LinkTarget);
            Assert.All((string[])["Hidden.dll", "closed"], name => Assert.Equal(App + "/" + name, new FileInfo(CopyOf(snapshot) + "/" + name).LinkTarget));
        }

        File.CreateSymbolicLink(App + "/Leak.dll", _root + "/secret");
        var failure = await Assert.ThrowsAsync<CommandFailure>(() => TakeAsync(user: nobody));
        Assert.StartsWith($"{App}/Leak.dll may not be read. Let user nobody, whom the application runs as, read it", failure.Message, StringComparison.Ordinal);
        Assert.Empty(Directory.GetFileSystemEntries(PrepareAt("/run/a/control.sock")));
        Assert.Equal("of root's", await File.ReadAllTextAsync(App + "/Leak.dll", CancellationToken.None));
    }

    [Fact]
    public void A_thread_that_has_read_with_anothers_rights_has_its_own_again()
    {
        if (OtherUser.Find("nobody") is not { } nobody)
        {
            return;
        }

        FileRights before = Posix.RightsOfThread();
        Assert.Throws<FormatException>(() => OtherUser.Read<int>(nobody, () =>
        {
            FileRights his = Posix.RightsOfThread();
            Assert.Equal((65534u, his.Group), (his.User, Millrace.Listeners.Accounts.Find("nobody").Group));
            Assert.Equal(Posix.GroupsOf("nobody", his.Group), his.Groups);
            throw new FormatException();
        }));
        FileRights after = Posix.RightsOfThread();
        Assert.Equal((before.User, before.Group), (after.User, after.Group));
        Assert.Equal(before.Groups, after.Groups);
    }

    // Building is running: a project that somebody has put into the folder does what he likes.
    [Fact]
    public async Task A_project_is_built_by_the_user_that_the_application_runs_as()
    {
        if (!OperatingSystem.IsLinux() || OtherUser.Find("nobody") is not { } nobody)
        {
            return;
        }

        File.SetUnixFileMode(_root, (UnixFileMode)0x1FF);
        Directory.CreateDirectory(App);
        await File.WriteAllTextAsync(App + "/Shop.csproj", $"<Project><Target Name=\"Build\"><Exec Command=\"touch {_root}/built\" /></Target></Project>", CancellationToken.None);

        var failure = await Assert.ThrowsAsync<CommandFailure>(() => ProjectBuild.BuildAsync(new ProjectBuild.Order(App + "/Shop.csproj", nobody), static _ => { }, "see there", CancellationToken.None));

        // He has no home, without which `dotnet` builds nothing; where he has one the project builds, and is no application.
        bool isBuilt = File.Exists(_root + "/built");
        Assert.Contains(isBuilt ? "builds no single assembly" : "User nobody, whom the application runs as, builds it", failure.Message, StringComparison.Ordinal);
        Assert.True(!isBuilt || FactsOf(_root + "/built").User == 65534);
    }

    // ---- what counts as a change ----

    [Fact]
    public void Code_that_is_written_made_or_removed_is_another_state_and_content_is_not()
    {
        Write("Shop.dll", "de/Shop.resources.dll", "appsettings.json", "wwwroot/_framework/Client.dll", "data/x");
        string? before = Sign();

        Write("appsettings.json", "new.txt", "wwwroot/_framework/Client.dll", "wwwroot/New.dll", "data/y");
        File.SetLastWriteTimeUtc(App + "/appsettings.json", DateTime.UtcNow);
        Assert.Equal(before, Sign());

        string?[] states = [before, After(() => Write("More.dll")), After(() => File.SetLastWriteTimeUtc(App + "/Shop.dll", DateTime.UtcNow)), After(() => File.AppendAllText(App + "/de/Shop.resources.dll", "x")), After(() => File.Delete(App + "/de/Shop.resources.dll"))];
        Assert.Equal(states.Length, states.Distinct().Count());
        Assert.All(states, Assert.NotNull);

        Directory.Delete(App, recursive: true);
        Assert.Null(Sign());
    }

    // Whether it is the folder itself that is a link, or one above it.
    [Theory]
    [InlineData("")]
    [InlineData("/shop")]
    public void A_link_that_leads_to_another_release_is_a_change(string below)
    {
        foreach (string release in (string[])["/one", "/two"])
        {
            Directory.CreateDirectory(_root + release + below);
            File.WriteAllText(_root + release + below + "/Shop.dll", "the same");
            File.SetLastWriteTimeUtc(_root + release + below + "/Shop.dll", s_before);
        }
        string link = _root + "/current";
        Directory.CreateSymbolicLink(link, "one");
        string? before = CodeFiles.Sign(CodeFiles.Read(link + below));
        Directory.Delete(link);
        Directory.CreateSymbolicLink(link, "two");

        Assert.NotNull(before);
        Assert.NotEqual(before, CodeFiles.Sign(CodeFiles.Read(link + below)));
    }

    // What it leads to may be written where it lies, and another link may lead to something older.
    [Fact]
    public void What_a_link_among_the_code_leads_to_is_code()
    {
        Directory.CreateDirectory(App);
        foreach (string release in (string[])["one", "two"])
        {
            Directory.CreateDirectory(_root + "/" + release);
            File.WriteAllText($"{_root}/{release}/Shop.dll", "the same");
            File.SetLastWriteTimeUtc($"{_root}/{release}/Shop.dll", s_before);
        }
        File.CreateSymbolicLink(App + "/Shop.dll", "../one/Shop.dll");
        List<string?> states = [Sign()];
        File.WriteAllText(_root + "/one/Shop.dll", "more than that");
        states.Add(Sign());
        Assert.InRange(CodeFiles.WrittenUtc(CodeFiles.Read(App)!), s_before.AddSeconds(30), DateTime.UtcNow);
        File.SetLastWriteTimeUtc(_root + "/one/Shop.dll", DateTime.UtcNow.AddHours(1));
        states.Add(Sign());
        File.Delete(App + "/Shop.dll");
        File.CreateSymbolicLink(App + "/Shop.dll", "../two/Shop.dll");
        states.Add(Sign());
        Assert.Equal(4, states.Distinct().Count());
        Assert.All(states, Assert.NotNull);
    }

    [Fact]
    public async Task A_change_is_told_when_it_is_over_and_only_once()
    {
        Write("Shop.dll");
        var watch = new CodeWatch(new PatientLook());
        await watch.BeginAsync(App, user: null, CancellationToken.None);
        using var end = new CancellationTokenSource();
        Task changed = watch.WaitForChangeAsync(end.Token);
        await Task.Delay(1_500, CancellationToken.None);
        Assert.False(changed.IsCompleted);

        await File.WriteAllTextAsync(App + "/Shop.dll", "new", CancellationToken.None);
        await changed.WaitAsync(TimeSpan.FromSeconds(20), CancellationToken.None);

        await watch.BeginAsync(App, user: null, CancellationToken.None);
        changed = watch.WaitForChangeAsync(end.Token);
        await Task.Delay(2_000, CancellationToken.None);
        Assert.False(changed.IsCompleted);
        watch.End();
        await File.WriteAllTextAsync(App + "/Shop.dll", "newer", CancellationToken.None);
        await Task.Delay(2_000, CancellationToken.None);
        Assert.False(changed.IsCompleted);
        await end.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => changed);
    }

    [Fact]
    public async Task What_was_watched_before_a_deployment_that_came_to_nothing_is_watched_again_and_has_changed()
    {
        Write("Shop.dll");
        var watch = new CodeWatch(new PatientLook());
        Assert.Null(watch.Watched);
        await watch.BeginAsync(App, user: null, CancellationToken.None);
        await File.WriteAllTextAsync(App + "/Shop.dll", "new", CancellationToken.None);
        object? watched = watch.Watched;
        watch.End();
        await watch.BeginAsync(App, user: null, CancellationToken.None);
        Assert.False(await watch.HasChangedAsync(CancellationToken.None));
        watch.Watched = watched;
        Assert.True(await watch.HasChangedAsync(CancellationToken.None));
    }

    private string? After(Action change)
    {
        change();
        return Sign();
    }

    private string? Sign() => CodeFiles.Sign(CodeFiles.Read(App));

    private void Write(params string[] names)
    {
        foreach (string name in names)
        {
            string path = Path.Combine(App, name);
            Directory.CreateDirectory(Path.GetDirectoryName(path)!);
            File.WriteAllText(path, "of " + name);
            File.SetLastWriteTimeUtc(path, s_before);
        }
    }

    private string PrepareAt(string control, bool runsAsOthers = true) => CodeSnapshot.Prepare(Snapshots, control, runsAsOthers);

    private Task<CodeSnapshot> TakeAsync(uint? group = null, OtherUser? user = null) => TakeAsync(PrepareAt("/run/a/control.sock"), "shop-1-1", group, user);

    private Task<CodeSnapshot> TakeAsync(string parent, string name, uint? group = null, OtherUser? user = null) =>
        Task.Run(() => CodeSnapshot.Take(App + "/Shop.dll", parent, name, new CodeReader(user, group, static () => { }, CancellationToken.None)));
}
