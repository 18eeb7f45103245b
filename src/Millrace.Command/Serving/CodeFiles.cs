// What of an application's folder is code: what .NET maps into memory or reads once at the start, and what a publish writes anew. The rest is content and data,
// which the application opens, and may write, whenever it likes.

using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using Millrace.Command.Running;

namespace Millrace.Command.Serving;

/// <param name="Path">The folder; absolute, and no link.</param>
/// <param name="Files">The code right in it.</param>
/// <param name="Folders">Those that hold code, at whatever depth.</param>
internal sealed record CodeFolder(string Path, IReadOnlyList<FileInfo> Files, IReadOnlyList<CodeFolder> Folders);

internal static class CodeFiles
{
    private const int DepthMax = 8;
    private const string WebRoot = "wwwroot";

    private static readonly string[] s_endings = [".dll", ".pdb", ".so", ".dylib", ".exe", ".deps.json", ".runtimeconfig.json", ".staticwebassets.endpoints.json", ".staticwebassets.runtime.json"];

    /// <summary>The code of a folder as it is now; null where there is none, or the folder cannot be read.</summary>
    /// <param name="folder">Which.</param>
    /// <param name="seen">Is called again and again while it is read; null: nobody waits for that.</param>
    public static CodeFolder? Read(string folder, Action? seen = null)
    {
        try
        {
            var directory = new DirectoryInfo(folder);
            return Read((DirectoryInfo?)directory.ResolveLinkTarget(returnFinalTarget: true) ?? directory, depth: 0, seen ?? (static () => { }));
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            return null;
        }
    }

    /// <summary>Two that are the same are one state of the code. The times of files count, not their bytes; null where there is no code.</summary>
    /// <param name="folder">Which.</param>
    /// <param name="seen">Is called again and again while its files are looked at; null: nobody waits for that.</param>
    public static string? Sign(CodeFolder? folder, Action? seen = null)
    {
        if (folder is null)
        {
            return null;
        }
        using var hash = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
        Add(hash, folder, seen ?? (static () => { }));
        return Convert.ToHexString(hash.GetHashAndReset());
    }

    /// <summary>When the youngest file was written.</summary>
    public static DateTime WrittenUtc(CodeFolder folder, Action? seen = null) =>
        Telling(folder.Files, seen ?? (static () => { })).Select(static file => PlainFile.Facts(file).WrittenUtc).Concat(folder.Folders.Select(each => WrittenUtc(each, seen))).Max();

    /// <summary>The same, of each of which somebody is told before it is looked at.</summary>
    public static IEnumerable<T> Telling<T>(IEnumerable<T> entries, Action seen)
    {
        foreach (var entry in entries)
        {
            seen();
            yield return entry;
        }
    }

    private static CodeFolder? Read(DirectoryInfo directory, int depth, Action seen)
    {
        seen();
        var entries = Telling(directory.EnumerateFileSystemInfos(), seen).ToArray();
        var names = entries.Select(static entry => entry.Name).ToHashSet(StringComparer.Ordinal);
        FileInfo[] files = [.. entries.OfType<FileInfo>().Where(file => IsCode(file.Name, names) && IsFile(file, seen)).OrderBy(static file => file.Name, StringComparer.Ordinal)];
        CodeFolder[] folders = depth == DepthMax ? [] :
        [
            .. Telling(entries.OfType<DirectoryInfo>(), seen).Where(each => (depth > 0 || each.Name != WebRoot) && each.LinkTarget is null)
                .OrderBy(static each => each.Name, StringComparer.Ordinal).Select(each => ReadInner(each, depth + 1, seen)).OfType<CodeFolder>(),
        ];
        return files.Length + folders.Length > 0 ? new CodeFolder(directory.FullName, files, folders) : null;
    }

    // One that is closed, such as lost+found, is none of code.
    private static CodeFolder? ReadInner(DirectoryInfo directory, int depth, Action seen)
    {
        try
        {
            return Read(directory, depth, seen);
        }
        catch (UnauthorizedAccessException)
        {
            return null;
        }
    }

    private static bool IsFile(FileInfo file, Action seen)
    {
        seen();
        return PlainFile.IsAt(file.FullName);
    }

    // The executable of an assembly has its name, and no ending.
    private static bool IsCode(string name, HashSet<string> names) =>
        s_endings.Any(ending => name.EndsWith(ending, StringComparison.OrdinalIgnoreCase))
        || name.Contains(".so.", StringComparison.OrdinalIgnoreCase) || name == "createdump" || names.Contains(name + ".dll");

    private static void Add(IncrementalHash hash, CodeFolder folder, Action seen)
    {
        foreach (var file in Telling(folder.Files, seen))
        {
            var (length, written) = PlainFile.Facts(file);
            hash.AppendData(Encoding.UTF8.GetBytes(string.Create(CultureInfo.InvariantCulture, $"{file.FullName}\0{length}\0{written.Ticks}\0")));
        }
        foreach (var each in folder.Folders)
        {
            Add(hash, each, seen);
        }
    }
}
