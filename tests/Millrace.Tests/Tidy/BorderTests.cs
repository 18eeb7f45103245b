// The borders between the layers (ARCHITECTURE.md), as the compiler and the project files see them.

using System.Reflection;
using System.Text.RegularExpressions;
using System.Xml.Linq;
using Millrace.Protocols;

namespace Millrace.Tests.Tidy;

public sealed class BorderTests
{
    private static readonly string[] s_coreOnly =
        ["System.Runtime", "System.Memory", "System.Collections", "System.Linq", "System.Runtime.Intrinsics", "System.Runtime.InteropServices", "System.Text.Encoding.Extensions", "System.Numerics.Vectors", "System.Runtime.Numerics"];

    [Fact]
    public void Protocols_uses_nothing_that_does_input_output_threads_or_logging() =>
        Assert.All(References(typeof(ReadResult).Assembly), static name => Assert.Contains(name, s_coreOnly));

    [Fact]
    public void The_server_does_not_know_the_command_nor_the_startup_hook()
    {
        string[] names = [.. References(typeof(MillraceServer).Assembly)];
        Assert.Contains("Millrace.Protocols", names);
        Assert.DoesNotContain(names, static name => name is "Millrace.Command" or "Millrace.StartupHook" or "Microsoft.AspNetCore.Server.Kestrel");
    }

    [Theory]
    [InlineData("src/Millrace.Protocols/Millrace.Protocols.csproj", "")]
    [InlineData("src/Millrace/Millrace.csproj", "Millrace.Protocols")]
    [InlineData("src/Millrace.Workers/Millrace.Workers.csproj", "")]
    [InlineData("src/Millrace.Sessions/Millrace.Sessions.csproj", "")]
    [InlineData("src/Millrace.Sessions.PostgreSql/Millrace.Sessions.PostgreSql.csproj", "Millrace.Sessions")]
    public void A_project_refers_only_to_the_layers_below_it(string project, string expected)
    {
        IEnumerable<string> references = XDocument.Parse(Repository.Read(project)).Descendants("ProjectReference")
            .Select(static reference => Path.GetFileNameWithoutExtension(reference.Attribute("Include")!.Value));
        Assert.Equal(expected, string.Join(' ', references));
    }

    [Theory]
    [InlineData("src/Millrace.Protocols/Millrace.Protocols.csproj")]
    [InlineData("src/Millrace/Millrace.csproj")]
    [InlineData("src/Millrace.Workers/Millrace.Workers.csproj")]
    [InlineData("src/Millrace.Sessions/Millrace.Sessions.csproj")]
    public void The_library_depends_on_no_package_at_run_time(string project) =>
        Assert.All(XDocument.Parse(Repository.Read(project)).Descendants("PackageReference"), static reference => Assert.Equal("all", reference.Attribute("PrivateAssets")?.Value));

    [Fact]
    public void System_calls_are_declared_in_one_class() =>
        Assert.All(
            Repository.Sources("src/Millrace").Where(static path => File.ReadAllText(path).Contains("[LibraryImport", StringComparison.Ordinal)),
            static path => Assert.StartsWith("SystemCalls", Path.GetFileName(path), StringComparison.Ordinal));

    // Whoever is at the other end may send descriptors with its bytes, and a close of one may wait as long as he likes (SO_LINGER): they are refused before he is there.
    [Fact]
    public void Unix_sockets_are_made_where_descriptors_are_refused()
    {
        const string Made = @"(?<!== )\bAddressFamily\.Unix\b|\bnew Socket\((?!new SafeSocketHandle\()(?![^;]*\bProtocolType\.Tcp\b)|\bSystemCalls\.Socket\(\s*SystemCalls\.AF_UNIX\b|\bUnixSocket\.NewTaking\(|\bSocketPair\((?!int )|\bSO_PASSRIGHTS, 1\)";
        string[] known =
        [
            "Adoption.cs",          // takes descriptors, and closes what it has not asked for elsewhere
            "AppInstance.cs",       // a channel that takes those of the daemon
            "AppListeners.cs",      // the channel between generations
            "ClientSocket.cs", "Posix.cs", "UnixSocket.cs",
        ];
        IEnumerable<string> found = Repository.Sources("src").Where(static path => Regex.IsMatch(File.ReadAllText(path), Made)).Select(static path => Path.GetFileName(path));
        Assert.Equal(known, found.Order(StringComparer.Ordinal));
    }

    [Fact]
    public void No_file_is_changed_through_a_path_that_may_lead_elsewhere()
    {
        const string ByPath = @"EntryPoint = ""(l?chown|chmod|unlink|rename|link|symlink|mkdir|rmdir|truncate|mknod|open|creat)""|" +
            @"\bFile\.(SetUnixFileMode|Delete|Move|Copy|Create|Write\w*|Append\w*|Replace|CreateSymbolicLink)\(|\bDirectory\.(Create\w*|Delete|Move)\(|\bnew FileStream\(";
        Assert.All(Repository.Sources("src"), static path => Assert.DoesNotMatch(ByPath, File.ReadAllText(path)));
    }

    // The application has the process's pool in common with the server: an array that it gives back there and goes on writing into would be somebody's request.
    [Fact]
    public void No_bytes_of_a_request_lie_in_the_pool_that_the_application_rents_from() =>
        Assert.All(Repository.Sources("src"), static path => Assert.DoesNotMatch(@"\b(Array|Memory)Pool<\w+>\.Shared|\bEnableBuffering\(|new PipeOptions\((?!\s*(new FreshMemory|pool:|memory|_memory))", File.ReadAllText(path)));

    // Whoever starts a server comes by one of them.
    [Theory]
    [InlineData("src/Millrace/MillraceServer.cs")]
    [InlineData("src/Millrace/Engine.cs")]
    [InlineData("src/Millrace/AspNetCore/HostedServer.cs")]
    public void Every_way_to_start_asks_first_whether_this_machine_can_run_it(string source) =>
        Assert.Matches(@"(?m)^        SupportedPlatform\.Require\(\);", Repository.Read(source));

    // It serves on any server, and is to stay so. Workers know none either.
    [Fact]
    public void MapFastCgi_knows_the_protocol_and_no_server() =>
        Assert.All(Repository.Sources("src/Millrace.Connector/Programs"), static path => Assert.DoesNotMatch(@"(?m)^using Millrace\.(?!(Protocols|Workers)\b)", string.Join('\n', File.ReadLines(path))));

    // From the bottom up. What stands beside the folders, Engine and what it holds, is above all but AspNetCore.
    private static readonly string[] s_folders = ["Options", "Platform", "Observe", "Listeners", "Exchanges", "Framing", "Loops", "Connections", "Handlers", "AspNetCore"];

    public static TheoryData<string> Folders => [.. s_folders];

    [Theory]
    [MemberData(nameof(Folders))]
    public void A_folder_does_not_know_what_lies_above_it(string folder)
    {
        string above = string.Join('|', s_folders.SkipWhile(other => other != folder).Skip(1));
        string namespaces = above.Length == 0 ? "(?!)" : $@"\bMillrace\.({above})\b|(?<![\w.""])({above})\.[A-Z]";
        string beside = folder == "AspNetCore" ? "(?!)" : @"\b(Engine|MillraceServer|ServerMeter|IdleSignals)\b";
        Assert.All(Repository.Sources($"src/Millrace/{folder}"), path => Assert.DoesNotMatch($"{namespaces}|{beside}", Code(path)));
    }

    // The same of the command. What stands beside the folders calls the verbs, and is known to all.
    private static readonly string[] s_foldersOfCommand = ["Terminals", "FrontEnds", "Running", "Stacks", "Completing", "Fetching", "Routing", "Serving", "Pools", "Verbs"];

    public static TheoryData<string> FoldersOfCommand => [.. s_foldersOfCommand];

    [Theory]
    [MemberData(nameof(FoldersOfCommand))]
    public void A_folder_of_the_command_does_not_know_what_lies_above_it(string folder)
    {
        string above = string.Join('|', s_foldersOfCommand.SkipWhile(other => other != folder).Skip(1));
        string namespaces = above.Length == 0 ? "(?!)" : $@"\bMillrace\.Command\.({above})\b|(?<![\w.""])({above})\.[A-Z]";
        Assert.All(Repository.Sources($"src/Millrace.Command/{folder}"), path => Assert.DoesNotMatch(namespaces, Code(path)));
    }

    [Fact]
    public void Every_folder_has_its_place_among_the_others()
    {
        Assert.Equal(s_folders.Order(StringComparer.Ordinal), FoldersIn("Millrace"));
        Assert.Equal(s_foldersOfCommand.Order(StringComparer.Ordinal), FoldersIn("Millrace.Command"));
    }

    private static IEnumerable<string> FoldersIn(string project) =>
        Repository.Sources($"src/{project}").Select(static path => Path.GetDirectoryName(path)!).Distinct()
            .Where(folder => Path.GetFileName(folder) != project).Select(static folder => Path.GetFileName(folder)).Order(StringComparer.Ordinal);

    private static string Code(string path) => string.Join('\n', File.ReadLines(path).Where(static line => !line.TrimStart().StartsWith("//", StringComparison.Ordinal)));

    private static IEnumerable<string> References(Assembly assembly) => assembly.GetReferencedAssemblies().Select(static name => name.Name!);
}
