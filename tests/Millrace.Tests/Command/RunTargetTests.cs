// `millrace run`: what it can be pointed at, and what it hands to the app. Starting one is an end-to-end test.

using Millrace.Command;
using Millrace.Command.Running;
using Millrace.Command.Verbs;

namespace Millrace.Tests.Command;

public sealed class RunTargetTests : IDisposable
{
    private const string WebApp = """{"runtimeOptions":{"frameworks":[{"name":"Microsoft.NETCore.App"},{"name":"Microsoft.AspNetCore.App"}]}}""";

    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("millrace-test-");

    public void Dispose() => _folder.Delete(recursive: true);

    [Fact]
    public void Project_folder_and_project_file_are_built()
    {
        string project = Add("Shop.csproj", "");

        Assert.Equal(project, AppTarget.FindProject(_folder.FullName));
        Assert.Equal(project, AppTarget.FindProject(project));
    }

    [Theory]
    [InlineData("")]
    [InlineData("Shop.runtimeconfig.json")]
    public void What_may_not_be_read_is_named_and_its_cure(string closed)
    {
        if (!OperatingSystem.IsLinux() || OtherUser.Find("nobody") is not { } nobody)
        {
            return;     // there are no rights but one's own
        }

        Add("Shop.runtimeconfig.json", WebApp);
        Add("Shop.dll", "");
        File.SetUnixFileMode(_folder.FullName, (UnixFileMode)0x1ED);
        string path = closed.Length == 0 ? _folder.FullName : Path.Combine(_folder.FullName, closed);
        File.SetUnixFileMode(path, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);

        var failure = Assert.Throws<CommandFailure>(() => OtherUser.Read(nobody, () => (AppTarget.FindProject(_folder.FullName), AppTarget.FindApp(_folder.FullName))));

        Assert.Equal($"{path} may not be read. Allow it (chmod, chown): `namei -l {path}` shows who may, from the root on.", failure.Message);
    }

    [Fact]
    public void Folder_with_two_projects_is_refused_by_name()
    {
        Add("A.csproj", "");
        Add("B.fsproj", "");

        var failure = Assert.Throws<CommandFailure>(() => AppTarget.FindProject(_folder.FullName));

        Assert.Contains("A.csproj, B.fsproj", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Published_folder_and_assembly_are_started_where_they_lie()
    {
        Add("Shop.runtimeconfig.json", WebApp);
        string assembly = Add("Shop.dll", "");

        Assert.Null(AppTarget.FindProject(_folder.FullName));
        Assert.Equal(new RunnableApp(assembly, _folder.FullName, null), AppTarget.FindApp(_folder.FullName));
        Assert.Equal(new RunnableApp(assembly, _folder.FullName, null), AppTarget.FindApp(assembly));
    }

    // Whoever may write there may have put anything under the name.
    [Theory]
    [InlineData("mkfifo {0}", "is no file, but something else, such as a pipe or a device")]
    [InlineData("ln -s /dev/zero {0}", "is no file, but something else, such as a pipe or a device")]
    [InlineData("truncate -s 1T {0}", "is larger than 16 MiB")]
    public void Settings_that_are_no_file_or_have_no_end_are_a_sentence(string make, string reason)
    {
        Add("Shop.dll", "");
        string settings = Path.Combine(_folder.FullName, "Shop.runtimeconfig.json");
        Listeners.AnotherUser.RunAsThis(string.Format(System.Globalization.CultureInfo.InvariantCulture, make, settings));

        Assert.Equal($"{settings} cannot be read: {settings} {reason}.", Assert.Throws<CommandFailure>(() => AppTarget.FindApp(_folder.FullName)).Message);
    }

    [Fact]
    public void App_that_brings_its_runtime_is_started_by_its_own_executable()
    {
        Add("Shop.runtimeconfig.json", """{"runtimeOptions":{"includedFrameworks":[{"name":"Microsoft.AspNetCore.App"}]}}""");
        string assembly = Add("Shop.dll", "");

        Assert.Equal(Path.ChangeExtension(assembly, null), AppTarget.FindApp(assembly).Executable);
    }

    [Theory]
    [InlineData("""{"runtimeOptions":{"framework":{"name":"Microsoft.NETCore.App"}}}""", "is not an ASP.NET Core application")]
    [InlineData("""{"runtimeOptions":{"framework":{"name":"Microsoft.AspNetCore.App"},"configProperties":{"System.StartupHook.Provider.IsSupported":false}}}""", "without support for start-up hooks")]
    [InlineData("""{"runtimeOptions":{"framework":{"name":"Microsoft.AspNetCore.App","version":"8.0.0"}}}""", "is built for ASP.NET Core 8, and Millrace needs 10")]
    [InlineData("""{"runtimeOptions":{"rollForward":"LatestMajor","includedFrameworks":[{"name":"Microsoft.AspNetCore.App","version":"9.0.4"}]}}""", "build it for net10.0.")]
    [InlineData("{}", "cannot be read")]
    [InlineData("nonsense", "cannot be read")]
    [InlineData("", "cannot be read")]
    [InlineData("[]", "cannot be read")]
    [InlineData("""{"runtimeOptions":5}""", "cannot be read")]
    [InlineData("""{"runtimeOptions":{"configProperties":null}}""", "is not an ASP.NET Core application")]
    [InlineData("""{"runtimeOptions":{"framework":"Microsoft.AspNetCore.App"}}""", "is not an ASP.NET Core application")]
    [InlineData("""{"runtimeOptions":{"frameworks":[null,5,{"name":5}]}}""", "is not an ASP.NET Core application")]
    [InlineData("""{"runtimeOptions":{"rollForward":5,"framework":{"name":"Microsoft.AspNetCore.App","version":"8.0.0"}}}""", "is built for ASP.NET Core 8, and Millrace needs 10")]
    public void App_whose_server_cannot_be_swapped_is_refused_with_the_reason(string settings, string reason)
    {
        Add("Shop.runtimeconfig.json", settings);
        string assembly = Add("Shop.dll", "");

        var failure = Assert.Throws<CommandFailure>(() => AppTarget.FindApp(assembly));

        Assert.Equal(ExitCode.Failure, failure.ExitCode);
        Assert.Contains(reason, failure.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("""{"runtimeOptions":{"framework":{"name":"Microsoft.AspNetCore.App","version":"10.0.0"}}}""")]
    [InlineData("""{"runtimeOptions":{"framework":{"name":"Microsoft.AspNetCore.App","version":"11.0.0-preview.1"}}}""")]
    [InlineData("\uFEFF{ // a comment\n\"runtimeOptions\":{\"framework\":{\"name\":\"Microsoft.AspNetCore.App\",\"version\":\"10.0.0\"}}}")]
    [InlineData("""{"runtimeOptions":{"framework":{"name":"Microsoft.AspNetCore.App","version":10},"configProperties":"none"}}""")]
    [InlineData("""{"runtimeOptions":{"rollForward":"Major","frameworks":[{"name":"Microsoft.NETCore.App","version":"8.0.0"},{"name":"Microsoft.AspNetCore.App","version":"8.0.0"}]}}""")]
    public void App_of_this_framework_or_one_that_may_run_on_it_is_taken(string settings)
    {
        Add("Shop.runtimeconfig.json", settings);
        string assembly = Add("Shop.dll", "");

        Assert.Equal(assembly, AppTarget.FindApp(assembly).Assembly);
    }

    [Theory]
    [InlineData("LatestMajor", true)]
    [InlineData("Major", true)]
    [InlineData("Minor", false)]
    public void Environment_of_an_application_says_how_it_rolls_forward(string policy, bool isTaken)
    {
        Add("Shop.runtimeconfig.json", """{"runtimeOptions":{"rollForward":"Disable","framework":{"name":"Microsoft.AspNetCore.App","version":"9.0.0"}}}""");
        string assembly = Add("Shop.dll", "");

        var failure = Record.Exception(() => AppTarget.FindApp(assembly, new Dictionary<string, string> { ["DOTNET_ROLL_FORWARD"] = policy }));

        Assert.Equal(isTaken, failure is null);
    }

    [Fact]
    public void Library_and_empty_folder_and_two_apps_are_refused()
    {
        Assert.Contains("holds neither", Assert.Throws<CommandFailure>(() => AppTarget.FindApp(_folder.FullName)).Message, StringComparison.Ordinal);
        Assert.Contains("is not an application", Assert.Throws<CommandFailure>(() => AppTarget.FindApp(Add("Library.dll", ""))).Message, StringComparison.Ordinal);
        Add("A.runtimeconfig.json", WebApp);
        Add("B.runtimeconfig.json", WebApp);
        Assert.Contains("A.dll, B.dll", Assert.Throws<CommandFailure>(() => AppTarget.FindApp(_folder.FullName)).Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("/srv/Shop.dll", "shop")]
    [InlineData("/srv/My.Web Shop.dll", "my-web-shop")]
    [InlineData("/srv/Läden.dll", "l-den")]
    [InlineData("/srv/--.dll", "app")]
    public void Short_name_suits_a_socket(string assembly, string name) => Assert.Equal(name, new RunnableApp(assembly, "/srv", null).ShortName);

    [Fact]
    public void Child_gets_the_hook_the_addresses_and_its_own_arguments()
    {
        var start = AppProcess.Describe(new AppStart(new RunnableApp("/srv/Shop.dll", "/srv", null), ["fastcgi://127.0.0.1:9000", "http://127.0.0.1:5000"], false, "Development", ["--a", "b c"]), "17");

        Assert.Equal(["/srv/Shop.dll", "--a", "b c"], start.ArgumentList);
        Assert.Equal("/srv", start.WorkingDirectory);
        Assert.EndsWith("/Millrace.StartupHook.dll", start.Environment["DOTNET_STARTUP_HOOKS"], StringComparison.Ordinal);
        Assert.True(File.Exists(start.Environment["DOTNET_STARTUP_HOOKS"]));
        Assert.Equal("fastcgi://127.0.0.1:9000;http://127.0.0.1:5000", start.Environment["MILLRACE_RUN_URLS"]);
        Assert.Equal("Development", start.Environment["ASPNETCORE_ENVIRONMENT"]);
        Assert.Equal("17", start.Environment["MILLRACE_RUN_REPORT"]);
    }

    [Theory]
    [InlineData(true, "--urls", "http://127.0.0.1:1")]
    [InlineData(true, "--urls=http://127.0.0.1:1")]
    [InlineData(true, "/Urls", "x")]
    [InlineData(false, "--urlset", "x")]
    [InlineData(false)]
    public void Addresses_among_the_arguments_of_the_app_are_its_own_business(bool has, params string[] arguments) =>
        Assert.Equal(has, RunVerb.AppHasAddresses(arguments, _ => null));

    [Fact]
    public void Addresses_in_the_environment_are_left_to_the_app() =>
        Assert.True(RunVerb.AppHasAddresses([], name => name == "ASPNETCORE_URLS" ? "http://127.0.0.1:1" : null));

    private string Add(string name, string content)
    {
        string path = Path.Combine(_folder.FullName, name);
        File.WriteAllText(path, content);
        return path;
    }
}
