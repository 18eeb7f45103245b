// What a file is, whose it is and who may do what with it, as far as sockets and their directories are concerned. Only looks.

using System.Globalization;
using System.Text;
using Millrace.Platform;

namespace Millrace.Listeners;

/// <summary>A file at the moment it was looked at. Two are the same file when device and inode are.</summary>
internal readonly unsafe struct FileFacts
{
    private const UnixFileMode RightsOfOthers =
        UnixFileMode.GroupRead | UnixFileMode.GroupWrite | UnixFileMode.GroupExecute | UnixFileMode.OtherRead | UnixFileMode.OtherWrite | UnixFileMode.OtherExecute;

    private readonly SystemCalls.FileStatus _status;

    private FileFacts(in SystemCalls.FileStatus status) => _status = status;

    public bool IsSocket => Kind == SystemCalls.S_IFSOCK;

    public bool IsDirectory => Kind == SystemCalls.S_IFDIR;

    public bool IsLink => Kind == SystemCalls.S_IFLNK;

    public bool IsPipe => Kind == SystemCalls.S_IFIFO;

    public bool IsFile => Kind == SystemCalls.S_IFREG;

    public UnixFileMode Mode => (UnixFileMode)(_status.Mode & 0xFFF);

    /// <summary>The mode as people write it: <c>755</c>, <c>1777</c>.</summary>
    public string ModeText => Convert.ToString((int)Mode, 8).PadLeft(3, '0');

    /// <summary>For a directory: whether its group or everybody may make files in it. Where there are access lists the group's bits are their mask.</summary>
    public bool IsWritableByOthers => (Mode & (UnixFileMode.GroupWrite | UnixFileMode.OtherWrite)) != 0;

    /// <summary>Whether anybody but the owner has any right.</summary>
    public bool IsOpenToOthers => (Mode & RightsOfOthers) != 0;

    public uint User => _status.User;

    public uint Group => _status.Group;

    /// <summary>How many names the file has; 0 when it has been removed and is only held open.</summary>
    public uint Links => _status.Links;

    /// <summary>Bytes.</summary>
    public long Length => (long)_status.Size;

    /// <summary>When it was written. File systems keep times of which .NET has no word: these are the beginning and the end of all time.</summary>
    public DateTime WrittenUtc
    {
        get
        {
            long first = DateTimeOffset.MinValue.ToUnixTimeSeconds();
            long last = DateTimeOffset.MaxValue.ToUnixTimeSeconds() - 1;
            return _status.WrittenSeconds < first ? DateTime.MinValue
                : _status.WrittenSeconds > last ? DateTime.MaxValue
                : DateTime.UnixEpoch.AddSeconds(_status.WrittenSeconds).AddTicks(_status.WrittenNanoseconds / 100);
        }
    }

    private int Kind => _status.Mode & SystemCalls.S_IFMT;

    /// <summary>What is at this path now, links not followed. Null with <paramref name="errno"/> set when there is nothing or it cannot be seen.</summary>
    public static FileFacts? At(string path, out int errno) => At(SystemCalls.AT_FDCWD, path, out errno);

    /// <summary>The same for an entry of an open directory.</summary>
    public static FileFacts? At(int directory, string name, out int errno) => Look(directory, name, SystemCalls.AT_SYMLINK_NOFOLLOW, out errno);

    /// <summary>What a path leads to now, through links. Null with <paramref name="errno"/> set when that is nothing or cannot be seen.</summary>
    public static FileFacts? Behind(string path, out int errno) => Look(SystemCalls.AT_FDCWD, path, 0, out errno);

    /// <summary>What an open file is.</summary>
    public static FileFacts? Of(int descriptor, out int errno) => Look(descriptor, string.Empty, SystemCalls.AT_EMPTY_PATH, out errno);

    /// <summary>Device and inode as text. They are this file's alone as long as something holds it, as a socket does that is bound to it.</summary>
    public string Identity => string.Create(CultureInfo.InvariantCulture, $"{_status.DeviceMajor}:{_status.DeviceMinor}:{_status.Inode}");

    public bool IsSame(in FileFacts other) =>
        _status.Inode == other._status.Inode && _status.DeviceMajor == other._status.DeviceMajor && _status.DeviceMinor == other._status.DeviceMinor;

    /// <summary>A name as system calls take it.</summary>
    public static byte[] Encode(string name) => Encoding.UTF8.GetBytes(name + '\0');

    private static FileFacts? Look(int directory, string name, int flags, out int errno)
    {
        SystemCalls.FileStatus status = default;
        fixed (byte* at = Encode(name))
        {
            int result = SystemCalls.StatX(directory, at, flags, SystemCalls.STATX_BASIC_STATS, &status);
            errno = result < 0 ? SystemCalls.Errno : 0;
        }

        return errno == 0 ? new FileFacts(status) : null;
    }
}
