// Opens the file of SendFileAsync. open(2) of a pipe waits until somebody writes to it: whoever may put one where files are sent from would keep a thread for each visitor.

using Microsoft.Win32.SafeHandles;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.AspNetCore;

internal static unsafe class SentFile
{
    /// <summary>Opens it for reading. Never waits.</summary>
    /// <exception cref="IOException">It is not there, or no file.</exception>
    /// <exception cref="UnauthorizedAccessException">It may not be read, or is a directory.</exception>
    public static SafeFileHandle Open(string path)
    {
        ArgumentException.ThrowIfNullOrEmpty(path);
        if (path.Contains('\0', StringComparison.Ordinal))
        {
            return File.OpenHandle(path);       // says what is wrong with it, and so below
        }

        int descriptor;
        fixed (byte* name = FileFacts.Encode(path))
        {
            descriptor = SystemCalls.OpenAt(SystemCalls.AT_FDCWD, name, SystemCalls.O_NONBLOCK | SystemCalls.O_CLOEXEC);
        }

        if (descriptor < 0)
        {
            return File.OpenHandle(path);
        }

        var file = new SafeFileHandle(descriptor, ownsHandle: true);
        FileFacts? facts = FileFacts.Of(descriptor, out _);
        if (facts is { IsFile: true })
        {
            return file;
        }

        file.Dispose();
        throw facts is { IsDirectory: true }
            ? new UnauthorizedAccessException($"{path} is a directory, and cannot be sent.")
            : new IOException($"{path} is no file, but something else, such as a pipe or a device.");
    }
}
