// Where `run` listens when nobody says: on a Unix socket that the web server can reach, with mode 660. Root and services that
// may write to /run use /run; members of the web server's group a directory in /tmp that this group may enter; anybody else a
// directory of his own, which then only his own processes can enter.

using System.Globalization;
using System.Net;
using System.Net.Sockets;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Command.Running;

/// <summary>What is known of the machine and the user; apart from the choice so that the choice can be tested.</summary>
/// <param name="UserId">Effective user.</param>
/// <param name="RunIsWritable">Whether sockets may be made in /run.</param>
/// <param name="WebGroup">The web server's group if this user may give files to it, else null.</param>
/// <param name="RuntimeDirectory">$XDG_RUNTIME_DIR, or null where it is not this user's own: one that came along with `su` or `sudo` is another's.</param>
internal sealed record UserFacts(uint UserId, bool RunIsWritable, WebServerGroup? WebGroup, string? RuntimeDirectory)
{
    /// <summary>A directory of this user's alone that others know the name of.</summary>
    public string TemporaryDirectory => string.Create(CultureInfo.InvariantCulture, $"/tmp/millrace-{UserId}");

    /// <summary>A directory of this user's alone, out of the way of others where there is one.</summary>
    public string PrivateDirectory => RuntimeDirectory is null ? TemporaryDirectory : Path.Combine(RuntimeDirectory, "millrace");

    public static UserFacts OfProcess() => new(
        SystemCalls.GetEffectiveUser(),
        Posix.IsWritable("/run"),
        WebServerGroup.Find(File.Exists("/etc/group") ? File.ReadLines("/etc/group") : [], group => SystemCalls.GetEffectiveUser() == 0 ? Accounts.IsMappedGroup(group) : Posix.Groups().Contains(group)),
        Environment.GetEnvironmentVariable("XDG_RUNTIME_DIR") is ['/', ..] directory && OwnDirectory.IsOwn(directory) ? directory : null);
}

/// <param name="Directory">Holds the socket.</param>
/// <param name="IsOwn">Whether the directory is Millrace's, to be made when it is lacking.</param>
/// <param name="File">The socket.</param>
/// <param name="Group">The group that may connect besides the user, or null.</param>
internal sealed record SocketPlace(string Directory, bool IsOwn, string File, WebServerGroup? Group)
{
    /// <summary>A second place beside it, for a second application of the same name.</summary>
    public SocketPlace Other => this with { File = Path.ChangeExtension(File, null) + "-2.sock" };

    public string Address => Group is null ? $"fastcgi://unix:{File}" : $"fastcgi://unix:{File}?mode=660&group={Group.Name}";
}

internal static class DefaultAddress
{
    /// <summary>For a browser on the same machine.</summary>
    public const string Http = "http://127.0.0.1:5000";

    /// <summary>Whether <see cref="Http"/> can be listened on.</summary>
    public static bool HttpIsFree()
    {
        using var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        try
        {
            socket.Bind(new IPEndPoint(IPAddress.Loopback, new Uri(Http).Port));
            return true;
        }
        catch (SocketException)
        {
            return false;
        }
    }

    public static SocketPlace Choose(string name, UserFacts facts)
    {
        if (facts.RunIsWritable)
        {
            return new SocketPlace("/run", IsOwn: false, $"/run/millrace-{name}.sock", facts.WebGroup);
        }
        string directory = facts.WebGroup is null ? facts.PrivateDirectory : facts.TemporaryDirectory;
        return new SocketPlace(directory, IsOwn: true, $"{directory}/{name}.sock", facts.WebGroup);
    }

    /// <summary>Makes the directory, open to nobody but the user and the web server's group.</summary>
    /// <exception cref="CommandFailure">It cannot be made, or somebody else made it first.</exception>
    public static void Prepare(SocketPlace place)
    {
        if (place.IsOwn && OperatingSystem.IsLinux())
        {
            const string elsewhere = "name a place of your own with --urls fastcgi://unix:/PATH.";
            OwnDirectory.Prepare(place.Directory, place.Group, $"Remove it (as its owner, or as root), or {elsewhere}", $"Or {elsewhere}");
        }
    }
}
