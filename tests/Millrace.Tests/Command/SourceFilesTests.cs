// What `millrace run --watch` takes for source: what a build reads, of a project and of those that it refers to.

using Millrace.Command.Serving;
using Millrace.Command.Verbs;

namespace Millrace.Tests.Command;

public sealed class SourceFilesTests : IDisposable
{
    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("millrace-sources-");

    public void Dispose() => _folder.Delete(recursive: true);

    [Theory]
    [InlineData("Program.cs", true)]
    [InlineData("Pages/Deep/Index.cshtml", true)]
    [InlineData("Pages/A.razor.css", true)]
    [InlineData("App.csproj", true)]
    [InlineData(".editorconfig", true)]
    [InlineData("wwwroot/site.css", false)]
    [InlineData("appsettings.json", false)]
    [InlineData(".Program.cs.swp", false)]
    [InlineData(".#Program.cs", false)]
    [InlineData("Program.cs~", false)]
    [InlineData("obj/A.cs", false)]
    [InlineData("bin/Release/App.cs", false)]
    [InlineData("node_modules/a/a.cs", false)]
    [InlineData(".git/a.cs", false)]
    public void A_file_that_appears_or_changes_counts_where_a_build_reads_it(string file, bool counts)
    {
        string before = Sign();
        string path = Path.Combine(_folder.FullName, file);
        Directory.CreateDirectory(Path.GetDirectoryName(path)!);
        File.WriteAllText(path, "a");
        string then = Sign();
        File.WriteAllText(path, "ab");
        string longer = Sign();
        File.SetLastWriteTimeUtc(path, new DateTime(2020, 1, 1, 0, 0, 0, DateTimeKind.Utc));
        string other = Sign();
        File.Delete(path);

        Assert.Equal(counts ? 4 : 1, new[] { before, then, longer, other }.Distinct().Count());
        Assert.Equal(before, Sign());
    }

    [Fact]
    public void A_link_that_leads_nowhere_or_round_about_is_no_obstacle()
    {
        File.CreateSymbolicLink(Path.Combine(_folder.FullName, "A.cs"), "/nowhere/A.cs");
        Directory.CreateSymbolicLink(Path.Combine(_folder.FullName, "round"), _folder.FullName);

        Assert.Equal(Sign(), Sign());
    }

    [Fact]
    public void Projects_that_a_project_refers_to_are_those_of_its_last_restore()
    {
        string project = Path.Combine(_folder.FullName, "App", "App.csproj");
        Directory.CreateDirectory(Path.Combine(_folder.FullName, "App/obj"));
        Assert.Equal([Path.GetDirectoryName(project)!], SourceFiles.FoldersOf(project));

        File.WriteAllText(Path.Combine(_folder.FullName, "App/obj/App.csproj.nuget.dgspec.json"), $$"""{ "format": 1, "projects": { "{{project}}": {}, "{{_folder.FullName}}/Lib/Lib.csproj": {} } }""");
        Assert.Equal([Path.Combine(_folder.FullName, "App"), Path.Combine(_folder.FullName, "Lib")], SourceFiles.FoldersOf(project));

        File.WriteAllText(Path.Combine(_folder.FullName, "App/obj/App.csproj.nuget.dgspec.json"), "{");
        Assert.Equal([Path.GetDirectoryName(project)!], SourceFiles.FoldersOf(project));
    }

    [Theory]
    [InlineData(null)]
    [InlineData("http://127.0.0.1:1", "--urls", "http://127.0.0.1:1")]
    [InlineData("http://127.0.0.1:2", "--urls=http://127.0.0.1:1", "/URLS=http://127.0.0.1:2")]
    [InlineData(null, "--urls")]
    [InlineData(null, "--urlsOf=a")]
    public void Addresses_are_found_in_arguments_as_the_application_would(string? found, params string[] arguments)
    {
        Assert.Equal(found, RunVerb.NamedFor(arguments, static _ => null) is { } list ? string.Join(';', list) : null);
        Assert.Equal(found ?? "http://127.0.0.1:9", string.Join(';', RunVerb.NamedFor(arguments, static name => name == "DOTNET_URLS" ? "http://127.0.0.1:9" : null)!));
    }

    private string Sign() => SourceFiles.Sign([_folder.FullName]);
}
