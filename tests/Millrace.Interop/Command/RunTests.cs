// `millrace run` and `millrace get`, end to end: unmodified apps of every kind of host, their server swapped.

using System.Net.Sockets;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public sealed class RunTests : IDisposable
{
    private readonly TemporaryDirectory _directory = new("run");

    private string SocketPath => Path.Combine(_directory.Path, "s");

    private string Address => "fastcgi://unix:" + SocketPath;

    private static string HostKinds => CommandProcess.AssemblyOf("tests/Millrace.Interop.HostKinds", "Millrace.Interop.HostKinds");

    private static string Hello => CommandProcess.AssemblyOf("samples/Hello", "Hello");

    public void Dispose() => _directory.Dispose();

    [Fact]
    public async Task Project_folder_is_built_and_served_and_get_fetches_its_pages()
    {
        await using var app = CommandProcess.Millrace("run", "samples/Hello", "--urls", Address);
        await app.WaitForOutputAsync("listens on " + Address);
        Assert.Contains("building Hello.csproj...", app.Error, StringComparison.Ordinal);

        var hello = await CommandProcess.RunAsync("get", Address, "/hello");
        Assert.Equal((0, "200 OK\nContent-Type: text/plain; charset=utf-8\n\nHello, World!\n", ""), hello);

        var missing = await CommandProcess.RunAsync("get", Address, "/nowhere");
        Assert.Equal(22, missing.ExitCode);
        Assert.StartsWith("404 Not Found\n", missing.Output, StringComparison.Ordinal);

        // The content root is the project's folder, as with `dotnet run`.
        await app.WaitForOutputAsync("Content root path: " + Path.Combine(CommandProcess.Repository, "samples/Hello"));
    }

    [Theory]
    [InlineData("WebApplication")]
    [InlineData("Slim")]
    [InlineData("Empty")]
    [InlineData("Generic")]
    [InlineData("Legacy")]
    [InlineData("Bare")]
    public async Task Every_kind_of_host_is_served_and_leaves_no_trace_of_the_hook_for_its_children(string kind)
    {
        await using var app = CommandProcess.Millrace("run", HostKinds, "--urls", Address, "--environment", "Staging", "--", kind, "--a=b c");
        await app.WaitForOutputAsync("listens on " + Address);

        var page = await CommandProcess.RunAsync("get", Address, "/", "--body-only");

        Assert.Equal(0, page.ExitCode);
        Assert.Equal($"kind={kind} environment=Staging hooks= hosting= urls= arguments={kind},--a=b c\n", page.Output);
    }

    [Theory]
    [InlineData("Legacy")]
    [InlineData("Bare")]
    [InlineData("WebApplication")]
    public async Task Where_hosting_startups_are_prevented_the_server_is_swapped_and_the_others_stay_prevented(string kind)
    {
        await using var app = CommandProcess.MillraceWith(
            ["ASPNETCORE_PREVENTHOSTINGSTARTUP=true", "ASPNETCORE_HOSTINGSTARTUPASSEMBLIES=Nobody.Has.This", "Kestrel__AllowSynchronousIO=true", "ASPNETCORE_URLS=http://127.0.0.1:1"],
            "run", HostKinds, "--urls", Address, "--", kind, "--Millrace:AllowSynchronousIO=true");
        await app.WaitForOutputAsync("listens on " + Address);

        var page = await CommandProcess.RunAsync("get", Address, "/", "--body-only");

        Assert.Equal($"kind={kind} environment= hooks= hosting=Nobody.Has.This urls=http://127.0.0.1:1 arguments={kind},--Millrace:AllowSynchronousIO=true\n", page.Output);
    }

    [Theory]
    [InlineData("true", "own=False")]
    [InlineData("false", "own=True")]
    public async Task Start_up_of_the_app_itself_runs_unless_it_is_prevented(string prevent, string own)
    {
        await using var app = CommandProcess.MillraceWith(["ASPNETCORE_PREVENTHOSTINGSTARTUP=" + prevent], "run", HostKinds, "--urls", Address, "--", "Limits");
        await app.WaitForOutputAsync("listens on " + Address);

        var page = await CommandProcess.RunAsync("get", Address, "/startups", "--body-only");

        Assert.Equal($"prevent={prevent} assemblies= excluded= {own}\n", page.Output);
    }

    [Theory]
    [InlineData("fastcgi")]
    [InlineData("http")]
    public async Task Host_whose_code_prevents_hosting_startups_is_refused_with_a_sentence(string scheme)
    {
        var result = await CommandProcess.RunAsync("run", HostKinds, "--urls", scheme + "://127.0.0.1:0", "--", "Prevented");

        Assert.Equal(1, result.ExitCode);
        Assert.StartsWith("millrace: The application's WebHostBuilder asks no hosting start-up assembly", result.Error, StringComparison.Ordinal);
        Assert.DoesNotContain("   at ", result.Error + result.Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task What_the_app_says_to_Kestrel_counts_and_what_cannot_count_is_said_once()
    {
        await using var app = CommandProcess.Millrace("run", HostKinds, "--urls", Address + ";http://127.0.0.1:0", "--", "Limits");
        await app.WaitForOutputAsync("Set for Kestrel, and without effect here: DisableStringReuse.");
        await app.WaitForOutputAsync("listens on " + Address);
        string http = app.Output.Split('\n').Single(line => line.Contains("listens on", StringComparison.Ordinal)).Split(" and ")[1];

        Assert.StartsWith("200 OK\n", (await CommandProcess.RunAsync("get", Address, "/startups")).Output, StringComparison.Ordinal);
        Assert.StartsWith("414 ", (await CommandProcess.RunAsync("get", http, "/" + new string('a', 100))).Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Endpoints_of_the_app_stand_in_for_the_address_for_browsers_that_nobody_named()
    {
        await using var app = CommandProcess.StartProgram(
            "env", $"DOTNET_STARTUP_HOOKS={CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.StartupHook")}", "MILLRACE_RUN_CHOSEN=1",
            $"MILLRACE_RUN_URLS=http://127.0.0.1:1;{Address}", "dotnet", HostKinds, "WebApplication", "--Kestrel:Endpoints:Web:Url=http://127.0.0.1:0");
        await app.WaitForOutputAsync("Now listening on: " + Address);
        string[] listening = [.. app.Output.Split('\n').Where(line => line.Contains("Now listening on: ", StringComparison.Ordinal)).Select(line => line.Split("on: ")[1])];

        Assert.Equal(2, listening.Length);
        Assert.NotEqual("http://127.0.0.1:1", listening[0]);
        Assert.Equal(0, (await CommandProcess.RunAsync("get", listening[0], "/")).ExitCode);
    }

    [Fact]
    public async Task Addresses_that_somebody_named_win_over_endpoints_of_the_app()
    {
        await using var app = CommandProcess.Millrace("run", HostKinds, "--urls", "http://127.0.0.1:0", "--", "WebApplication", "--Kestrel:Endpoints:Web:Url=http://127.0.0.1:1");
        await app.WaitForOutputAsync("Application started.");
        await app.WaitForOutputAsync("listens on http://127.0.0.1:");
        Assert.DoesNotContain("http://127.0.0.1:1\n", app.Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Of_several_hosts_the_first_has_the_addresses_and_the_others_their_own()
    {
        await using var app = CommandProcess.Millrace("run", HostKinds, "--urls", Address, "--", "Two");
        await app.WaitForOutputAsync("listens on " + Address);
        await app.WaitForOutputAsync("metrics: http://127.0.0.1:");
        string metrics = app.Output.Split('\n').Single(line => line.StartsWith("metrics: ", StringComparison.Ordinal))["metrics: ".Length..];

        Assert.StartsWith("kind=Two ", (await CommandProcess.RunAsync("get", Address, "/", "--body-only")).Output, StringComparison.Ordinal);
        Assert.Equal("metrics\n", (await CommandProcess.RunAsync("get", metrics, "/", "--body-only")).Output);
    }

    [Fact]
    public async Task A_host_that_is_called_from_within_the_process_keeps_its_server_and_takes_no_address()
    {
        await using var app = CommandProcess.Millrace("run", HostKinds, "--urls", Address, "--", "InProcess");
        await app.WaitForOutputAsync("listens on " + Address);
        await app.WaitForOutputAsync("servers: TestServer TestServer");
        Assert.StartsWith("kind=InProcess ", (await CommandProcess.RunAsync("get", Address, "/", "--body-only")).Output, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("Worker", 7)]
    [InlineData("Unknown", 64)]
    public async Task Exit_code_is_that_of_the_app(string kind, int exitCode)
    {
        var result = await CommandProcess.RunAsync("run", HostKinds, "--urls", Address, "--", kind);

        Assert.Equal(exitCode, result.ExitCode);
        Assert.DoesNotContain("listens on", result.Output, StringComparison.Ordinal);
        Assert.Contains($"has ended (exit code {exitCode}) without a web host", result.Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Program_without_a_web_host_runs_as_it_is_and_the_user_is_told_so()
    {
        string own = Address;
        await using var sample = CommandProcess.Millrace("run", CommandProcess.AssemblyOf("samples/Plain", "Plain"), "--urls", "fastcgi://127.0.0.1:0", "--", own);
        await sample.WaitForErrorAsync("Plain.dll runs, and no web host of ASP.NET Core listens in it after 5 s.");

        var page = await CommandProcess.RunAsync("get", own, "/a", "--body-only");

        Assert.Equal("Hello, World! You asked for /a with GET.\n", page.Output);
        Assert.DoesNotContain("listens on", sample.Output, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("--Millrace:DriversMax=1", "millrace: Millrace option DriversMax is 1; it must be from ")]
    [InlineData("--Millrace:MaxConnections=0", "millrace: Millrace option MaxConnections is 0; it must be from 1 to 1000000.\n")]
    public async Task Option_outside_its_range_is_a_sentence_and_no_stack_trace(string argument, string sentence)
    {
        var result = await CommandProcess.RunAsync("run", Hello, "--urls", Address, "--", argument);

        Assert.Equal(1, result.ExitCode);
        Assert.StartsWith(sentence, result.Error, StringComparison.Ordinal);
        Assert.DoesNotContain("   at ", result.Error + result.Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Address_that_is_given_twice_is_refused_as_such()
    {
        var result = await CommandProcess.RunAsync("run", Hello, "--urls", $"{Address};{Address}");

        Assert.Equal(1, result.ExitCode);
        Assert.Contains("in use by this process already: the address is given twice", result.Error, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(CommandProcess.SigTerm)]
    [InlineData(CommandProcess.SigInt)]
    public async Task Signal_ends_the_app_which_removes_its_socket(int signal)
    {
        await using var app = CommandProcess.HeedingSignals("run", Hello, "--urls", Address);
        await app.WaitForOutputAsync("listens on " + Address);
        Assert.True(File.Exists(SocketPath));

        app.Signal(signal);

        Assert.Equal(0, await app.WaitForExitAsync());
        Assert.False(File.Exists(SocketPath));
    }

    [Fact]
    public async Task Signal_ends_a_build_with_all_that_it_has_started()
    {
        DirectoryInfo folder = Directory.CreateTempSubdirectory("millrace-build-");
        try
        {
            string pid = Path.Combine(folder.FullName, "pid");
            await File.WriteAllTextAsync(Path.Combine(folder.FullName, "Slow.csproj"), $"""
                <Project>
                  <Target Name="Build"><Exec Command="echo $$ &gt; '{pid}.new'; mv '{pid}.new' '{pid}'; exec sleep 100" /></Target>
                </Project>
                """);
            await using var run = CommandProcess.Millrace("run", folder.FullName);
            Assert.True(await ComesTrueAsync(() => File.Exists(pid), seconds: 30));
            string sleeper = (await File.ReadAllTextAsync(pid)).Trim();
            Assert.True(Directory.Exists("/proc/" + sleeper));

            run.Signal(CommandProcess.SigTerm);

            Assert.Equal(143, await run.WaitForExitAsync());
            Assert.Contains("The build was stopped.", run.Error, StringComparison.Ordinal);
            Assert.True(await ComesTrueAsync(() => !Directory.Exists("/proc/" + sleeper), seconds: 5));
        }
        finally
        {
            folder.Delete(recursive: true);
        }
    }

    private static async Task<bool> ComesTrueAsync(Func<bool> condition, int seconds)
    {
        for (int i = 0; i < seconds * 20 && !condition(); i++)
        {
            await Task.Delay(50);
        }
        return condition();
    }

    [Fact]
    public async Task Free_port_is_printed_as_it_is()
    {
        await using var app = CommandProcess.Millrace("run", Hello, "--urls", "fastcgi://127.0.0.1:0");
        await app.WaitForOutputAsync("Try it: millrace get fastcgi://127.0.0.1:");
        string line = app.Output.Split('\n').Single(l => l.StartsWith("Try it: ", StringComparison.Ordinal));

        var page = await CommandProcess.RunAsync("get", line.Split(' ')[4], "/hello", "--body-only");

        Assert.Equal("Hello, World!\n", page.Output);
    }

    [Fact]
    public async Task Socket_in_use_is_a_sentence_that_names_its_owner_and_no_stack_trace()
    {
        using var owner = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        owner.Bind(new UnixDomainSocketEndPoint(SocketPath));
        owner.Listen();

        var result = await CommandProcess.RunAsync("run", Hello, "--urls", Address);

        Assert.Equal(1, result.ExitCode);
        Assert.Contains($"process {Environment.ProcessId}", result.Error, StringComparison.Ordinal);
        Assert.DoesNotContain("   at ", result.Error + result.Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Project_that_does_not_build_shows_its_errors()
    {
        await File.WriteAllTextAsync(
            Path.Combine(_directory.Path, "Broken.csproj"), """<Project Sdk="Microsoft.NET.Sdk.Web"><PropertyGroup><TargetFramework>net10.0</TargetFramework></PropertyGroup></Project>""");
        await File.WriteAllTextAsync(Path.Combine(_directory.Path, "Program.cs"), "int x = \"a\";");

        var result = await CommandProcess.RunAsync("run", _directory.Path, "--urls", Address);

        Assert.Equal(1, result.ExitCode);
        Assert.Contains("error CS0029", result.Error, StringComparison.Ordinal);
        Assert.Contains("Broken.csproj does not build", result.Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task What_is_in_the_way_before_the_build_has_begun_is_shown()
    {
        // The command `dotnet` takes quotes out of a path.
        string folder = Directory.CreateDirectory(Path.Combine(_directory.Path, "a\"b")).FullName;
        await File.WriteAllTextAsync(Path.Combine(folder, "Quoted.csproj"), "<Project Sdk=\"Microsoft.NET.Sdk.Web\"></Project>");

        var result = await CommandProcess.RunAsync("run", folder, "--urls", Address);

        Assert.Equal(1, result.ExitCode);
        Assert.Contains("error MSB1009", result.Error, StringComparison.Ordinal);
        Assert.Contains("Quoted.csproj does not build", result.Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Plain_sample_answers()
    {
        await using var sample = CommandProcess.Start(CommandProcess.AssemblyOf("samples/Plain", "Plain"), Address);
        await sample.WaitForOutputAsync("Listening on " + Address);

        var page = await CommandProcess.RunAsync("get", Address, "/a?b=c", "--body-only");

        Assert.Equal("Hello, World! You asked for /a?b=c with GET.\n", page.Output);
        sample.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await sample.WaitForExitAsync());
    }
}
