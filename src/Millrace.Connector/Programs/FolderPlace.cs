// A folder below which files may lie. It may be a link, which is led to the next release while its site goes on.

namespace Millrace.Connector;

internal sealed class FolderPlace(string path)
{
    private volatile string _last = RealPath.Of(path) ?? path;

    /// <summary>Where it lies now, without links.</summary>
    public string Now => _last = RealPath.Of(path) ?? path;

    /// <summary>Whether something lies below it, or is it.</summary>
    /// <param name="place">Without links.</param>
    public bool Holds(string place) => IsWithin(place, _last) || IsWithin(place, Now);

    private static bool IsWithin(string place, string folder) => place == folder || RealPath.IsBelow(place, folder);
}
