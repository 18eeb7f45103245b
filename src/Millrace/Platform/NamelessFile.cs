// A file without a name: it has one for the moment in which it is made, which nobody can guess. It is its descriptor's, and ends with that, however the process ends.

using System.Text;
using Microsoft.Win32.SafeHandles;

namespace Millrace.Platform;

internal static unsafe class NamelessFile
{
    private const uint OwnerOnly = 0x180;       // 600

    /// <param name="folder">Where its bytes are.</param>
    /// <param name="name">Of the moment.</param>
    /// <param name="errno">Why there is none; otherwise 0.</param>
    public static SafeFileHandle? Make(string folder, string name, out int errno)
    {
        int directory = SystemCalls.Open(folder, SystemCalls.O_PATH | SystemCalls.O_CLOEXEC | SystemCalls.ArchitectureNumbers.Here.O_DIRECTORY);
        errno = directory < 0 ? SystemCalls.Errno : 0;
        if (directory < 0)
        {
            return null;
        }
        using var its = new SafeFileHandle(directory, ownsHandle: true);
        fixed (byte* at = Encoding.UTF8.GetBytes(name + '\0'))
        {
            int flags = SystemCalls.O_RDWR | SystemCalls.O_CREAT | SystemCalls.O_EXCL | SystemCalls.O_CLOEXEC | SystemCalls.ArchitectureNumbers.Here.O_NOFOLLOW;
            int descriptor = SystemCalls.CreateAt(directory, at, flags, OwnerOnly);
            errno = descriptor < 0 ? SystemCalls.Errno : 0;
            if (descriptor < 0)
            {
                return null;
            }
            var file = new SafeFileHandle(descriptor, ownsHandle: true);
            if (SystemCalls.UnlinkAt(directory, at, 0) < 0)
            {
                errno = SystemCalls.Errno;
                file.Dispose();
                return null;
            }
            return file;
        }
    }
}
