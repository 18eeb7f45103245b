// Files that a script may have sent, and nobody may ask for: X-Accel-Redirect names them by a path that is mapped to a folder, X-Sendfile by their own. Below the folders that are configured, links
// followed, or not at all.

namespace Millrace.Connector;

internal sealed class SentFiles
{
    private readonly (string Path, FolderPlace Folder)[] _roots;
    private readonly FolderPlace[] _folders;

    public SentFiles(FastCgiProgramOptions options)
    {
        _roots = [.. options.SendFileRoots.Select(static root => (root.Key, new FolderPlace(root.Value))).OrderByDescending(static root => root.Key.Length)];
        _folders = Array.ConvertAll(_roots, static root => root.Folder);
    }

    /// <param name="path">X-Accel-Redirect; null: none.</param>
    /// <param name="file">X-Sendfile; null: none.</param>
    /// <param name="errno">Why it cannot be read, although it may be sent; otherwise 0.</param>
    /// <returns>The file; null: there is none that may be sent.</returns>
    public ServedFile? Open(string? path, string? file, out int errno)
    {
        errno = 0;
        return path is not null ? ByPath(path, ref errno)
            : file!.StartsWith('/') && _folders.Length > 0 ? ServedFile.Open(file, _folders, out errno)
            : null;
    }

    private ServedFile? ByPath(string path, ref int errno)
    {
        int query = path.IndexOf('?', StringComparison.Ordinal);
        string plain = Uri.UnescapeDataString(query < 0 ? path : path[..query]);
        foreach (var (prefix, folder) in _roots)
        {
            if (plain.StartsWith(prefix, StringComparison.Ordinal))
            {
                return ServedFile.Open(folder.Now + "/" + plain[prefix.Length..], [folder], out errno);
            }
        }
        return null;
    }
}
