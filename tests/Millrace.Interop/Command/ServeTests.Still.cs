// File systems that stand still under one application: whoever waits for them waits for good, and that is nobody else's matter.

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    private string Still => Path.Combine(_directory.Path, "still");

    [Fact]
    public async Task A_folder_that_nobody_can_enter_keeps_its_own_application_waiting_and_no_other_and_not_the_end_of_the_daemon()
    {
        Directory.CreateDirectory(Still);
        Write(App("blog", _blog, $"\"workingDirectory\": \"{Still}\"").Replace("60s", "5s", StringComparison.Ordinal));
        var daemon = await StartAsync();
        using var folder = new StillFolder(Still);
        Kill(ProcessesOf("blog", await StatusAsync()).Single());
        await WaitForAsync(async () => AppOf("blog", await StatusAsync()).GetProperty("events").EnumerateArray().Any(static happened => happened.GetProperty("what").GetString()!.Contains("was not ready 5 s after its start", StringComparison.Ordinal)));

        Write(App("blog", _blog, $"\"workingDirectory\": \"{Still}\"").Replace("60s", "5s", StringComparison.Ordinal), App("shop", _shop));
        _ = await DoAsync("reload");
        await WaitForStatusAsync("shop", "serving");
        Assert.Equal("", await _client.GetStringAsync(_shop + "/title"));
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("restart", "shop"));

        var (exitCode, _, error) = await DoAsync("reload", "blog");
        Assert.Equal(1, exitCode);
        Assert.StartsWith($"millrace: blog: {Still} has not answered for 20 s: the file system that it lies on stands still. ", error, StringComparison.Ordinal);
        Assert.Equal("", await _client.GetStringAsync(_shop + "/title"));

        daemon.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await daemon.WaitForExitAsync());
    }

    [Theory]
    [InlineData("gone", "Could not find a part of the path")]
    [InlineData("file", "The directory name is invalid|Not a directory|Could not find")]
    public async Task A_working_directory_that_is_none_is_a_sentence(string name, string why)
    {
        await System.IO.File.WriteAllTextAsync(Path.Combine(_directory.Path, "file"), "");
        string path = Path.Combine(_directory.Path, name);
        Write(App("shop", _shop, $"\"workingDirectory\": \"{path}\""));
        await StartAsync(waitFor: "shop: it did not start");

        string reason = AppOf("shop", await StatusAsync()).GetProperty("reason").GetString()!;
        Assert.StartsWith($"{path}, which the application works in, cannot be entered: ", reason, StringComparison.Ordinal);
        Assert.Matches(why, reason);
    }

    [Fact]
    public async Task Code_that_stands_still_is_a_fault_of_its_own_application_and_keeps_no_reload_waiting()
    {
        Directory.CreateDirectory(Still);
        string app = Path.Combine(Still, "app");
        CopyAll(Path.GetDirectoryName(HostKinds)!, app);
        string Blog(string title) => App("blog", _blog, $$""" "environment": { "TITLE": "{{title}}" } """).Replace(HostKinds, Path.Combine(app, Path.GetFileName(HostKinds)), StringComparison.Ordinal);
        Write(App("shop", _shop), Blog("old"));
        var daemon = await StartAsync();

        using var folder = new StillFolder(Still);
        Write(App("shop", _shop, """ "environment": { "TITLE": "new" } """), Blog("new"));
        var reload = DoAsync("reload");
        await WaitForAsync(async () => await _client.GetStringAsync(_shop + "/title") == "new");
        var (exitCode, _, error) = await reload;
        Assert.Equal(1, exitCode);
        Assert.Matches(@"^millrace: blog: .*still.* has not answered for 20 s: the file system that it lies on stands still\. ", error);
        Assert.Equal("old", await _client.GetStringAsync(_blog + "/title"));
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("reload", "shop"));
        Assert.Equal((0, "blog: held\n", ""), await DoAsync("hold", "blog"));

        daemon.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await daemon.WaitForExitAsync());
    }

    [Fact]
    public async Task The_folder_of_a_socket_that_stands_still_keeps_no_other_application_from_what_systemd_has_kept_and_not_the_start_of_the_daemon()
    {
        Directory.CreateDirectory(Still);
        using var manager = new FakeManager(Path.Combine(_directory.Path, "notify"));
        Write(App("blog", $"fastcgi://unix:{Still}/blog.sock"), App("shop", $"fastcgi://unix:{Socket};{_shop}"));
        var daemon = StartUnder(manager);
        await daemon.WaitForErrorAsync("millrace: serving ");
        await WaitForStatusAsync("blog", "serving");
        await WaitForStatusAsync("shop", "serving");
        daemon.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await daemon.WaitForExitAsync());

        using var folder = new StillFolder(Still);
        daemon = StartUnder(manager);
        await daemon.WaitForOutputAsync("shop: generation 1 serves");
        Assert.Equal("", await _client.GetStringAsync(_shop + "/title"));
        await daemon.WaitForErrorAsync("millrace: serving ");
        await WaitForStatusAsync("blog", "waiting");
        Assert.Contains("has not answered for 20 s", AppOf("blog", await StatusAsync()).GetProperty("reason").GetString(), StringComparison.Ordinal);

        // However often that is tried: one thread waits there.
        int Threads() => Directory.GetDirectories($"/proc/{daemon.Id}/task").Length;
        int before = Threads();
        for (int i = 0; i < 6; i++)
        {
            Assert.Equal(1, (await DoAsync("restart", "blog")).ExitCode);
        }
        Assert.InRange(Threads(), 1, before + 4);
        Assert.Equal((0, "shop: serving\n", ""), await DoAsync("restart", "shop"));
    }

    // Whoever has asked there is ended by nothing: execve(2) would wait for it, and the daemon be no more.
    [Fact]
    public async Task A_folder_whose_program_has_been_asked_and_does_not_answer_keeps_the_daemon_from_an_upgrade_and_from_nothing_else()
    {
        Directory.CreateDirectory(Still);
        string blog = App("blog", _blog, $"\"workingDirectory\": \"{Still}\"");
        Write(blog, App("shop", _shop));
        var daemon = await StartAsync();
        using (new StillFolder(Still, isRead: true))
        {
            Write(blog.Replace("60s", "61s", StringComparison.Ordinal), App("shop", _shop, """ "environment": { "TITLE": "new" } """));
            Task reload = DoAsync("reload");
            await WaitForAsync(async () => await _client.GetStringAsync(_shop + "/title") == "new");
            var (exitCode, _, error) = await DoAsync("upgrade");
            Assert.Equal(1, exitCode);
            Assert.StartsWith($"millrace: 1 of the daemon's threads waits for a file system or a device that has not answered yet: {Still}. Where it never does, ", error, StringComparison.Ordinal);
            Assert.Equal((0, "shop: serving\n", ""), await DoAsync("restart", "shop"));
            Assert.Equal("", await _client.GetStringAsync(_blog + "/title"));
            await reload;
        }

        Assert.Equal(0, (await DoAsync("upgrade")).ExitCode);
        Assert.Equal("new", await _client.GetStringAsync(_shop + "/title"));
        daemon.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await daemon.WaitForExitAsync());
    }

    private static void CopyAll(string from, string to)
    {
        Directory.CreateDirectory(to);
        foreach (string file in Directory.GetFiles(from))
        {
            System.IO.File.Copy(file, Path.Combine(to, Path.GetFileName(file)));
        }
        foreach (string folder in Directory.GetDirectories(from))
        {
            CopyAll(folder, Path.Combine(to, Path.GetFileName(folder)));
        }
    }
}
