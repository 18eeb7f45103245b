// The systemd unit for a file of applications. A reload is the command's, which says how it ended; systemd before 253 knows no Type=notify-reload. What the
// unit takes from the daemon and its applications they do not need; what one of them needs for certain, such as its folder in somebody's home, it is left.

using System.Globalization;
using System.Text;

namespace Millrace.Command.Serving;

// A daemon that is killed leaves its applications serving, for the next one to take over; where they are in control groups of their own systemd could not start one beside them
// (cgroups(7), "no internal processes"), and they end with it.
internal static class UnitFile
{
    private const int StopsWithin = 45;     // behind what is drained: processes that are killed, and 20 s for a file system that stands still
    private const int StoreMax = 1024;      // each application has two, and one or two for each address

    /// <param name="file">What is to be served.</param>
    /// <param name="command">How the command is started: a program, and what stands in front of its arguments.</param>
    /// <param name="isRoots">For the system's own manager; false: for that of a user.</param>
    public static string Write(ServeFile file, IReadOnlyList<string> command, bool isRoots)
    {
        var text = new StringBuilder();
        text.Append(CultureInfo.InvariantCulture, $"""
            [Unit]
            Description=Millrace: {Plain(file.CountText)} of {Plain(file.Path)}
            After=network.target

            [Service]
            Type=notify
            ExecStart={Line([.. command, "serve", file.Path])}
            ExecReload={Line([.. command, "reload", "--control", file.Places.Control])}
            TimeoutStartSec={Seconds(file.StartPatience) + 30}
            TimeoutStopSec={Seconds(file.StopPatience) + StopsWithin}
            WatchdogSec=30
            Restart=on-failure
            {(NeedsGroups(file) ? "KillMode=mixed" : "KillMode=process")}
            FileDescriptorStoreMax={StoreMax}
            Environment={ServiceManager.StoreVariable}={StoreMax}
            OOMPolicy=continue
            LimitNOFILE=524288

            """);
        if (NeedsGroups(file))
        {
            text.Append("Delegate=memory pids cpu\n");
        }
        if (isRoots)
        {
            text.Append(Confinement(file, command));
        }
        text.Append(CultureInfo.InvariantCulture, $"""

            [Install]
            WantedBy={(isRoots ? "multi-user" : "default")}.target

            """);
        return text.ToString();
    }

    private static string Confinement(ServeFile file, IReadOnlyList<string> command)
    {
        string[] paths =
        [
            file.Path, file.Places.Control, file.Places.Snapshots, .. command, Environment.ProcessPath ?? "",
            .. file.Apps.SelectMany(static app => (IEnumerable<string?>)[app.Target, app.WorkingDirectory, app.Pool?.Command, app.Pool?.Root, app.Pool?.WorkingDirectory, HomeOf(app.User), .. app.Urls.Select(PathOf)]).OfType<string>(),
        ];
        bool InHome(string path) => path.StartsWith("/home/", StringComparison.Ordinal) || path.StartsWith("/root/", StringComparison.Ordinal) || path.StartsWith("/run/user/", StringComparison.Ordinal);
        bool InTemporary(string path) => path.StartsWith("/tmp/", StringComparison.Ordinal) || path.StartsWith("/var/tmp/", StringComparison.Ordinal);
        List<string> lines = [];
        if (file.Places.Control.StartsWith(ServeFileSource.RootsSockets + "/", StringComparison.Ordinal))
        {
            lines.AddRange(["RuntimeDirectory=millrace", "RuntimeDirectoryMode=0700", "RuntimeDirectoryPreserve=restart"]);
        }
        if (file.Places.Snapshots == ServeFileSource.RootsSnapshots)
        {
            lines.AddRange(["CacheDirectory=millrace", "CacheDirectoryMode=0711"]);
        }
        lines.AddRange(
        [
            "",
            "# Applications are confined with the daemon. They may write to their folders, and not to /usr, /boot and /etc.",
            "ProtectSystem=full",
            $"ProtectHome={(Array.Exists(paths, InHome) ? "no" : "yes")}",
            $"PrivateTmp={(Array.Exists(paths, InTemporary) ? "no" : "yes")}",
            "PrivateDevices=yes",
            "NoNewPrivileges=yes",
            "CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER CAP_KILL CAP_NET_BIND_SERVICE CAP_SETGID CAP_SETUID",
            "ProtectClock=yes",
            $"ProtectControlGroups={(NeedsGroups(file) ? "no" : "yes")}",
            "ProtectHostname=yes",
            "ProtectKernelLogs=yes",
            "ProtectKernelModules=yes",
            "ProtectKernelTunables=yes",
            "ProtectProc=default",
            "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
            "RestrictNamespaces=yes",
            "RestrictRealtime=yes",
            "RestrictSUIDSGID=yes",
            "LockPersonality=yes",
            "SystemCallArchitectures=native",
            "SystemCallFilter=@system-service",
            "SystemCallErrorNumber=EPERM",
        ]);
        return string.Join('\n', lines) + "\n";
    }

    // The limits of processes are those of groups that the daemon makes in its own.
    private static bool NeedsGroups(ServeFile file) => file.Apps.Any(static app => app.Limits.NeedsGroup);

    // Where ASP.NET Core keeps the keys of cookies. A user who is not there yet has none.
    private static string? HomeOf(string? user)
    {
        try
        {
            return user is null ? null : Listeners.Accounts.Find(user).Home;
        }
        catch (MillraceStartException)
        {
            return null;
        }
    }

    private static string? PathOf(string url) => Listeners.ListenAddress.Parse(url).Path;

    private static long Seconds(TimeSpan time) => (long)Math.Ceiling(time.TotalSeconds);

    // systemd.syntax(7), systemd.service(5): '%' is a specifier everywhere, '$' a variable of a command.
    private static string Plain(string text) => text.Replace("%", "%%", StringComparison.Ordinal);

    private static string Line(string[] words) => string.Join(' ', words.Select(Quote));

    private static string Quote(string word)
    {
        string plain = Plain(word).Replace("$", "$$", StringComparison.Ordinal);
        return plain.All(static c => char.IsAsciiLetterOrDigit(c) || c is '/' or '.' or '-' or '_' or '%' or '$' or '+' or '=' or ',' or ':' or '@')
            ? plain
            : $"\"{plain.Replace("\\", @"\\", StringComparison.Ordinal).Replace("\"", "\\\"", StringComparison.Ordinal)}\"";
    }
}
