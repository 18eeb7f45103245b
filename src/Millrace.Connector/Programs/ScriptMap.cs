// From the path of a request to what answers it: a script, a file, a folder whose '/' is lacking, or nothing. The rule that keeps visitors from running what they have uploaded: a script is a
// regular file whose own name ends in an allowed suffix, found by going from folder to folder. What stands behind its name is PATH_INFO; what stands behind the name of any other file
// (/upload/a.jpg/x.php) leads nowhere. Nor does a path with slashes in a row in front of that name: /admin//x.php and //admin/x.php are not what rules about /admin look at.

namespace Millrace.Connector;

internal enum TargetKind
{
    /// <summary>404.</summary>
    Nothing,

    /// <summary>The program answers.</summary>
    Script,

    /// <summary>A file to be sent as it is.</summary>
    File,

    /// <summary>A folder that answers for itself, asked for without '/' at the end.</summary>
    Folder,
}

/// <param name="Kind">What it is.</param>
/// <param name="File">Its path on this machine; empty: the program needs none.</param>
/// <param name="Script">The part of the path that names the script, from '/'.</param>
/// <param name="PathInfo">What stands behind it; empty, or from '/'.</param>
internal readonly record struct ScriptTarget(TargetKind Kind, string File = "", string Script = "", string PathInfo = "");

internal sealed class ScriptMap
{
    private readonly FastCgiProgramOptions _options;
    private readonly string _root;      // without '/' at its end
    private readonly FolderPlace _place;
    private readonly FolderPlace[]? _folders;    // where files are sent from; null: from anywhere

    public ScriptMap(FastCgiProgramOptions options)
    {
        _options = options;
        _root = Path.TrimEndingDirectorySeparator(options.Root!);
        _place = new FolderPlace(_root);
        _folders = options.FollowLinks ? null : [_place];
    }

    /// <param name="path">Of the request, below the place where the program is mapped; without escapes, from '/', or empty: that place itself.</param>
    public ScriptTarget Find(string path)
    {
        string[] names = NamesOf(path);
        if (path.Contains('\0', StringComparison.Ordinal) || names.Any(static name => name is "." or ".."))
        {
            return default;
        }
        string file = _root;
        string script = "";
        for (int i = 0; i < names.Length; i++)
        {
            file += "/" + names[i];
            script += "/" + names[i];
            if (names[i].Length == 0 || IsHidden(names[i]))
            {
                return Missing(names);
            }
            if (!Directory.Exists(file))
            {
                return File.Exists(file) ? FileAt(file, script, names, i, path) : Missing(names);
            }
        }
        return FolderAt(file, script, path.EndsWith('/'), names);
    }

    /// <summary>Opens a file that has been found, and judges it: where links may not lead out of the root, whatever its path leads to by now lies below it, and is no script.</summary>
    /// <inheritdoc cref="ServedFile.Open"/>
    public ServedFile? Open(string file, out int errno)
    {
        ServedFile? found = ServedFile.Open(file, _folders, out errno);
        if (found is null || !IsClosed(found.Place))
        {
            return found;
        }
        found.Dispose();
        return null;
    }

    // A link below the root has no file sent that nobody gets by its own name: the text of a script, or what is hidden.
    private bool IsClosed(string place)
    {
        string root = _place.Now;
        return IsScript(Path.GetFileName(place)) || HasHidden(RealPath.IsBelow(place, root) ? place[root.Length..] : Path.GetFileName(place));
    }

    // An empty one where slashes stand in a row, but not for those at the beginning and the end.
    private static string[] NamesOf(string path) => path is "" or "/" ? [] : path[(path[0] == '/' ? 1 : 0)..^(path[^1] == '/' ? 1 : 0)].Split('/');

    /// <summary>Whether a name is that of a script.</summary>
    public bool IsScript(string name) => IsScript(name, _options);

    /// <inheritdoc cref="IsScript(string)"/>
    public static bool IsScript(string name, FastCgiProgramOptions options) => options.Suffixes.Any(suffix => name.Length > suffix.Length && name.EndsWith(suffix, StringComparison.Ordinal));

    private ScriptTarget FileAt(string file, string script, string[] names, int index, string path)
    {
        bool isLast = index == names.Length - 1;
        if (IsScript(names[index]))
        {
            string info = isLast && !path.EndsWith('/') ? "" : "/" + string.Join('/', names[(index + 1)..]) + (isLast || !path.EndsWith('/') ? "" : "/");
            return ServedFile.IsRegular(file) ? Allow(new ScriptTarget(TargetKind.Script, file, script, info)) : default;
        }
        return isLast && !path.EndsWith('/') && _options.ServeFiles ? new ScriptTarget(TargetKind.File, file, script) : Missing(names);
    }

    private ScriptTarget FolderAt(string folder, string script, bool endsWithSlash, string[] names)
    {
        foreach (string name in _options.Index)
        {
            string file = folder + "/" + name;
            bool isScript = IsScript(name);
            if (isScript ? ServedFile.IsRegular(file) : _options.ServeFiles && File.Exists(file))
            {
                return !endsWithSlash ? Allow(new ScriptTarget(TargetKind.Folder, folder, script))
                    : isScript ? Allow(new ScriptTarget(TargetKind.Script, file, script + "/" + name))
                    : new ScriptTarget(TargetKind.File, file, script + "/" + name);
            }
        }
        return Missing(names);
    }

    // A script that is not there is not there, and does not become another one's business.
    private ScriptTarget Missing(string[] names)
    {
        if (_options.Fallback is not { } fallback || names.Any(IsScript))
        {
            return default;
        }
        string script = "/" + fallback.TrimStart('/');
        return IsScript(script) && ServedFile.IsRegular(_root + script) ? Allow(new ScriptTarget(TargetKind.Script, _root + script, script)) : default;
    }

    // A script is opened by its program, by its name: what that leads to then is the program's to judge (open_basedir of PHP). A file is judged when it is open.
    private ScriptTarget Allow(ScriptTarget target)
    {
        if (_options.FollowLinks)
        {
            return target;
        }
        string before = _place.Now;
        return RealPath.Of(target.File) is { } real && (IsOpenBelow(real, before) || IsOpenBelow(real, _place.Now)) ? target : default;
    }

    private static bool IsOpenBelow(string real, string folder) =>
        real == folder || (RealPath.IsBelow(real, folder) && !HasHidden(real[folder.Length..]));

    private static bool HasHidden(string path) => path.Split('/', StringSplitOptions.RemoveEmptyEntries).Any(IsHidden);

    private static bool IsHidden(string name) => name[0] == '.' && name != ".well-known";
}
