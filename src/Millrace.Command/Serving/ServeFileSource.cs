// Where the file of `millrace serve` comes from, and where its daemon is found when nobody says.

using Millrace.Command.Running;
using Millrace.Listeners;

namespace Millrace.Command.Serving;

internal static class ServeFileSource
{
    public const string DefaultName = "millrace.json";

    /// <summary>Where a daemon of root's has its sockets.</summary>
    public const string RootsSockets = "/run/millrace";

    /// <summary>Where it copies code to.</summary>
    public const string RootsSnapshots = "/var/cache/millrace";

    private const long SizeMax = 16 * 1024 * 1024;

    /// <summary>What a daemon has whose file does not say otherwise.</summary>
    public static DaemonPlaces Defaults
    {
        get
        {
            var facts = UserFacts.OfProcess();
            return new DaemonPlaces(Path.Combine(facts.UserId == 0 ? RootsSockets : facts.PrivateDirectory, "control.sock"), facts.UserId == 0 ? RootsSnapshots : OwnCache(facts));
        }
    }

    // Beside the home of the user, which may be on the same file system as the applications; a user of the system may have none.
    private static string OwnCache(UserFacts facts) =>
        Environment.GetEnvironmentVariable("XDG_CACHE_HOME") is ['/', ..] named ? Path.Combine(named, "millrace")
        : Environment.GetEnvironmentVariable("HOME") is ['/', _, ..] home && Directory.Exists(home) ? Path.Combine(home, ".cache/millrace")
        : Path.Combine(facts.PrivateDirectory, "snapshots");

    /// <summary>The file that is meant: the one that is named, or the one in this folder.</summary>
    /// <exception cref="CommandFailure">There is none.</exception>
    public static string Find(string? named)
    {
        string path;
        try
        {
            path = Path.GetFullPath(named ?? DefaultName);
        }
        catch (FileNotFoundException)
        {
            throw CommandFailure.Usage($"The folder that this command is run in has been removed, and '{named ?? DefaultName}' is looked for from there. Go to another folder, or name the file with its whole path.");
        }
        path = Directory.Exists(path) ? Path.Combine(path, DefaultName) : path;
        return File.Exists(path) ? path
            : throw CommandFailure.Usage(named is null ? $"There is no {DefaultName} in this folder. Name a file: millrace serve FILE." : $"There is no '{named}'. Name a file such as {DefaultName}.");
    }

    /// <exception cref="CommandFailure">It cannot be read, or holds mistakes: one line for each.</exception>
    public static ServeFile Read(string path) =>
        TryRead(path, Defaults, out string mistakes) ?? throw CommandFailure.Usage(mistakes);

    /// <param name="path">Absolute.</param>
    /// <param name="defaults">For a file that names none.</param>
    /// <param name="mistakes">One line for each, as compilers write them: FILE:LINE:COLUMN: SENTENCE.</param>
    public static ServeFile? TryRead(string path, DaemonPlaces defaults, out string mistakes)
    {
        byte[] bytes;
        try
        {
            // To read a pipe would wait for whoever writes to it; what has become one meanwhile is not opened either.
            if (FileFacts.At(File.ResolveLinkTarget(path, returnFinalTarget: true)?.FullName ?? path, out _) is { IsFile: false })
            {
                mistakes = $"{path} is no file but something else, such as a pipe or a folder. Name a file such as {DefaultName}.";
                return null;
            }
            if (new FileInfo(path).Length > SizeMax)
            {
                mistakes = $"{path} is larger than 16 MiB, and is no file of settings.";
                return null;
            }
            bytes = PlainFile.ReadBytes(path);
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            mistakes = $"{path} cannot be read: {error.Message}";
            return null;
        }
        var file = ServeFileReader.Read(path, bytes, defaults, out var found);
        mistakes = string.Join('\n', found.Select(mistake => mistake.In(path)));
        return file;
    }
}
