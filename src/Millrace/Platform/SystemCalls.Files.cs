// System calls on entries of the file system: the files of Unix sockets and the directories they lie in. Names are UTF-8 ending in NUL.
//
// Nothing here changes a file through a path: a path can be led elsewhere, by a link, between one call and the next. A file is opened
// first (OpenAt with O_PATH, which gives no right to read or write it, and O_NOFOLLOW) and then named by its descriptor; what is removed
// or renamed is an entry of a directory that is open. A test holds the imports of this class to that.

using System.Globalization;
using System.Runtime.InteropServices;
using System.Text;

namespace Millrace.Platform;

internal static unsafe partial class SystemCalls
{
    /// <summary>Variadic in C; the mode is for files that are created (<see cref="CreateAt"/>).</summary>
    [LibraryImport("libc", EntryPoint = "openat")]
    public static partial int OpenAt(int directory, byte* path, int flags);

    /// <summary>The same with O_CREAT, and the mode of what is created; on x64 and arm64 Linux an integer argument travels like any other.</summary>
    [LibraryImport("libc", EntryPoint = "openat")]
    public static partial int CreateAt(int directory, byte* path, int flags, uint mode);

    /// <summary>Opens what a path leads to, links followed.</summary>
    public static int Open(string path, int flags)
    {
        fixed (byte* name = Encoding.UTF8.GetBytes(path + '\0'))
        {
            return OpenAt(AT_FDCWD, name, flags);
        }
    }

    /// <summary>Of the open file, not of the process: one process can hold, or wait for, several.</summary>
    [LibraryImport("libc", EntryPoint = "flock")]
    public static partial int LockFile(int descriptor, int operation);

    [LibraryImport("libc", EntryPoint = "mkdirat")]
    public static partial int MakeDirectoryAt(int directory, byte* name, uint mode);

    /// <summary>The text of a link, without NUL; with an empty path that of the link which <paramref name="directory"/> is.</summary>
    [LibraryImport("libc", EntryPoint = "readlinkat")]
    public static partial nint ReadLinkAt(int directory, byte* path, byte* buffer, nint size);

    [LibraryImport("libc", EntryPoint = "unlinkat")]
    public static partial int UnlinkAt(int directory, byte* name, int flags);

    /// <summary>The mode of what a socket will be bound to.</summary>
    [LibraryImport("libc", EntryPoint = "fchmod")]
    public static partial int ChangeDescriptorMode(int descriptor, uint mode);

    /// <summary>Owner and group of a file that is open, if only with O_PATH. An id of <see cref="KeepId"/> leaves that owner as it is.</summary>
    public static int ChangeOwner(int file, uint user, uint group)
    {
        byte empty = 0;
        return ChangeOwnerAt(file, &empty, user, group, AT_EMPTY_PATH);
    }

    /// <summary>The mode of a file that is open, if only with O_PATH, which fchmod(2) does not take. Before Linux 6.6 /proc must be there.</summary>
    public static int ChangeMode(int file, uint mode)
    {
        byte empty = 0;
        return SystemCall(ArchitectureNumbers.Here.SYS_fchmodat2, file, (nint)(&empty), (nint)mode, AT_EMPTY_PATH, 0) == 0 ? 0 : ChangeModeByProc(file, mode);
    }

    /// <summary>The same through /proc, whose links lead to the open file itself, whatever has become of its path.</summary>
    internal static int ChangeModeByProc(int file, uint mode)
    {
        fixed (byte* path = Encoding.UTF8.GetBytes(PathOf(file) + '\0'))
        {
            return ChangeModeAt(AT_FDCWD, path, mode, 0);
        }
    }

    /// <summary>A path that leads to an open file itself.</summary>
    public static string PathOf(int descriptor) => string.Create(CultureInfo.InvariantCulture, $"/proc/self/fd/{descriptor}");

    /// <summary>What is known of a file, or with AT_EMPTY_PATH and an empty path of an open one.</summary>
    public static int StatX(int directory, byte* path, int flags, uint mask, FileStatus* status) =>
        (int)SystemCall(ArchitectureNumbers.Here.SYS_statx, directory, (nint)path, flags, (nint)mask, (nint)status);

    /// <summary>Renames an entry of a directory unless the new name is taken.</summary>
    public static int RenameAt(int directory, byte* from, byte* to) =>
        (int)SystemCall(ArchitectureNumbers.Here.SYS_renameat2, directory, (nint)from, directory, (nint)to, RENAME_NOREPLACE);

    /// <summary>Variadic in C: on x64 and arm64 Linux arguments that are integers or pointers travel like any others.</summary>
    [LibraryImport("libc", EntryPoint = "syscall")]
    private static partial nint SystemCall(nint number, nint a, nint b, nint c, nint d, nint e);

    [LibraryImport("libc", EntryPoint = "fchownat")]
    private static partial int ChangeOwnerAt(int directory, byte* path, uint user, uint group, int flags);

    [LibraryImport("libc", EntryPoint = "fchmodat")]
    private static partial int ChangeModeAt(int directory, byte* path, uint mode, int flags);
}
