// `millrace run --reload` and `--watch`: one application whose processes replace one another, on SIGHUP and when its sources change, under load over each way to it. Every
// answer is checked, and a connection that is closed counts as a lost request.

using System.Globalization;
using System.Net;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public sealed class ReplacedRunTests : IDisposable
{
    private const int SigHup = 1;
    private const int SigKill = 9;
    private const int SigUsr1 = 10;
    private const int SigUsr2 = 12;
    private const int Reloads = 5;
    private const string Application = """
        var builder = WebApplication.CreateSlimBuilder(args);
        builder.Logging.ClearProviders();
        var app = builder.Build();
        app.MapGet("/version", () => Version.Text);
        app.MapGet("/health", () => "");
        app.MapPost("/echo", async context =>
        {
            context.Response.ContentLength = context.Request.ContentLength;
            await context.Request.Body.CopyToAsync(context.Response.Body);
        });
        app.Run();
        """;

    private readonly TemporaryDirectory _directory = new("replaced");
    private readonly string _http = ServeTests.FreeAddress();
    private readonly HttpClient _client = new() { Timeout = TimeSpan.FromSeconds(60) };

    private string Socket => Path.Combine(_directory.Path, "s");

    private string Urls => $"fastcgi://unix:{Socket};{_http}";

    private static string HostKinds => CommandProcess.AssemblyOf("tests/Millrace.Interop.HostKinds", "Millrace.Interop.HostKinds");

    public void Dispose()
    {
        _client.Dispose();
        _directory.Dispose();
    }

    [Fact]
    public async Task A_folder_of_somebody_elses_that_has_its_name_is_left_alone_and_another_one_made()
    {
        await using var app = CommandProcess.StartProgram(
            "bash", "-c", $"ln -s {_directory.Path} /tmp/millrace-run-$$; exec dotnet {CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command")} run {HostKinds} --reload --urls '{Urls}' -- Served");
        string taken = $"/tmp/millrace-run-{app.Id}";
        try
        {
            await app.WaitForOutputAsync($"listens on fastcgi://unix:{Socket} and {_http}");
            Assert.True(Directory.Exists(taken + "-1"));
            app.Signal(CommandProcess.SigTerm);
            Assert.Equal(0, await app.WaitForExitAsync());
            Assert.False(Directory.Exists(taken + "-1"));
            Assert.NotNull(new FileInfo(taken).LinkTarget);
        }
        finally
        {
            File.Delete(taken);
        }
    }

    // Who runs it alone has it where what a shell starts is.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_process_that_is_replaced_leads_a_session_of_its_own_and_any_other_is_in_that_of_the_command(bool isReplaced)
    {
        await using var app = CommandProcess.Millrace(["run", HostKinds, .. isReplaced ? ["--reload"] : Array.Empty<string>(), "--urls", Urls, "--", "Served"]);
        await app.WaitForOutputAsync($"listens on fastcgi://unix:{Socket} and {_http}");
        int process = int.Parse(await _client.GetStringAsync(_http + "/process"), CultureInfo.InvariantCulture);
        Assert.Equal(isReplaced ? (process, process) : ServeTests.GroupAndSessionOf(app.Id), ServeTests.GroupAndSessionOf(process));
    }

    [Fact]
    public async Task SIGHUP_puts_a_new_process_in_the_place_of_the_one_that_runs_and_no_request_is_lost()
    {
        await using var app = CommandProcess.Millrace("run", HostKinds, "--reload", "--urls", Urls, "--environment", "Staging", "--", "Served");
        await app.WaitForOutputAsync($"listens on fastcgi://unix:{Socket} and {_http}");
        List<string> processes = [await _client.GetStringAsync(_http + "/process")];
        await using FrontEndServer kept = await ServeTests.NginxAsync(Socket, UpstreamConnections.KeptAlive);
        await using FrontEndServer closed = await ServeTests.NginxAsync(Socket, UpstreamConnections.ClosedAfterEachRequest);

        ServeTests.Span[] answered = await ServeTests.LoadAsync([WayOf(_http), kept.Buffered, closed.Buffered], async () =>
        {
            for (int i = 0; i < Reloads; i++)
            {
                app.Signal(i % 2 == 0 ? SigUsr1 : SigUsr2);
                app.Signal(SigHup);
                await app.WaitForErrorAsync($"generation {i + 2} serves");
                await ComesTrueAsync(async () => await _client.GetStringAsync(_http + "/process") != processes[^1]);
                processes.Add(await _client.GetStringAsync(_http + "/process"));
            }
        });

        Assert.Equal(Reloads + 1, processes.Distinct().Count());
        Assert.True(answered.Length > 10_000, $"{answered.Length} requests");
        Assert.Empty(kept.ErrorLog());
        Assert.Empty(closed.ErrorLog());
        await ComesTrueAsync(() => Task.FromResult(processes.SkipLast(1).All(static process => !Directory.Exists("/proc/" + process))));

        app.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await app.WaitForExitAsync());
        Assert.False(File.Exists(Socket));
        Assert.False(Directory.Exists("/proc/" + processes[^1]));
    }

    [Fact]
    public async Task What_is_saved_is_built_and_answers_and_what_does_not_build_leaves_what_runs()
    {
        string project = await WriteProjectAsync("\"one\"");
        await using var app = CommandProcess.Millrace("run", project, "--watch", "--urls", Urls);
        await app.WaitForOutputAsync("listens on ");
        Assert.Equal("one", await VersionAsync());
        await using FrontEndServer kept = await ServeTests.NginxAsync(Socket, UpstreamConnections.KeptAlive);

        await ServeTests.LoadAsync([WayOf(_http), kept.Buffered], async () =>
        {
            await SaveAsync(project, "\"two\"");
            await ComesTrueAsync(async () => await VersionAsync() == "two");

            await SaveAsync(project, "two");
            await app.WaitForErrorAsync("the next generation did not come about, and 2 goes on: Watched.csproj does not build; the errors are above.");
            Assert.Matches(@"Version\.cs\(1,\d+\): error CS0103: ", app.Error);
            Assert.Equal("two", await VersionAsync());

            // One that builds, and does not start.
            await SaveAsync(project, "throw new System.InvalidOperationException(\"no \" + 3)", whole: true);
            await app.WaitForErrorAsync("and 2 goes on: ");
            await app.WaitForOutputAsync("no 3");
            Assert.Equal("two", await VersionAsync());

            await SaveAsync(project, "\"four\"");
            await ComesTrueAsync(async () => await VersionAsync() == "four");
        });

        Assert.Empty(kept.ErrorLog());
        app.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await app.WaitForExitAsync());
        Assert.False(File.Exists(Socket));
    }

    // The compiler has read the file by then, and what it makes is younger: MSBuild would take that for what was saved.
    [Fact]
    public async Task What_is_saved_while_it_is_compiled_is_built_next()
    {
        string project = await WriteProjectAsync("\"one\"");
        await File.WriteAllTextAsync(Path.Combine(project, "Directory.Build.targets"), """
            <Project>
              <Target Name="SavedMeanwhile" AfterTargets="CoreCompile" Condition="Exists('saved.txt')">
                <Exec Command="mv saved.txt Version.cs &amp;&amp; touch -r obj/Release/net10.0/Watched.dll -d '-1 second' Version.cs" />
              </Target>
            </Project>
            """);
        await using var app = CommandProcess.Millrace("run", project, "--watch", "--urls", Urls);
        await app.WaitForOutputAsync("listens on ");
        Assert.Equal("one", await VersionAsync());

        await SaveAsync(project, "\"three\"");
        File.Move(Path.Combine(project, "Version.cs"), Path.Combine(project, "saved.txt"));
        await SaveAsync(project, "\"two\"");
        await ComesTrueAsync(async () => await VersionAsync() == "three");
    }

    [Fact]
    public async Task However_often_SIGHUP_comes_one_generation_follows_the_one_that_is_on_its_way()
    {
        await using var app = CommandProcess.Millrace("run", HostKinds, "--reload", "--urls", Urls, "--", "Served");
        await app.WaitForOutputAsync("listens on ");
        for (int i = 0; i < 30; i++)
        {
            app.Signal(SigHup);
            await Task.Delay(10);
        }

        await app.WaitForErrorAsync("generation 3 serves");
        await Task.Delay(TimeSpan.FromSeconds(4));
        Assert.DoesNotContain("generation 4 serves", app.Error, StringComparison.Ordinal);
        app.Signal(SigHup);
        await app.WaitForErrorAsync("generation 4 serves");
    }

    [Fact]
    public async Task One_that_ends_while_a_generation_is_on_its_way_speaks_of_no_daemon()
    {
        await using var app = CommandProcess.Millrace("run", HostKinds, "--reload", "--urls", Urls, "--", "Served");
        await app.WaitForOutputAsync("listens on ");
        app.Signal(SigHup);
        await app.WaitForErrorAsync("the next generation is on its way");
        await Task.Delay(300);      // it has been started
        app.Signal(CommandProcess.SigTerm);

        Assert.Equal(0, await app.WaitForExitAsync());
        Assert.Contains("it was told to end", app.Error, StringComparison.Ordinal);
        Assert.DoesNotContain("daemon", app.Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task What_does_not_build_at_first_is_served_when_it_does()
    {
        string project = await WriteProjectAsync("one");
        await using var app = CommandProcess.Millrace("run", project, "--watch", "--urls", Urls);
        await app.WaitForErrorAsync("it did not start: Watched.csproj does not build; the errors are above.");
        Assert.Equal(HttpStatusCode.ServiceUnavailable, (await _client.GetAsync(_http + "/version")).StatusCode);

        await SaveAsync(project, "\"one\"");
        await app.WaitForOutputAsync("listens on ");
        Assert.Equal("one", await VersionAsync());
        Assert.Single(app.Error.Split('\n'), static line => line.Contains("it did not start", StringComparison.Ordinal));
    }

    [Fact]
    public async Task What_is_published_over_a_watched_folder_is_served()
    {
        string folder = Directory.CreateDirectory(Path.Combine(_directory.Path, "published")).FullName;
        foreach (string file in Directory.GetFiles(Path.GetDirectoryName(HostKinds)!))
        {
            File.Copy(file, Path.Combine(folder, Path.GetFileName(file)));
        }
        await File.WriteAllTextAsync(Path.Combine(folder, "version.deps.json"), "v1");
        await using var app = CommandProcess.Millrace("run", Path.Combine(folder, Path.GetFileName(HostKinds)), "--watch", "--urls", Urls, "--", "Served");
        await app.WaitForOutputAsync("listens on ");
        Assert.Equal("v1", await VersionAsync());

        await File.WriteAllTextAsync(Path.Combine(folder, "version.deps.json"), "v2");
        await ComesTrueAsync(async () => await VersionAsync() == "v2");
    }

    [Fact]
    public async Task A_process_that_crashes_is_replaced()
    {
        await using var app = CommandProcess.Millrace("run", HostKinds, "--reload", "--urls", Urls, "--", "Served");
        await app.WaitForOutputAsync("listens on ");
        string process = await _client.GetStringAsync(_http + "/process");
        await using (var kill = CommandProcess.StartProgram("kill", "-9", process))
        {
            Assert.Equal(0, await kill.WaitForExitAsync());
        }

        await app.WaitForErrorAsync($"process {process} was ended by signal 9");
        await app.WaitForErrorAsync(" serves in its place");
        using var another = new HttpClient();
        Assert.NotEqual(process, await another.GetStringAsync(_http + "/process"));
    }

    [Fact]
    public async Task What_stands_in_the_way_of_the_start_is_a_sentence_and_exit_code_1()
    {
        var ends = await CommandProcess.RunAsync("run", HostKinds, "--reload", "--urls", Urls, "--", "Worker");
        Assert.Equal(1, ends.ExitCode);
        Assert.Contains("ended with exit code 7 before it listened.", ends.Error, StringComparison.Ordinal);

        await using var first = CommandProcess.Millrace("run", HostKinds, "--reload", "--urls", Urls, "--", "Served");
        await first.WaitForOutputAsync("listens on ");
        var second = await CommandProcess.RunAsync("run", HostKinds, "--watch", "--urls", Urls);
        Assert.Equal((1, ""), (second.ExitCode, second.Output));
        Assert.Contains($"process {first.Id}", second.Error, StringComparison.Ordinal);
    }

    // Where ASP.NET Core would find them: the last of the arguments, and then the environment.
    [Theory]
    [InlineData("ASPNETCORE_URLS=http://127.0.0.1:1", "--urls={0}")]
    [InlineData("ASPNETCORE_URLS={0}", "--urlsFor=nothing")]
    public async Task Addresses_that_are_the_applications_are_opened_for_all_its_processes(string variable, string argument)
    {
        await using var app = CommandProcess.MillraceWith([string.Format(null, variable, _http)], "run", HostKinds, "--reload", "--", "Served", string.Format(null, argument, _http));
        await app.WaitForOutputAsync("listens on " + _http);
        string process = await _client.GetStringAsync(_http + "/process");
        app.Signal(SigHup);
        await ComesTrueAsync(async () => await _client.GetStringAsync(_http + "/process") != process);
    }

    // With the terminal goes whoever wanted it: that SIGHUP is no request for another process.
    [Fact]
    public async Task It_ends_with_its_terminal()
    {
        await using var terminal = CommandProcess.StartProgram(
            "script", "-q", "-c", $"exec dotnet {CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command")} run {HostKinds} --reload --urls '{Urls}' -- Served", "/dev/null");
        await terminal.WaitForOutputAsync("listens on ");
        string process = await _client.GetStringAsync(_http + "/process");

        terminal.Signal(SigKill);

        await ComesTrueAsync(() => Task.FromResult(!File.Exists(Socket) && !Directory.Exists("/proc/" + process)));
    }

    // Nobody comes behind it who could go on with the application.
    [Fact]
    public async Task The_application_ends_with_a_command_that_is_killed()
    {
        await using var app = CommandProcess.Millrace("run", HostKinds, "--reload", "--urls", Urls, "--", "Served");
        await app.WaitForOutputAsync("listens on ");
        string process = await _client.GetStringAsync(_http + "/process");

        app.Signal(SigKill);

        await ComesTrueAsync(() => Task.FromResult(!Directory.Exists("/proc/" + process)));
    }

    private static IPEndPoint WayOf(string address) => IPEndPoint.Parse(address["http://".Length..]);

    private async Task<string> VersionAsync() => await _client.GetStringAsync(_http + "/version");

    private async Task<string> WriteProjectAsync(string version)
    {
        string folder = Directory.CreateDirectory(Path.Combine(_directory.Path, "project")).FullName;
        await File.WriteAllTextAsync(Path.Combine(folder, "Watched.csproj"), """<Project Sdk="Microsoft.NET.Sdk.Web"><PropertyGroup><TargetFramework>net10.0</TargetFramework><ImplicitUsings>enable</ImplicitUsings></PropertyGroup></Project>""");
        await File.WriteAllTextAsync(Path.Combine(folder, "Program.cs"), Application);
        await SaveAsync(folder, version);
        return folder;
    }

    private static Task SaveAsync(string project, string version, bool whole = false) =>
        File.WriteAllTextAsync(Path.Combine(project, "Version.cs"), whole
            ? $"static class Version {{ public static string Text {{ get; }} = \"\"; [System.Runtime.CompilerServices.ModuleInitializer] internal static void Start() => {version}; }}"
            : $"static class Version {{ public static string Text => {version}; }}");

    private static async Task ComesTrueAsync(Func<Task<bool>> condition)
    {
        for (int i = 0; !await condition(); i++)
        {
            Assert.True(i < 1_200, "It has not come true within a minute.");
            await Task.Delay(50);
        }
    }
}
