// The documents say what is there.

using System.Globalization;
using System.Reflection;
using System.Text.RegularExpressions;

namespace Millrace.Tests.Tidy;

public sealed partial class DocumentTests
{
    [Fact]
    public void Every_file_that_the_architecture_names_exists()
    {
        string[] names = [.. FileName().Matches(Repository.Read("ARCHITECTURE.md")).Select(static match => match.Groups[1].Value).Distinct()];
        Assert.NotEmpty(names);
        string[] all = [.. Directory.EnumerateFileSystemEntries(Repository.Root, "*", SearchOption.AllDirectories).Select(static path => "/" + Path.GetRelativePath(Repository.Root, path))];
        string[] missing = [.. names.Where(name => !Array.Exists(all, path => path.EndsWith("/" + name.TrimEnd('/'), StringComparison.Ordinal)))];
        Assert.True(missing.Length == 0, "ARCHITECTURE.md names what is not there: " + string.Join(", ", missing));
    }

    // | 12 | what happens | `Connections/SendingConnection.cs` | `SendOutput` |
    [Fact]
    public void Every_step_of_a_requests_journey_begins_in_a_method_of_the_files_that_are_named_for_it()
    {
        string[][] steps = [.. Repository.Read("ARCHITECTURE.md").Split('\n').Where(static line => Step().IsMatch(line)).Select(static line => line.Trim('|', ' ').Split(" | "))];
        Assert.NotEmpty(steps);
        Assert.All(steps, static step =>
        {
            string files = string.Join('\n', FileName().Matches(step[2]).Select(static match => match.Groups[1].Value)
                .Select(static name => Repository.Read(name.StartsWith("src/", StringComparison.Ordinal) ? name : "src/Millrace/" + name)));
            Assert.All(Word().Matches(step[3]), method => Assert.Matches($@"(public|private|protected|internal) [^=;(]*\b{method.Groups[1].Value}(<\w+>)?\(", files));
        });
    }

    [Fact]
    public void Every_folder_of_tests_stands_in_the_table_of_contributing()
    {
        IEnumerable<string> folders = Directory.EnumerateDirectories(Path.Combine(Repository.Root, "tests"))
            .Concat(Directory.EnumerateDirectories(Path.Combine(Repository.Root, "tests/Millrace.Tests")))
            .Select(static path => Path.GetRelativePath(Repository.Root, path))
            .Where(static path => Path.GetFileName(path) is not ("bin" or "obj" or "Millrace.Tests"));
        string contributing = Repository.Read("CONTRIBUTING.md");
        string[] missing = [.. folders.Where(folder => !contributing.Contains($"| `{folder}` |", StringComparison.Ordinal)).Order(StringComparer.Ordinal)];
        Assert.True(missing.Length == 0, "CONTRIBUTING.md does not say what is in " + string.Join(", ", missing));
    }

    // | C floor, FastCGI/Unix | 64,400 | 5.0 |
    [Fact]
    public void Every_row_of_figures_in_the_readme_stands_in_the_benchmarks()
    {
        string benchmarks = Repository.Read("docs/benchmarks.md");
        string readme = Repository.Read("README.md");
        int start = readme.IndexOf("## How fast", StringComparison.Ordinal);
        string[] rows = [.. readme[start..readme.IndexOf("\n## ", start, StringComparison.Ordinal)].Split('\n').Where(static line => Figures().IsMatch(line))];
        Assert.NotEmpty(rows);
        Assert.All(rows, row => Assert.Contains(row, benchmarks, StringComparison.Ordinal));
    }

    [Fact]
    public void Every_link_between_documents_leads_somewhere()
    {
        string[] broken = [.. Repository.Sources("docs", "*.md").Concat(Directory.EnumerateFiles(Repository.Root, "*.md")).SelectMany(static document =>
            Link().Matches(File.ReadAllText(document)).Select(static match => match.Groups[1].Value)
                .Where(link => !Path.Exists(Path.Combine(Path.GetDirectoryName(document)!, link)))
                .Select(link => $"{Path.GetRelativePath(Repository.Root, document)}: {link}"))];
        Assert.True(broken.Length == 0, string.Join(", ", broken));
    }

    public static TheoryData<string> Options => [.. typeof(MillraceOptions).GetProperties(BindingFlags.Public | BindingFlags.Instance).Select(static p => p.Name)];

    [Theory]
    [MemberData(nameof(Options))]
    public void Every_option_stands_in_the_table_of_limits_with_its_default(string option)
    {
        Match row = Regex.Match(Repository.Read("docs/limits.md"), $@"^\| `{option}` \| ([^|]*) \|", RegexOptions.Multiline);
        Assert.True(row.Success, $"docs/limits.md has no row for {option}");
        string stated = row.Groups[1].Value.Replace("`", "", StringComparison.Ordinal);
        object? value = typeof(MillraceOptions).GetProperty(option)!.GetValue(new MillraceOptions());
        Assert.True(Spellings(value).Any(text => stated.StartsWith(text, StringComparison.Ordinal)), $"docs/limits.md says \"{stated}\"; the default is {value ?? "null"}");
    }

    private static IEnumerable<string> Spellings(object? value) => value switch
    {
        null => ["none", "null"],
        bool flag => [flag ? "true" : "false"],
        TimeSpan { Ticks: 0 } => ["zero", "0", "none"],
        TimeSpan time => [string.Create(CultureInfo.InvariantCulture, $"{time.TotalSeconds} s")],
        int and >= 1024 * 1024 and int bytes when bytes % (1024 * 1024) == 0 => [string.Create(CultureInfo.InvariantCulture, $"{bytes / 1024 / 1024} MiB"), bytes.ToString("N0", CultureInfo.InvariantCulture)],
        IFormattable number and not Enum => [number.ToString("N0", CultureInfo.InvariantCulture)],
        _ => [value.ToString()!],
    };

    // A path or file name in backticks: ends in an extension the repository has, or in a slash.
    [GeneratedRegex(@"`([\w.\-/]+(?:\.(?:cs|md|csproj|txt|c|py|slnx|props|json|vec)|/))`")]
    private static partial Regex FileName();

    [GeneratedRegex(@"^\| \d+(-\d+)? \| ")]
    private static partial Regex Step();

    [GeneratedRegex(@"`(\w+)`")]
    private static partial Regex Word();

    [GeneratedRegex(@"^\|.*\| \d[\d,.]*[^|]*\|$")]
    private static partial Regex Figures();

    [GeneratedRegex(@"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)")]
    private static partial Regex Link();
}
