// A folder in which nobody else makes entries, held open: what is done in it is done there, wherever its path leads by then, and through no link.

using Microsoft.Win32.SafeHandles;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Command.Running;

internal sealed unsafe class OwnFolder : IDisposable
{
    private const uint OwnMode = 0x1C0;         // 0700
    private const int IsDirectory = 21;         // EISDIR
    private const int RemoveDirectory = 0x200;  // AT_REMOVEDIR
    private const int CopyAtOnce = 1024 * 1024;

    private readonly int _descriptor;

    private OwnFolder(int descriptor) => _descriptor = descriptor;

    /// <summary>For a process that inherits it: whoever has it goes on from here, whatever stands on the way.</summary>
    public int Descriptor => _descriptor;

    /// <summary>Whether a path leads to it now.</summary>
    public bool IsAt(string path) => FileFacts.At(path, out _) is { } its && FileFacts.Of(_descriptor, out _) is { } own && its.IsSame(own);

    /// <summary>Is another one from now on, under the number that it had: who is given that need not be told.</summary>
    /// <returns>False: it is what it was.</returns>
    public bool Become(OwnFolder other) => SystemCalls.Dup3(other._descriptor, _descriptor, SystemCalls.O_CLOEXEC) >= 0;

    /// <summary>The names of what is in it.</summary>
    public IEnumerable<string> Names => Directory.GetFileSystemEntries(SystemCalls.PathOf(_descriptor)).Select(static path => Path.GetFileName(path));

    /// <param name="path">A folder whose whole way belongs to this user or root (<see cref="OwnDirectory"/>).</param>
    /// <exception cref="IOException">It cannot be opened.</exception>
    public static OwnFolder Open(string path) => Open(SystemCalls.AT_FDCWD, path);

    /// <summary>Makes a folder in it, closed to others, unless it is there.</summary>
    /// <exception cref="IOException">It cannot be made.</exception>
    public OwnFolder Make(string name) => Make(name, out _);

    /// <summary>The same.</summary>
    /// <param name="name">Of the folder.</param>
    /// <param name="isNew">It was not there.</param>
    /// <exception cref="IOException">It cannot be made.</exception>
    public OwnFolder Make(string name, out bool isNew)
    {
        fixed (byte* at = FileFacts.Encode(name))
        {
            isNew = SystemCalls.MakeDirectoryAt(_descriptor, at, OwnMode) == 0;
            if (!isNew && SystemCalls.Errno != SystemCalls.EEXIST)
            {
                throw Failure(name);
            }
        }
        return Open(_descriptor, name);
    }

    /// <summary>Makes a copy of a file that can be read, and run if the file can; where the file system can, both share their bytes.</summary>
    /// <param name="source">The file.</param>
    /// <param name="length">How much of it: what it grows by meanwhile is left out.</param>
    /// <param name="name">Of the copy, which is not there yet.</param>
    /// <param name="group">Who else may read it.</param>
    /// <param name="ct">Gives it up.</param>
    /// <exception cref="IOException">It cannot be read, or not be copied.</exception>
    public void Copy(SafeFileHandle source, long length, string name, CodeReader reader)
    {
        using SafeFileHandle copy = Create(name);
        if (Posix.CloneFile((int)copy.DangerousGetHandle(), (int)source.DangerousGetHandle()) < 0)
        {
            byte[] part = new byte[(int)Math.Clamp(length, 1, CopyAtOnce)];
            long at = 0;
            while (RandomAccess.Read(source, part.AsSpan(0, (int)Math.Min(part.Length, length - at)), at) is > 0 and int got)
            {
                reader.Wanted.ThrowIfCancellationRequested();
                reader.GoesOn();
                if (part.AsSpan(0, got).ContainsAnyExcept((byte)0))
                {
                    RandomAccess.Write(copy, part.AsSpan(0, got), at);      // holes cost their owner nothing, and stay holes
                }
                at += got;
            }
            RandomAccess.SetLength(copy, at);
        }
        bool isRun = FileFacts.Of((int)source.DangerousGetHandle(), out _) is { } facts && (facts.Mode & UnixFileMode.UserExecute) != 0;
        Show((int)copy.DangerousGetHandle(), isRun ? 0x140u : 0x100u, reader.Group, name);
    }

    /// <summary>Makes a file that nobody else can read. One that cannot be written to its end is not left behind.</summary>
    /// <exception cref="IOException">It is there already, or cannot be written.</exception>
    public void Write(string name, ReadOnlySpan<byte> bytes)
    {
        using SafeFileHandle file = Create(name);
        try
        {
            RandomAccess.Write(file, bytes, 0);
        }
        catch (IOException)
        {
            Remove(name);
            throw;
        }
    }

    /// <summary>All of a file that was made by <see cref="Write"/>.</summary>
    /// <param name="name">Of the file.</param>
    /// <param name="most">Bytes of it that are read.</param>
    /// <exception cref="IOException">It is a link, no file, another user's or open to one, longer than that, or cannot be read.</exception>
    public byte[] Read(string name, int most)
    {
        fixed (byte* at = FileFacts.Encode(name))
        {
            int descriptor = SystemCalls.OpenAt(_descriptor, at, SystemCalls.O_NONBLOCK | SystemCalls.O_CLOEXEC | SystemCalls.ArchitectureNumbers.Here.O_NOFOLLOW);
            if (descriptor < 0)
            {
                throw Failure(name);
            }
            using var file = new SafeFileHandle(descriptor, ownsHandle: true);
            if (FileFacts.Of(descriptor, out _) is not { IsFile: true, IsOpenToOthers: false, Links: 1 } facts || facts.User != SystemCalls.GetEffectiveUser() || RandomAccess.GetLength(file) is var length && length > most)
            {
                throw new IOException($"{name} is not what this user has made");
            }
            byte[] bytes = new byte[length];
            int got = 0;
            while (got < bytes.Length && RandomAccess.Read(file, bytes.AsSpan(got), got) is > 0 and int more)
            {
                got += more;
            }
            return bytes[..got];
        }
    }

    /// <summary>Makes a link.</summary>
    /// <exception cref="IOException">It cannot be made.</exception>
    public void Link(string name, string target)
    {
        if (Posix.LinkAt(target, _descriptor, name) < 0)
        {
            throw Failure(name);
        }
    }

    /// <summary>Lets a group enter it and look around.</summary>
    /// <exception cref="IOException">It is none of this user's groups.</exception>
    public void ShowTo(uint group) => Show(_descriptor, OwnMode, group, "the folder");

    /// <summary>Lets everybody pass through, to what its name is known of.</summary>
    public void LetPass() => _ = SystemCalls.ChangeMode(_descriptor, OwnMode | 0x9);

    /// <summary>Removes an entry, a folder with all that is in it. What cannot be removed stays.</summary>
    public void Remove(string name)
    {
        fixed (byte* at = FileFacts.Encode(name))
        {
            if (SystemCalls.UnlinkAt(_descriptor, at, 0) == 0 || SystemCalls.Errno != IsDirectory)
            {
                return;
            }
            try
            {
                using OwnFolder folder = Open(_descriptor, name);
                foreach (string each in folder.Names)
                {
                    folder.Remove(each);
                }
            }
            catch (Exception error) when (error is IOException or UnauthorizedAccessException)
            {
                return;
            }
            _ = SystemCalls.UnlinkAt(_descriptor, at, RemoveDirectory);
        }
    }

    public void Dispose() => _ = SystemCalls.Close(_descriptor);

    private static OwnFolder Open(int at, string path)
    {
        fixed (byte* name = FileFacts.Encode(path))
        {
            var here = SystemCalls.ArchitectureNumbers.Here;
            int descriptor = SystemCalls.OpenAt(at, name, SystemCalls.O_PATH | SystemCalls.O_CLOEXEC | here.O_DIRECTORY | here.O_NOFOLLOW);
            return descriptor >= 0 ? new OwnFolder(descriptor) : throw Failure(path);
        }
    }

    private SafeFileHandle Create(string name)
    {
        fixed (byte* at = FileFacts.Encode(name))
        {
            int flags = SystemCalls.O_RDWR | SystemCalls.O_CREAT | SystemCalls.O_EXCL | SystemCalls.O_CLOEXEC | SystemCalls.ArchitectureNumbers.Here.O_NOFOLLOW;
            int descriptor = SystemCalls.CreateAt(_descriptor, at, flags, 0x180);
            return descriptor >= 0 ? new SafeFileHandle(descriptor, ownsHandle: true) : throw Failure(name);
        }
    }

    // The owner's rights to read and to run are the group's as well. The group before its rights.
    private static void Show(int descriptor, uint mode, uint? group, string what)
    {
        if (group is { } id && SystemCalls.ChangeOwner(descriptor, SystemCalls.KeepId, id) < 0)
        {
            throw Failure(what);
        }
        uint rights = group is null ? mode : mode | ((mode & 0x140) >> 3);
        if (SystemCalls.ChangeMode(descriptor, rights) < 0)
        {
            throw Failure(what);
        }
    }

    private static IOException Failure(string what) => new($"{what}: {SystemCalls.Describe(SystemCalls.Errno)}");
}
