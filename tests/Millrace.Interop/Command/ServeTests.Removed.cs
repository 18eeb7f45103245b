// Somebody tidies up where the daemon has its sockets.

using System.Net;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    private string Sockets => Path.GetDirectoryName(Control)!;

    [Fact]
    public async Task A_file_that_is_looked_for_from_a_folder_that_is_gone_is_a_sentence()
    {
        string command = CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command");
        await using var check = CommandProcess.StartProgram("bash", "-c", $"mkdir {_directory.Path}/gone && cd {_directory.Path}/gone && rmdir {_directory.Path}/gone && exec dotnet {command} check ../millrace.json");
        Assert.Equal(2, await check.WaitForExitAsync());
        Assert.Equal("millrace: The folder that this command is run in has been removed, and '../millrace.json' is looked for from there. Go to another folder, or name the file with its whole path.\n", check.Error);
    }

    [Theory]
    [InlineData("shared", false)]
    [InlineData("shared", true)]
    [InlineData("shared/blog.app.sock", false)]
    [InlineData("", false)]
    public async Task Who_removes_the_sockets_of_a_shared_address_keeps_nobody_from_its_applications_for_long(string what, bool moves)
    {
        WriteShared(On("blog", "\"host\": \"blog.example\"", "\"environment\": { \"TITLE\": \"Blog\" }"), On("idle", "\"host\": \"idle.example\"", "\"onDemand\": true", "\"environment\": { \"TITLE\": \"Idle\" }"), On("held", "\"host\": \"held.example\""), On("rest", "\"environment\": { \"TITLE\": \"Rest\" }"));
        var daemon = await StartAsync("idle: waits for its first visitor");
        await WaitForServingAsync("front", "blog", "held", "rest");
        string page = Path.Combine(_directory.Path, "sorry.html");
        await System.IO.File.WriteAllTextAsync(page, "<p>Later</p>");
        Assert.Equal((0, "held: held\n", ""), await DoAsync("hold", "held", "--page", page));
        Assert.Equal("Blog", await AskAsync("blog.example", "/title"));
        int before = ProcessesOf("rest", await StatusAsync()).Single();

        string removed = Path.Combine(Sockets, what);
        if (moves)
        {
            Directory.Move(removed, Sockets + "-old");
        }
        else if (System.IO.File.Exists(removed))
        {
            System.IO.File.Delete(removed);
        }
        else
        {
            Directory.Delete(removed, recursive: true);
        }

        // Whatever is replaced from then on is found: the routers, and every application, also one that has no process.
        await WaitForAsync(async () => System.IO.File.Exists(Path.Combine(Sockets, "shared/blog.app.sock")) && await IsAnsweredAsync("blog.example", "Blog") && await IsAnsweredAsync("idle.example", "Idle") && await IsAnsweredAsync("other.example", "Rest") && await IsAnsweredAsync("held.example", "<p>Later</p>"));
        if (what.Length == 0)
        {
            daemon.Signal(SigHup);
            await WaitForAsync(() => Task.FromResult(System.IO.File.Exists(Control)));
        }
        await WaitForServingAsync("front", "blog", "idle", "rest");
        foreach (string app in (string[])["blog", "idle", "front"])
        {
            Assert.Equal((0, $"{app}: serving\n", ""), await DoAsync("reload", app));
        }
        Assert.Equal("Blog", await AskAsync("blog.example", "/title"));
        Assert.Equal("Idle", await AskAsync("idle.example", "/title"));
        Assert.Equal("Rest", await AskAsync("other.example", "/title"));
        Assert.Equal(what == "shared/blog.app.sock", ProcessesOf("rest", await StatusAsync()).Single() == before);      // whom it does not concern is left alone
    }

    // The socket is opened anew for the one that takes the place of a process; the other one does not listen there.
    [Fact]
    public async Task A_generation_of_which_one_process_has_the_new_socket_is_replaced_as_a_whole()
    {
        WriteShared(On("blog", "\"instances\": 2"));
        await StartAsync();
        int[] before = [.. ProcessesOf("blog", await StatusAsync())];

        System.IO.File.Delete(Path.Combine(Sockets, "shared/blog.app.sock"));
        Kill(before[0]);

        await WaitForAsync(async () => ProcessesOf("blog", await StatusAsync()) is var now && now.Count() == 2 && !now.Intersect(before).Any());
        Assert.Equal("", await AskAsync("x", "/title"));
    }

    // What has been replaced by nothing is tried again, though there is a socket by now.
    [Fact]
    public async Task One_whose_next_generation_does_not_start_is_found_again_as_soon_as_it_does()
    {
        string ends = Path.Combine(_directory.Path, "ends");
        WriteShared(On("blog", $"\"environment\": {{ \"ENDS_WHILE\": \"{ends}\" }}"));
        await StartAsync();
        await System.IO.File.WriteAllTextAsync(ends, "");

        System.IO.File.Delete(Path.Combine(Sockets, "shared/blog.app.sock"));

        await WaitForAsync(async () => AppOf("blog", await StatusAsync()).GetProperty("events").EnumerateArray().Any(static happened => happened.GetProperty("what").GetString()!.StartsWith("the next generation did not come about", StringComparison.Ordinal)));
        System.IO.File.Delete(ends);
        await WaitForAsync(() => IsAnsweredAsync("x", ""));
    }

    [Fact]
    public async Task What_is_removed_before_the_daemon_becomes_another_program_is_found_by_that()
    {
        WriteShared(On("blog"));
        await StartAsync();
        Directory.Delete(Path.Combine(Sockets, "shared"), recursive: true);

        Assert.Equal(0, (await DoAsync("upgrade")).ExitCode);

        await WaitForAsync(() => IsAnsweredAsync("x", ""));
        Assert.Equal(0, (await DoAsync("reload", "blog")).ExitCode);
        Assert.Equal("", await AskAsync("x", "/title"));
    }

    [Fact]
    public async Task What_is_removed_while_there_is_no_daemon_is_found_by_the_next_one()
    {
        WriteShared(On("blog"));
        var daemon = await StartAsync();
        daemon.Signal(CommandProcess.SigKill);
        await daemon.WaitForExitAsync();
        Directory.Delete(Path.Combine(Sockets, "shared"), recursive: true);

        await StartAsync();

        await WaitForAsync(async () => await StatusAsync() is var status && AppOf("blog", status).GetProperty("generation").GetInt32() > 1 && AppOf("front", status).GetProperty("generation").GetInt32() > 1 && await IsAnsweredAsync("x", ""));
    }

    private async Task WaitForServingAsync(params string[] apps)
    {
        foreach (string app in apps)
        {
            await WaitForStatusAsync(app, "serving");
        }
    }

    private async Task<bool> IsAnsweredAsync(string host, string text)
    {
        using var limit = new CancellationTokenSource(TimeSpan.FromSeconds(10));
        using var request = new HttpRequestMessage(HttpMethod.Get, _shop + "/title");
        request.Headers.Host = host;
        try
        {
            using var answer = await _client.SendAsync(request, limit.Token);
            return answer.StatusCode != HttpStatusCode.BadGateway && await answer.Content.ReadAsStringAsync(limit.Token) == text;
        }
        catch (OperationCanceledException)
        {
            return false;
        }
    }
}
