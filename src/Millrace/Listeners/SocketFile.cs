// The file of a Unix socket, held open. What is done to it is done to this very file, wherever its name may lead meanwhile: whoever may
// write in the directory can put a link or another file under the name between any two calls.
//
// Holding it (O_PATH) keeps its inode number from being given to another file, so that "the same file" is never a guess.

using System.Globalization;
using System.Security.Cryptography;
using Millrace.Platform;

namespace Millrace.Listeners;

/// <summary>An entry of a directory and the file it named when it was opened. Any thread.</summary>
internal sealed unsafe class SocketFile : IDisposable
{
    private readonly string _name;
    private readonly Lock _closing = new();
    private int _descriptor;

    private SocketFile(SocketDirectory directory, string name, int descriptor, in FileFacts facts)
    {
        Directory = directory;
        _name = name;
        _descriptor = descriptor;
        Facts = facts;
    }

    /// <summary>Where it lies; the caller's to close, after this.</summary>
    public SocketDirectory Directory { get; }

    /// <summary>As they were when the file was opened.</summary>
    public FileFacts Facts { get; }

    /// <summary>Leads to this file and no other while it is held.</summary>
    public string HeldPath => SystemCalls.PathOf(_descriptor);

    /// <summary>Whether the name leads to this file now.</summary>
    public bool IsInPlace => FileFacts.At(Directory.Descriptor, _name, out _) is FileFacts now && now.IsSame(Facts);

    /// <summary>Whether the name leads to nothing now.</summary>
    public bool IsMissing => FileFacts.At(Directory.Descriptor, _name, out int errno) is null && errno == SystemCalls.ENOENT;

    /// <summary>Opens what the name leads to now, a link itself. Null with <paramref name="errno"/> set when there is nothing or it cannot be opened.</summary>
    public static SocketFile? Open(SocketDirectory directory, string name, out int errno)
    {
        int descriptor = directory.OpenEntry(name, out errno);
        if (descriptor < 0)
        {
            return null;
        }

        if (FileFacts.Of(descriptor, out errno) is FileFacts facts)
        {
            return new SocketFile(directory, name, descriptor, facts);
        }

        _ = SystemCalls.Close(descriptor);
        return null;
    }

    /// <summary>Answers 0 or an error number. A null id leaves that owner as it is.</summary>
    public int SetOwner(uint? user, uint? group) =>
        SystemCalls.ChangeOwner(_descriptor, user ?? SystemCalls.KeepId, group ?? SystemCalls.KeepId) < 0 ? SystemCalls.Errno : 0;

    /// <summary>Answers 0 or an error number.</summary>
    public int SetMode(UnixFileMode mode) => SystemCalls.ChangeMode(_descriptor, (uint)mode) < 0 ? SystemCalls.Errno : 0;

    /// <summary>Removes the file unless another has taken its place. Answers 0, or the error number of the removal.</summary>
    /// <param name="compared">Called between looking and removing; a test steps in there.</param>
    /// <param name="stays">Asked when the file has no name any more by which anybody could look for it: true puts it back.</param>
    /// <remarks>
    /// Between looking at a name and removing it another process may put its own file there. So the entry is moved aside first, looked at
    /// once more, and moved back when it is not the one that was meant.
    /// </remarks>
    public int RemoveIfSame(Action? compared = null, Func<bool>? stays = null)
    {
        lock (_closing)
        {
            if (_descriptor < 0 || !IsInPlace)
            {
                return 0;
            }

            compared?.Invoke();
            string aside = string.Create(CultureInfo.InvariantCulture, $".millrace-{RandomNumberGenerator.GetHexString(16)}");
            fixed (byte* name = FileFacts.Encode(_name), other = FileFacts.Encode(aside))
            {
                int errno = SystemCalls.RenameAt(Directory.Descriptor, name, other) < 0 ? SystemCalls.Errno : 0;
                return errno switch
                {
                    0 when FileFacts.At(Directory.Descriptor, aside, out _) is FileFacts moved && moved.IsSame(Facts) && stays?.Invoke() != true => Directory.RemoveEntry(aside),
                    0 => SystemCalls.RenameAt(Directory.Descriptor, other, name) < 0 ? SystemCalls.Errno : 0,
                    SystemCalls.ENOENT => 0,

                    // A file system, or a kernel, that cannot rename so.
                    SystemCalls.EINVAL or SystemCalls.ENOSYS => IsInPlace && stays?.Invoke() != true ? Directory.RemoveEntry(_name) : 0,
                    _ => errno,
                };
            }
        }
    }

    /// <summary>Lets go of the file, which stays.</summary>
    public void Dispose()
    {
        lock (_closing)
        {
            if (_descriptor >= 0)
            {
                _ = SystemCalls.Close(_descriptor);
                _descriptor = -1;
            }
        }
    }
}
