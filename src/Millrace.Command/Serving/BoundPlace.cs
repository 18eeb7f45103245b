// What an address is bound to, whatever is spoken there and however it is written.

using System.Net;
using System.Net.Sockets;
using Millrace.Listeners;

namespace Millrace.Command.Serving;

internal static class BoundPlace
{
    /// <summary>The same text for two addresses that are one. Port 0 is another one each time.</summary>
    public static string Of(string bare)
    {
        try
        {
            var address = ListenAddress.Parse(bare);
            return address.Path is { } path ? PathOf(address, path)
                : address.Port == 0 ? bare : bare[(bare.IndexOf("://", StringComparison.Ordinal) + 1)..];
        }
        catch (FormatException)
        {
            return bare;
        }
    }

    /// <summary>Whether one of two cannot be listened on while the other is: they are one, or one of them is a port on every address of the machine.</summary>
    public static bool IsTaken(ListenAddress address, ListenAddress other) => address.Path is { } path
        ? other.Path is { } its && PathOf(address, path) == PathOf(other, its)
        : other.Path is null && address.Port == other.Port && address.Port != 0 && AllOf(address).Any(mine => AllOf(other).Any(its => Meet(mine, its) || Meet(its, mine)));

    /// <summary>The same, where links may lead from one folder to the other. Asks the file system that they lie on.</summary>
    public static bool IsOne(ListenAddress address, ListenAddress other) => IsTaken(address, other) || (
        address is { Path: { } path, IsAbstract: false } && other is { Path: { } its, IsAbstract: false } && Path.GetFileName(path) == Path.GetFileName(its)
        && FileFacts.Behind(FolderOf(path), out _) is { } folder && FileFacts.Behind(FolderOf(its), out _) is { } itsFolder && folder.IsSame(itsFolder));

    private static string FolderOf(string path) => Path.GetDirectoryName(Path.GetFullPath(path)) ?? "/";

    private static string PathOf(ListenAddress address, string path) => address.IsAbstract ? "@" + path : Path.GetFullPath(path);

    // As TcpListeners binds them.
    private static IPAddress[] AllOf(ListenAddress address) =>
        address.AnyHost ? [IPAddress.IPv6Any] : address.Localhost ? [IPAddress.Loopback, IPAddress.IPv6Loopback] : address.Address is { } its ? [its] : [];

    // [::] is every address of IPv4 as well.
    private static bool Meet(IPAddress address, IPAddress other) =>
        address.Equals(other) || address.Equals(IPAddress.IPv6Any) || (address.Equals(IPAddress.Any) && other.AddressFamily == AddressFamily.InterNetwork);
}
