// Names of users and groups to numbers, as the system's own lookup has them. A number is taken as it stands.

using System.Globalization;
using System.Runtime.InteropServices;
using System.Text;
using Millrace.Platform;

namespace Millrace.Listeners;

/// <summary>A user of this machine.</summary>
/// <param name="User">Its number.</param>
/// <param name="Group">That its processes belong to.</param>
/// <param name="Home">Its folder, which need not be there.</param>
internal readonly record struct Account(uint User, uint Group, string Home);

internal static unsafe class Accounts
{
    private const int BufferSizeFirst = 4 * 1024;
    private const int BufferSizeMax = 1024 * 1024;
    private const string UserMap = "/proc/self/uid_map";
    private const string GroupMap = "/proc/self/gid_map";

    /// <exception cref="MillraceStartException">There is no such group.</exception>
    public static uint GroupId(string name) =>
        FindNumber(name) ?? FindByName<uint>(name, TryGroup)
        ?? throw new MillraceStartException($"There is no group '{name}' on this machine; create it (groupadd --system {name}) or name another one (getent group lists them).");

    /// <exception cref="MillraceStartException">There is no such user.</exception>
    public static uint UserId(string name) => FindNumber(name) ?? FindByName<Account>(name, TryUser)?.User ?? throw NoUser(name);

    /// <summary>What the system knows of a user, by name alone.</summary>
    /// <exception cref="MillraceStartException">There is no such user.</exception>
    public static Account Find(string name) => FindByName<Account>(name, TryUser) ?? throw NoUser(name);

    /// <summary>
    /// Whether this is a user of this user namespace. Files of users that are not (user_namespaces(7)) show the overflow user, who is nobody here and can do nothing.
    /// </summary>
    public static bool IsMapped(uint user) => IsMapped(user, File.Exists(UserMap) ? File.ReadAllLines(UserMap) : []);

    /// <summary>Whether this is a group of this user namespace. To others not even its root can give a file.</summary>
    public static bool IsMappedGroup(uint group) => IsMapped(group, File.Exists(GroupMap) ? File.ReadAllLines(GroupMap) : []);

    /// <param name="id">The number inside.</param>
    /// <param name="map">Lines of "first inside, first outside, count"; none where the kernel has no user namespaces.</param>
    internal static bool IsMapped(uint id, string[] map) => map.Length == 0 || Array.Exists(map, line =>
    {
        string[] fields = line.Split(' ', StringSplitOptions.RemoveEmptyEntries);
        return fields.Length == 3
            && ulong.TryParse(fields[0], NumberStyles.None, CultureInfo.InvariantCulture, out ulong first)
            && ulong.TryParse(fields[2], NumberStyles.None, CultureInfo.InvariantCulture, out ulong count)
            && id >= first && id - first < count;
    });

    private static uint? FindNumber(string name) =>
        uint.TryParse(name, NumberStyles.None, CultureInfo.InvariantCulture, out uint id) && id != SystemCalls.KeepId ? id : null;

    private static MillraceStartException NoUser(string name) =>
        new($"There is no user '{name}' on this machine; create it (useradd --system {name}) or name another one (getent passwd lists them).");

    private delegate int Lookup<T>(string name, int size, out T? found)
        where T : struct;

    private static T? FindByName<T>(string name, Lookup<T> look)
        where T : struct
    {
        // A group with thousands of members needs more room than the first try gives: ERANGE says so.
        for (int size = BufferSizeFirst; size <= BufferSizeMax; size *= 4)
        {
            int error = look(name, size, out T? found);
            if (error != SystemCalls.ERANGE)
            {
                return found;
            }
        }

        return null;
    }

    private static int TryGroup(string name, int size, out uint? id)
    {
        SystemCalls.GroupEntry entry;
        SystemCalls.GroupEntry* found = null;
        fixed (byte* key = Encoding.UTF8.GetBytes(name + '\0'), buffer = new byte[size])
        {
            int error = SystemCalls.GetGroupByName(key, &entry, buffer, size, &found);
            id = found is null ? null : found->Id;
            return error;
        }
    }

    private static int TryUser(string name, int size, out Account? account)
    {
        SystemCalls.UserEntry entry;
        SystemCalls.UserEntry* found = null;
        fixed (byte* key = Encoding.UTF8.GetBytes(name + '\0'), buffer = new byte[size])
        {
            int error = SystemCalls.GetUserByName(key, &entry, buffer, size, &found);
            account = found is null ? null : new Account(found->Id, found->Group, Marshal.PtrToStringUTF8((nint)found->Home) ?? "");
            return error;
        }
    }
}
