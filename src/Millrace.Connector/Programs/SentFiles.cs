// Files that a script may have sent, and nobody may ask for: X-Accel-Redirect names them by a path that is mapped to a folder, X-Sendfile by their own. Below the folders that are configured, links
// followed, or not at all.

namespace Millrace.Connector;

internal sealed class SentFiles(FastCgiProgramOptions options)
{
    private readonly (string Path, string Folder)[] _roots =
        [.. options.SendFileRoots.Select(static root => (root.Key, RealPath.Of(root.Value) ?? root.Value)).OrderByDescending(static root => root.Key.Length)];

    /// <param name="path">X-Accel-Redirect; null: none.</param>
    /// <param name="file">X-Sendfile; null: none.</param>
    /// <returns>The file; null: there is none that may be sent.</returns>
    public string? Find(string? path, string? file) => path is not null ? ByPath(path) : ByFile(file!);

    private string? ByPath(string path)
    {
        int query = path.IndexOf('?', StringComparison.Ordinal);
        string plain = Uri.UnescapeDataString(query < 0 ? path : path[..query]);
        foreach (var (prefix, folder) in _roots)
        {
            if (plain.StartsWith(prefix, StringComparison.Ordinal))
            {
                return Judge(folder + "/" + plain[prefix.Length..], folder);
            }
        }
        return null;
    }

    private string? ByFile(string file) => file.StartsWith('/') ? _roots.Select(root => Judge(file, root.Folder)).FirstOrDefault(static found => found is not null) : null;

    private static string? Judge(string file, string folder) =>
        !file.Contains('\0', StringComparison.Ordinal) && RealPath.Of(file) is { } real && RealPath.IsBelow(real, folder) && File.Exists(real) ? real : null;
}
