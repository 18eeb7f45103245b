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

    [GeneratedRegex(@"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)")]
    private static partial Regex Link();
}
