// A Unix socket, and the file beside it: what is already there is looked at first, and nobody can connect before mode, owner
// and group are as asked. One descriptor for all loops.
//
//   open the directory; for root: nobody else may exchange what is in it (GuardedWalk)
//   wait for others who start here (StartLock)
//   look: nothing ............................ go on
//         not a socket ....................... refuse
//         a socket, something answers ........ refuse, and say who
//         a socket, nobody answers (stale) ... take its name away, ask once more, remove that very file
//   socket -> narrow mode on the descriptor -> bind -> hold the file -> owner and group -> mode -> listen -> look again
//
// bind gives the file the descriptor's mode, so it is never wider than its owner's rights before it is what was asked for; and until
// listen, connect is refused whatever the mode says. The umask is the whole process's and is left alone.
//
// Servers that start at the same moment on one path go ahead one by one, if they are one user's (StartLock). Where that cannot be had, one of
// two may find the other's file between its bind and its listen, and take it for a stale one. So the one asks whether anybody answers when the
// name is gone, and the other looks for its name when it answers: one of them sees the other. A name that the one has put back is waited for.
//
// Between bind and the rest somebody who may write in the directory can put another file under the name. So the file is held open, must
// bear the marks of the one that was made this moment, and owner and mode are given to what is held, never to what a path leads to.

using System.Globalization;
using Millrace.Platform;

namespace Millrace.Listeners;

internal static unsafe class UnixListener
{
    // 0600 and the sticky bit, which means nothing for a socket and is on no other file of this user: so a new one is known.
    private const UnixFileMode NewFile = UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.StickyBit;

    private const int LooksMax = 200;
    private const int LookAgainMs = 5;

    /// <param name="address">Where, and with what rights.</param>
    /// <param name="backlog">See <see cref="ListenSockets.DefaultBacklog"/>.</param>
    /// <param name="between">Called after each step that makes or changes the file, with its name; a test steps in there.</param>
    public static ListenSocket Open(ListenAddress address, int backlog, Action<string>? between = null)
    {
        string path = address.Path!;
        uint? group = address.Group is null ? null : Accounts.GroupId(address.Group);
        uint? user = address.Owner is null ? null : Accounts.UserId(address.Owner);
        SocketDirectory directory = SocketDirectory.Open(path, out int errno) ?? throw CannotCreate(path, errno);
        try
        {
            using StartLock? turn = StartLock.Take(directory, Path.GetFileName(path), between);
            return Open(address, directory, user, group, backlog, between);
        }
        catch
        {
            directory.Dispose();
            throw;
        }
    }

    // The directory is the socket's from here on, unless this throws.
    private static ListenSocket Open(ListenAddress address, SocketDirectory directory, uint? user, uint? group, int backlog, Action<string>? between)
    {
        string path = address.Path!;
        int descriptor = -1;
        SocketFile? file = null;
        try
        {
            MakeRoom(directory, path, between);
            descriptor = CreateSocket(path);
            Bind(descriptor, path);
            between?.Invoke("bind");
            file = HoldNew(directory, path);
            between?.Invoke("hold");
            SetRights(address, file, user, group);
            between?.Invoke("rights");
            if (SystemCalls.Listen(descriptor, backlog) < 0)
            {
                throw Failed(path, "cannot be listened on", SystemCalls.Errno);
            }

            between?.Invoke("listen");
            return IsOrComesInPlace(file) ? new ListenSocket(descriptor, address, new SocketName(null, 0, path), loop: -1, file) : throw Exchanged(path);
        }
        catch
        {
            file?.RemoveIfSame();
            file?.Dispose();
            if (descriptor >= 0)
            {
                _ = SystemCalls.Close(descriptor);
            }

            throw;
        }
    }

    private static void MakeRoom(SocketDirectory directory, string path, Action<string>? between)
    {
        using SocketFile? found = SocketFile.Open(directory, Path.GetFileName(path), out int errno);
        if (found is null)
        {
            if (errno != SystemCalls.ENOENT)
            {
                throw CannotCreate(path, errno);
            }

            return;
        }

        if (!found.Facts.IsSocket)
        {
            throw new MillraceStartException($"{path} exists and is not a socket; remove it or choose another path.");
        }

        int answer = TryConnect(found, path, out string owner);
        ThrowIfLive(path, owner, answer);
        between?.Invoke("stale");
        errno = found.RemoveIfSame(stays: () =>
        {
            between?.Invoke("aside");
            answer = TryConnect(found, path, out owner);
            return answer != SystemCalls.ECONNREFUSED;
        });
        ThrowIfLive(path, owner, answer);
        if (errno != 0)
        {
            throw CannotRemove(path, errno);
        }
    }

    /// <summary>Why a file that nobody answers on stays, and what to do.</summary>
    internal static MillraceStartException CannotRemove(string path, int errno) => errno switch
    {
        SystemCalls.EROFS => new MillraceStartException(
            $"The stale socket {path} lies on a read-only file system and cannot be removed; choose a path under /run or /tmp, or make that file system writable (with systemd's ProtectSystem=: RuntimeDirectory= or ReadWritePaths=)."),
        SystemCalls.EACCES => new MillraceStartException(string.Create(
            CultureInfo.InvariantCulture,
            $"User {SystemCalls.GetEffectiveUser()} may not remove the stale socket {path}; give that user the right to write in {Path.GetDirectoryName(path)}, or remove the file as one who has it.")),
        SystemCalls.EPERM => new MillraceStartException(
            $"The stale socket {path} belongs to another user and cannot be removed ({SystemCalls.Describe(errno)}); remove it as its owner or choose another path."),
        _ => new MillraceStartException($"The stale socket {path} cannot be removed: {SystemCalls.Describe(errno)}; remove it or choose another path."),
    };

    private static void ThrowIfLive(string path, string owner, int answer)
    {
        if (answer != SystemCalls.ECONNREFUSED)
        {
            throw MillraceStartException.InUse(ExplainLive(path, owner, answer));
        }
    }

    // Another server that starts may have taken it away for a moment (MakeRoom).
    private static bool IsOrComesInPlace(SocketFile file)
    {
        for (int looks = 1; looks < LooksMax && file.IsMissing; looks++)
        {
            Thread.Sleep(LookAgainMs);
        }

        return file.IsInPlace;
    }

    // The file that bind has made. Where others may write, a file under its name is not yet the one: it must be new, and this user's.
    private static SocketFile HoldNew(SocketDirectory directory, string path)
    {
        string name = Path.GetFileName(path);
        SocketFile? file = SocketFile.Open(directory, name, out int errno);
        if (file is null && errno != SystemCalls.ENOENT)
        {
            RemoveNew(directory, name);
            throw Failed(path, "cannot be held open", errno);
        }

        if (file is not null && IsTheOne(directory, file.Facts))
        {
            return file;
        }

        file?.Dispose();
        throw Exchanged(path);
    }

    // No descriptor is left to hold it by.
    private static void RemoveNew(SocketDirectory directory, string name)
    {
        if (FileFacts.At(directory.Descriptor, name, out _) is FileFacts facts && IsTheOne(directory, facts))
        {
            _ = directory.RemoveEntry(name);
        }
    }

    private static bool IsTheOne(SocketDirectory directory, in FileFacts facts) => facts.IsSocket && (!directory.OthersMayWrite || IsNew(facts));

    // The umask may have taken rights of the owner's away.
    private static bool IsNew(in FileFacts facts) =>
        facts.User == SystemCalls.GetEffectiveUser() && facts.Links == 1 && facts.Mode.HasFlag(UnixFileMode.StickyBit) && !facts.IsOpenToOthers;

    private static MillraceStartException Exchanged(string path) =>
        new($"The socket {path} was exchanged for another file, or removed, at the moment it was made, and that file was left as it is; find out who may write in {Path.GetDirectoryName(path)} (ls -ld), take that right from others (chmod go-w), or choose another directory.");

    private static string ExplainLive(string path, string owner, int errno) => errno switch
    {
        0 when owner == SocketOwner.Self =>
            $"The socket {path} is in use by this process already: the address is given twice, or another server of this process has it; leave one out or choose another path.",
        0 => $"The socket {path} is owned by {owner}; stop it or choose another path.",
        SystemCalls.EAGAIN => $"The socket {path} is in use by a process whose queue of connections is full; stop it or choose another path.",
        SystemCalls.EPROTOTYPE => $"The socket {path} is in use as another type of socket; stop its owner or choose another path.",
        SystemCalls.EACCES => $"The socket {path} belongs to another user, and whether it is in use cannot be seen ({SystemCalls.Describe(errno)}); remove it as its owner or choose another path.",
        _ => $"The socket {path} cannot be looked at: {SystemCalls.Describe(errno)}; remove it or choose another path.",
    };

    /// <summary>Answers 0 and who listens, or the error number: ECONNREFUSED is a file without a process.</summary>
    private static int TryConnect(SocketFile file, string path, out string owner)
    {
        owner = string.Empty;
        int descriptor = CreateSocket(path);
        byte[] name = SocketName.Write(file.HeldPath);
        fixed (byte* bytes = name)
        {
            int errno = SystemCalls.Connect(descriptor, bytes, (uint)name.Length) < 0 ? SystemCalls.Errno : 0;
            if (errno == 0)
            {
                owner = SocketOwner.Describe(DescriptorPassing.Peer(descriptor).Process);
            }

            _ = SystemCalls.Close(descriptor);
            return errno;
        }
    }

    private static int CreateSocket(string path)
    {
        int descriptor = UnixSocket.Open();
        return descriptor >= 0 ? descriptor : throw Failed(path, "cannot be opened", SystemCalls.Errno);
    }

    private static void Bind(int descriptor, string path)
    {
        byte[] name = SocketName.Write(path);
        fixed (byte* bytes = name)
        {
            _ = SystemCalls.ChangeDescriptorMode(descriptor, (uint)NewFile);
            if (SystemCalls.Bind(descriptor, bytes, (uint)name.Length) < 0)
            {
                throw CannotCreate(path, SystemCalls.Errno);
            }
        }
    }

    private static void SetRights(ListenAddress address, SocketFile file, uint? user, uint? group)
    {
        string path = address.Path!;
        int errno = user is null && group is null ? 0 : file.SetOwner(user, group);
        if (errno != 0)
        {
            throw new MillraceStartException(
                $"The socket {path} cannot be given to {Recipient(address)} ({SystemCalls.Describe(errno)}); run this process as root or as a member of that group, or leave owner= and group= out.");
        }

        errno = file.SetMode(address.Mode);
        if (errno != 0)
        {
            throw Failed(path, "cannot be given its mode", errno);
        }
    }

    private static string Recipient(ListenAddress address) =>
        address.Owner is null ? $"group {address.Group}"
        : address.Group is null ? $"user {address.Owner}"
        : $"user {address.Owner} and group {address.Group}";

    private static MillraceStartException CannotCreate(string path, int errno)
    {
        string directory = Path.GetDirectoryName(path)!;
        return errno switch
        {
            SystemCalls.ENOENT => new MillraceStartException(
                $"The directory {directory} for the socket {path} does not exist; create it (mkdir -p {directory}), or let systemd do it with RuntimeDirectory=."),
            SystemCalls.ENOTDIR => new MillraceStartException($"The path {path} for the socket leads through something that is not a directory; choose another path."),
            SystemCalls.EACCES or SystemCalls.EPERM => new MillraceStartException(string.Create(
                CultureInfo.InvariantCulture,
                $"User {SystemCalls.GetEffectiveUser()} may not create the socket {path}; give that user the right to write in {directory}, or choose a directory it owns.")),
            SystemCalls.EROFS => new MillraceStartException($"The socket {path} would lie on a read-only file system; choose a path under /run or /tmp."),
            SystemCalls.EADDRINUSE => MillraceStartException.InUse($"The socket {path} was made by another process at this very moment; stop that process or choose another path."),
            _ => Failed(path, "cannot be made", errno),
        };
    }

    private static MillraceStartException Failed(string path, string what, int errno) =>
        new($"The socket {path} {what}: {SystemCalls.Describe(errno)}.");
}
