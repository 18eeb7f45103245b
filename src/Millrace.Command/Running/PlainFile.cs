// A file of somebody who may have put anything under its name: opening it waits for nobody who writes to a pipe, what has no end is not read, and a link by way
// of /proc leads to nothing that its own path does not lead to.

using Microsoft.Win32.SafeHandles;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Command.Running;

internal static unsafe class PlainFile
{
    private const int TextMax = 16 * 1024 * 1024;

    /// <summary>Whether a path leads to a file: neither to a folder nor to a pipe, a socket or a device.</summary>
    public static bool IsAt(string path) => FileFacts.Behind(path, out _) is { IsFile: true };

    /// <summary>How long it is, and when it was written. Of a link what it leads to, and the later of the two times: another link may lead to an older file.</summary>
    /// <returns>A length of -1 where it is not there, or cannot be seen.</returns>
    public static (long Length, DateTime WrittenUtc) Facts(string path)
    {
        if (FileFacts.Behind(path, out _) is not { } file || FileFacts.At(path, out _) is not { } entry)
        {
            return (-1, DateTime.MinValue);
        }
        return (file.Length, file.WrittenUtc > entry.WrittenUtc ? file.WrittenUtc : entry.WrittenUtc);
    }

    /// <summary>Opens it for reading.</summary>
    /// <exception cref="IOException">It is none, or cannot be opened.</exception>
    /// <exception cref="UnauthorizedAccessException">It may not be read.</exception>
    public static SafeFileHandle Open(string path)
    {
        fixed (byte* name = FileFacts.Encode(path))
        {
            int descriptor = SystemCalls.OpenAt(SystemCalls.AT_FDCWD, name, SystemCalls.O_NONBLOCK | SystemCalls.O_CLOEXEC);
            if (descriptor < 0)
            {
                throw Failure(path, SystemCalls.Errno);
            }
            var file = new SafeFileHandle(descriptor, ownsHandle: true);
            try
            {
                var facts = FileFacts.Of(descriptor, out _);
                if (facts is not { IsFile: true } plain)
                {
                    throw new IOException($"{path} is no file, but something else, such as a pipe or a device");
                }
                RequireOwnPath(path, descriptor, plain);
                return file;
            }
            catch
            {
                file.Dispose();
                throw;
            }
        }
    }

    // /proc/self is this process, whatever rights the thread has taken, and the links in the folders of processes (cwd, root, fd) lead to a file past all folders
    // that it lies in. What was opened must be where its own path leads with the same rights.
    private static void RequireOwnPath(string path, int descriptor, in FileFacts opened)
    {
        string own = new FileInfo(SystemCalls.PathOf(descriptor)).LinkTarget ?? "";
        if (FileFacts.Behind(own, out int errno) is { } its && its.IsSame(opened))
        {
            return;
        }
        throw errno is SystemCalls.EACCES or SystemCalls.EPERM
            ? new UnauthorizedAccessException($"{path} may not be read: it leads to {own}, past a folder that is closed")
            : new FileNotFoundException($"{path} is not there any more", path);
    }

    /// <summary>All of a text, whatever the mark of its byte order says.</summary>
    /// <exception cref="IOException">It is no file, cannot be opened, or is too long for a text.</exception>
    /// <exception cref="UnauthorizedAccessException">It may not be read.</exception>
    public static string ReadText(string path)
    {
        using var reader = new StreamReader(new MemoryStream(ReadBytes(path)));
        return reader.ReadToEnd();
    }

    /// <summary>All of it.</summary>
    /// <exception cref="IOException">It is no file, cannot be opened, or is too long for a text.</exception>
    /// <exception cref="UnauthorizedAccessException">It may not be read.</exception>
    public static byte[] ReadBytes(string path)
    {
        using SafeFileHandle file = Open(path);
        long length = RandomAccess.GetLength(file);
        if (length > TextMax)
        {
            throw new IOException($"{path} is larger than 16 MiB");
        }
        byte[] bytes = new byte[length];
        int at = 0;
        while (at < bytes.Length && RandomAccess.Read(file, bytes.AsSpan(at), at) is > 0 and int got)
        {
            at += got;
        }
        return at == bytes.Length ? bytes : bytes[..at];
    }

    private static Exception Failure(string path, int errno) => errno switch
    {
        SystemCalls.ENOENT or SystemCalls.ENOTDIR => new FileNotFoundException($"{path} is not there", path),
        SystemCalls.EACCES or SystemCalls.EPERM => new UnauthorizedAccessException($"{path} may not be read"),
        _ => new IOException($"{path}: {SystemCalls.Describe(errno)}"),
    };
}
