// The group web servers run as, under the name each distribution gives it.

using System.Globalization;

namespace Millrace.Command.Running;

internal sealed record WebServerGroup(string Name, uint Id)
{
    // Debian, Ubuntu; nginx.org, Fedora, Alpine; Arch; SUSE.
    private static readonly string[] s_names = ["www-data", "nginx", "http", "www"];

    /// <param name="groupFile">Lines of /etc/group: name:password:id:members.</param>
    /// <param name="mayUse">Whether the user may give files to a group.</param>
    /// <returns>The first known group that exists and may be used, or null.</returns>
    public static WebServerGroup? Find(IEnumerable<string> groupFile, Func<uint, bool> mayUse)
    {
        var groups = new Dictionary<string, uint>(StringComparer.Ordinal);
        foreach (string line in groupFile)
        {
            var fields = line.Split(':');
            if (fields.Length >= 3 && uint.TryParse(fields[2], NumberStyles.None, CultureInfo.InvariantCulture, out uint id))
            {
                groups.TryAdd(fields[0], id);
            }
        }
        foreach (string name in s_names)
        {
            if (groups.TryGetValue(name, out uint id) && mayUse(id))
            {
                return new WebServerGroup(name, id);
            }
        }
        return null;
    }
}
