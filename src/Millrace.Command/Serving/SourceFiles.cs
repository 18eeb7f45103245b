// What of a project's folder is source: what a build reads, and nothing that it writes. For `millrace run --watch`, beside which somebody edits.

using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using System.Text.Json;
using Millrace.Command.Running;

namespace Millrace.Command.Serving;

internal static class SourceFiles
{
    private const int DepthMax = 16;

    private static readonly string[] s_endings =
    [
        ".cs", ".fs", ".vb", ".razor", ".cshtml", ".razor.css", ".cshtml.css", ".resx", ".proto", ".csproj", ".fsproj", ".vbproj", ".props", ".targets", ".editorconfig", ".globalconfig",
    ];

    private static readonly string[] s_foreign = ["bin", "obj", "node_modules", "artifacts"];

    /// <summary>The folders of a project and of those that it refers to, which the last restore has written down; without one, its own.</summary>
    /// <param name="project">The project file.</param>
    public static IReadOnlyList<string> FoldersOf(string project)
    {
        string own = Path.GetDirectoryName(project)!;
        try
        {
            using var json = JsonDocument.Parse(File.ReadAllBytes(Path.Combine(own, "obj", Path.GetFileName(project) + ".nuget.dgspec.json")));
            return [.. json.RootElement.GetProperty("projects").EnumerateObject().Select(static each => Path.GetDirectoryName(each.Name)!).Append(own).Distinct(StringComparer.Ordinal).Order(StringComparer.Ordinal)];
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException or JsonException or KeyNotFoundException or InvalidOperationException)
        {
            return [own];
        }
    }

    /// <summary>Two that are the same are one state of the sources: names, lengths and times of files.</summary>
    /// <param name="folders">Of projects.</param>
    /// <param name="seen">Is called again and again while they are read; null: nobody waits for that.</param>
    public static string Sign(IEnumerable<string> folders, Action? seen = null)
    {
        using var hash = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
        foreach (string folder in folders)
        {
            Add(hash, new DirectoryInfo(folder), depth: 0, seen ?? (static () => { }));
        }
        return Convert.ToHexString(hash.GetHashAndReset());
    }

    // What editors put beside a file while they save it ends otherwise, or begins with a dot.
    private static void Add(IncrementalHash hash, DirectoryInfo directory, int depth, Action seen)
    {
        FileSystemInfo[] entries;
        try
        {
            entries = [.. CodeFiles.Telling(directory.EnumerateFileSystemInfos(), seen).Where(static entry => entry.Name[0] != '.' || entry.Name is ".editorconfig" or ".globalconfig").OrderBy(static entry => entry.Name, StringComparer.Ordinal)];
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            return;     // it has gone meanwhile, or is somebody else's
        }
        foreach (var file in entries.OfType<FileInfo>().Where(static file => s_endings.Any(ending => file.Name.EndsWith(ending, StringComparison.OrdinalIgnoreCase))))
        {
            seen();
            var (length, written) = PlainFile.Facts(file.FullName);
            hash.AppendData(Encoding.UTF8.GetBytes(string.Create(CultureInfo.InvariantCulture, $"{file.FullName}\0{length}\0{written.Ticks}\0")));
        }
        foreach (var inner in CodeFiles.Telling(entries.OfType<DirectoryInfo>(), seen).Where(each => depth < DepthMax && each.LinkTarget is null && !s_foreign.Contains(each.Name)))
        {
            Add(hash, inner, depth + 1, seen);
        }
    }
}
