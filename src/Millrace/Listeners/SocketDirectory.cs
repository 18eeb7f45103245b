// The directory of a socket file, held open, so that all that is done to the file is done in one and the same directory. For root the
// whole way to it is looked at first: what another user can exchange there he can have root make sockets in, or answer for root.

using Millrace.Platform;

namespace Millrace.Listeners;

/// <summary>An open directory (O_PATH: neither read nor written through).</summary>
internal sealed unsafe class SocketDirectory : IDisposable
{
    private int _descriptor;

    private SocketDirectory(int descriptor) => _descriptor = descriptor;

    public int Descriptor => _descriptor;

    /// <summary>Whether somebody who is neither root nor this process's user may put files here.</summary>
    public bool OthersMayWrite =>
        FileFacts.Of(_descriptor, out _) is not FileFacts facts
        || facts.IsWritableByOthers
        || (facts.User != 0 && facts.User != SystemCalls.GetEffectiveUser());

    /// <summary>Opens the directory of a file for this process. Null with <paramref name="errno"/> set when it cannot be opened.</summary>
    /// <param name="file">An absolute path.</param>
    /// <param name="errno">0 or an error number.</param>
    /// <exception cref="MillraceStartException">This is root, and somebody else could exchange the file.</exception>
    public static SocketDirectory? Open(string file, out int errno)
    {
        if (SystemCalls.GetEffectiveUser() == 0)
        {
            return OpenFor(0, file, out errno);
        }

        int descriptor = Open(SystemCalls.AT_FDCWD, Path.GetDirectoryName(file)!, SystemCalls.ArchitectureNumbers.Here.O_DIRECTORY, out errno);
        return descriptor < 0 ? null : new SocketDirectory(descriptor);
    }

    /// <summary>The same where nobody but root and one user may be able to exchange the file.</summary>
    /// <exception cref="MillraceStartException">Somebody else could.</exception>
    public static SocketDirectory? OpenFor(uint user, string file, out int errno)
    {
        using var walk = new GuardedWalk(user, file);
        int descriptor = walk.Go(out errno);
        return descriptor < 0 ? null : new SocketDirectory(descriptor);
    }

    /// <summary>Opens an entry, a link itself. Answers -1 with <paramref name="errno"/> set when it cannot.</summary>
    public int OpenEntry(string name, out int errno) => OpenEntry(_descriptor, name, out errno);

    /// <summary>The same for a directory by its descriptor.</summary>
    public static int OpenEntry(int directory, string name, out int errno) =>
        Open(directory, name, SystemCalls.ArchitectureNumbers.Here.O_NOFOLLOW, out errno);

    /// <summary>Takes an entry away, whatever it leads to by now: for a name that nobody else puts files under. Answers 0 or an error number.</summary>
    public int RemoveEntry(string name)
    {
        fixed (byte* at = FileFacts.Encode(name))
        {
            return SystemCalls.UnlinkAt(_descriptor, at, 0) < 0 ? SystemCalls.Errno : 0;
        }
    }

    public void Dispose()
    {
        int descriptor = Interlocked.Exchange(ref _descriptor, -1);
        if (descriptor >= 0)
        {
            _ = SystemCalls.Close(descriptor);
        }
    }

    private static int Open(int directory, string path, int flags, out int errno)
    {
        fixed (byte* name = FileFacts.Encode(path))
        {
            int descriptor = SystemCalls.OpenAt(directory, name, SystemCalls.O_PATH | SystemCalls.O_CLOEXEC | flags);
            errno = descriptor < 0 ? SystemCalls.Errno : 0;
            return descriptor;
        }
    }
}
