// A folder below which files may lie. It may be a link, which is led to the next release while its site goes on: whoever opens something there asks before and behind that.

namespace Millrace.Connector;

internal sealed class FolderPlace(string path)
{
    /// <summary>Where it lies now, without links.</summary>
    public string Now => RealPath.Of(path) ?? path;
}
