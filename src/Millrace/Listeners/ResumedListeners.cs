// Sockets that are listened on already: by this process, which was another program before, or by one that has handed them over. The file of a Unix socket is
// theirs again, and goes with them, where it is still the one that the socket is bound to.

using Millrace.Platform;

namespace Millrace.Listeners;

internal static class ResumedListeners
{
    /// <summary>Takes over a descriptor that listens at an address; null where it is none, and it is left open.</summary>
    /// <param name="descriptor">Of whatever kind.</param>
    /// <param name="address">With its real port.</param>
    /// <param name="fileIdentity">See <see cref="ListenSocket.FileIdentity"/>.</param>
    public static ListenSocket? TryTake(int descriptor, ListenAddress address, string? fileIdentity) =>
        IsAt(descriptor, address) ? TryTake(descriptor, address, fileIdentity is null ? null : FileOf(address, fileIdentity)) : null;

    /// <summary>The same where the file has been looked for: no file system is asked for anything.</summary>
    public static ListenSocket? TryTake(int descriptor, ListenAddress address, SocketFile? file)
    {
        if (!IsAt(descriptor, address))
        {
            return null;
        }

        return Take(descriptor, address, SocketName.Of(descriptor)!.Value, file);
    }

    /// <summary>The same of a TCP socket that does not listen any more: whoever had it as well has shut it down, and its owner opens it anew. Null where it is none.</summary>
    public static ListenSocket? TryTakeShut(int descriptor, ListenAddress address) =>
        address.Kind == EndPointKind.Tcp
        && SystemCalls.GetSocketOption(descriptor, SystemCalls.SOL_SOCKET, SystemCalls.SO_TYPE) == SystemCalls.SOCK_STREAM
        && SocketName.Of(descriptor) is { Address: not null } name
            ? Take(descriptor, address, name with { Port = address.Port }, file: null)      // it may have lost its port
            : null;

    private static ListenSocket Take(int descriptor, ListenAddress address, SocketName name, SocketFile? file)
    {
        _ = SystemCalls.Fcntl(descriptor, SystemCalls.F_SETFD, SystemCalls.FD_CLOEXEC);
        return new ListenSocket(descriptor, address, name, loop: address.Kind == EndPointKind.Tcp ? 0 : -1, file);
    }

    /// <summary>Whether a descriptor listens at an address.</summary>
    public static bool IsAt(int descriptor, ListenAddress address) =>
        SystemCalls.GetSocketOption(descriptor, SystemCalls.SOL_SOCKET, SystemCalls.SO_ACCEPTCONN) == 1
        && SystemCalls.GetSocketOption(descriptor, SystemCalls.SOL_SOCKET, SystemCalls.SO_TYPE) == SystemCalls.SOCK_STREAM
        && SocketName.Of(descriptor) is SocketName name
        && IsAt(address, name);

    // What an inherited one is bound to is whoever has opened it to say.
    private static bool IsAt(ListenAddress address, SocketName name) => address.Kind switch
    {
        EndPointKind.Unix => name.Path == address.Path,
        EndPointKind.Tcp => name.Address is not null && name.Port == address.Port && (address.AnyHost || address.Localhost || name.Address.Equals(address.Address)),
        _ => true,
    };

    /// <summary>The file at a Unix address, where it is still that one; its folder is the caller's to close as well.</summary>
    public static SocketFile? FileOf(ListenAddress address, string identity)
    {
        if (SocketDirectory.Open(address.Path!, out _) is not { } directory)
        {
            return null;
        }

        if (SocketFile.Open(directory, Path.GetFileName(address.Path!), out _) is { } file)
        {
            if (file.Facts.Identity == identity)
            {
                return file;
            }

            file.Dispose();
        }

        directory.Dispose();
        return null;
    }
}
