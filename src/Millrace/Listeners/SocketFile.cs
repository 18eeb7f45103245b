// The file-system entry of a Unix socket: what is there, whose it is, and that what is removed is what was meant.

using System.Text;
using Millrace.Loops;

namespace Millrace.Listeners;

/// <summary>A path and the file found there. Two files are the same when device and inode are.</summary>
internal sealed unsafe class SocketFile
{
    private readonly SystemCalls.FileStatus _status;

    private SocketFile(string path, in SystemCalls.FileStatus status)
    {
        Path = path;
        _status = status;
    }

    public string Path { get; }

    public bool IsSocket => (_status.Mode & SystemCalls.S_IFMT) == SystemCalls.S_IFSOCK;

    public UnixFileMode Mode => (UnixFileMode)(_status.Mode & 0xFFF);

    public uint User => _status.User;

    public uint Group => _status.Group;

    /// <summary>What is at this path now, links not followed. Null with <paramref name="errno"/> set when there is nothing or it cannot be seen.</summary>
    public static SocketFile? Find(string path, out int errno)
    {
        SystemCalls.FileStatus status = default;
        fixed (byte* name = NameOf(path))
        {
            int result = SystemCalls.StatX(SystemCalls.AT_FDCWD, name, SystemCalls.AT_SYMLINK_NOFOLLOW, SystemCalls.STATX_BASIC_STATS, &status);
            errno = result < 0 ? SystemCalls.Errno : 0;
        }

        return errno == 0 ? new SocketFile(path, status) : null;
    }

    /// <summary>Removes the file unless another has taken its place. Answers 0, or the error number of the removal.</summary>
    public int RemoveIfSame()
    {
        if (Find(Path, out int errno) is not SocketFile now || !IsSame(now))
        {
            return errno == SystemCalls.ENOENT ? 0 : errno;
        }

        fixed (byte* name = NameOf(Path))
        {
            return SystemCalls.Unlink(name) < 0 ? SystemCalls.Errno : 0;
        }
    }

    /// <summary>Answers 0 or an error number. A null id leaves that owner as it is.</summary>
    public static int SetOwner(string path, uint? user, uint? group)
    {
        fixed (byte* name = NameOf(path))
        {
            return SystemCalls.ChangeOwner(name, user ?? SystemCalls.KeepId, group ?? SystemCalls.KeepId) < 0 ? SystemCalls.Errno : 0;
        }
    }

    /// <summary>Answers 0 or an error number.</summary>
    public static int SetMode(string path, UnixFileMode mode)
    {
        fixed (byte* name = NameOf(path))
        {
            return SystemCalls.ChangeMode(name, (uint)mode) < 0 ? SystemCalls.Errno : 0;
        }
    }

    private bool IsSame(SocketFile other) =>
        _status.Inode == other._status.Inode && _status.DeviceMajor == other._status.DeviceMajor && _status.DeviceMinor == other._status.DeviceMinor;

    private static byte[] NameOf(string path) => Encoding.UTF8.GetBytes(path + '\0');
}
