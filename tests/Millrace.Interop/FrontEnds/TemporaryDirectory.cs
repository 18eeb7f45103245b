// A directory that exists as long as what uses it. Its path is short: a Unix socket's path may have 107 bytes only.
namespace Millrace.Interop.FrontEnds;

/// <param name="purpose">Part of its name.</param>
/// <param name="searchable">Whether other users may open what they know the name of.</param>
public sealed class TemporaryDirectory(string purpose, bool searchable = false) : IDisposable
{
    public string Path { get; } = Create(purpose, searchable);

    public void Dispose() => Directory.Delete(Path, recursive: true);

    private static string Create(string purpose, bool searchable)
    {
        DirectoryInfo directory = Directory.CreateTempSubdirectory($"millrace-{purpose}-");
        if (searchable && !OperatingSystem.IsWindows())
        {
            directory.UnixFileMode |= UnixFileMode.GroupExecute | UnixFileMode.OtherExecute;
        }

        return directory.FullName;
    }
}
