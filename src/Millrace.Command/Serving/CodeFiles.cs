// What of an application's folder is code: what .NET maps into memory or reads once at the start, and what a publish writes anew. The rest is content and data,
// which the application opens, and may write, whenever it likes.

using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using Millrace.Command.Running;

namespace Millrace.Command.Serving;

/// <summary>A folder that holds code, at whatever depth. Names are kept and no paths: there may be many, and they may be as long as can be.</summary>
/// <param name="above">The folder that it is in; null: it is the application's.</param>
/// <param name="name">Of the folder; the path of the application's own: absolute, and without a link in it.</param>
internal sealed class CodeFolder(CodeFolder? above, string name)
{
    public string Name => name;

    public string Path => above is null ? name : System.IO.Path.Combine(above.Path, name);

    /// <summary>The code right in it.</summary>
    public IReadOnlyList<string> Files { get; set; } = [];

    /// <summary>Those in it that hold code.</summary>
    public IReadOnlyList<CodeFolder> Folders { get; set; } = [];
}

internal static class CodeFiles
{
    /// <summary>Files of code, and folders, that are kept of one application's folder. What is none of code may be there in any number: it is passed by.</summary>
    public const int EntriesMax = 100_000;

    private const int DepthMax = 8;
    private const string WebRoot = "wwwroot";

    private static readonly string[] s_endings = [".dll", ".pdb", ".so", ".dylib", ".exe", ".deps.json", ".runtimeconfig.json", ".staticwebassets.endpoints.json", ".staticwebassets.runtime.json"];

    /// <summary>The code of a folder as it is now; null where there is none, or the folder cannot be read.</summary>
    /// <param name="folder">Which.</param>
    /// <param name="seen">Is called again and again while it is read; null: nobody waits for that.</param>
    /// <param name="entriesMax">Files of code, and folders, that are kept.</param>
    /// <exception cref="CommandFailure">There are more.</exception>
    public static CodeFolder? Read(string folder, Action? seen = null, int entriesMax = EntriesMax)
    {
        try
        {
            return new Reading(folder, seen ?? (static () => { }), entriesMax).Read(new CodeFolder(above: null, Path.GetFullPath(RealPath.Of(folder))), depth: 0);
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
        Facts(folder, seen ?? (static () => { })).Select(static file => file.WrittenUtc).Concat(folder.Folders.Select(each => WrittenUtc(each, seen))).Max();

    private static IEnumerable<(string Path, long Length, DateTime WrittenUtc)> Facts(CodeFolder folder, Action seen)
    {
        string path = folder.Path;
        foreach (string name in Telling(folder.Files, seen))
        {
            string file = Path.Combine(path, name);
            var (length, written) = PlainFile.Facts(file);
            yield return (file, length, written);
        }
    }

    /// <summary>The same, of each of which somebody is told before it is looked at.</summary>
    public static IEnumerable<T> Telling<T>(IEnumerable<T> entries, Action seen)
    {
        foreach (var entry in entries)
        {
            seen();
            yield return entry;
        }
    }

    private static void Add(IncrementalHash hash, CodeFolder folder, Action seen)
    {
        foreach (var (path, length, written) in Facts(folder, seen))
        {
            hash.AppendData(Encoding.UTF8.GetBytes(string.Create(CultureInfo.InvariantCulture, $"{path}\0{length}\0{written.Ticks}\0")));
        }
        foreach (var each in folder.Folders)
        {
            Add(hash, each, seen);
        }
    }

    private static bool IsCode(string name) =>
        s_endings.Any(ending => name.EndsWith(ending, StringComparison.OrdinalIgnoreCase)) || name.Contains(".so.", StringComparison.OrdinalIgnoreCase) || name == "createdump";

    // Of what somebody has made in any number nothing is kept but the code, and the folders that are still to be looked into.
    private sealed class Reading(string whole, Action seen, int entriesMax)
    {
        private const string Assembly = ".dll";

        private int _kept;

        /// <returns>The same; null: it holds no code.</returns>
        public CodeFolder? Read(CodeFolder folder, int depth)
        {
            seen();
            int before = _kept;
            List<string> files = [];
            List<string> inner = [];
            var directory = new DirectoryInfo(folder.Path);
            foreach (var entry in Telling(directory.EnumerateFileSystemInfos(), seen))
            {
                if (entry is FileInfo file ? IsCode(file.Name) && IsFile(file.FullName) : IsLookedInto((DirectoryInfo)entry, depth))
                {
                    Keep(entry is FileInfo ? files : inner, entry.Name);
                }
            }
            foreach (string assembly in files.Where(static name => name.EndsWith(Assembly, StringComparison.Ordinal)).ToArray())
            {
                string executable = assembly[..^Assembly.Length];       // has the name of its assembly, and no ending
                if (executable.Length > 0 && !IsCode(executable) && IsFile(Path.Combine(directory.FullName, executable)))
                {
                    Keep(files, executable);
                }
            }
            files.Sort(StringComparer.Ordinal);
            inner.Sort(StringComparer.Ordinal);
            folder.Files = files;
            folder.Folders = [.. inner.Select(name => ReadInner(new CodeFolder(folder, name), depth + 1)).OfType<CodeFolder>()];
            bool hasCode = files.Count + folder.Folders.Count > 0;
            _kept = hasCode ? _kept - (inner.Count - folder.Folders.Count) : before;
            return hasCode ? folder : null;
        }

        // One that is closed, such as lost+found, is none of code.
        private CodeFolder? ReadInner(CodeFolder folder, int depth)
        {
            int before = _kept;
            try
            {
                return Read(folder, depth);
            }
            catch (UnauthorizedAccessException)
            {
                _kept = before;
                return null;
            }
        }

        private bool IsFile(string path)
        {
            seen();
            return PlainFile.IsAt(path);
        }

        private static bool IsLookedInto(DirectoryInfo directory, int depth) => depth < DepthMax && (depth > 0 || directory.Name != WebRoot) && directory.LinkTarget is null;

        private void Keep(List<string> all, string name)
        {
            all.Add(name);
            if (++_kept > entriesMax)
            {
                throw new CommandFailure(ExitCode.Failure, string.Create(CultureInfo.InvariantCulture, $"{whole} holds more than {entriesMax:N0} files of code and folders. Take what is no code out of it, or write \"snapshot\": false and \"watch\": false for the application."));
            }
        }
    }
}
