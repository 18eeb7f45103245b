// A file on a disk with so many bytes and no more: where they end the kernel writes what fits, and then refuses.

using System.Runtime.InteropServices;
using Microsoft.Win32.SafeHandles;

namespace Millrace.Tests.Connector;

internal static class SmallDisk
{
    private const uint AllowSealing = 2;
    private const int AddSeals = 1033;
    private const int SealGrow = 4;

    public static SafeFileHandle Make(int bytes)
    {
        int descriptor = MakeInMemory([(byte)'d', 0], AllowSealing);
        Assert.True(descriptor >= 0);
        var file = new SafeFileHandle(descriptor, ownsHandle: true);
        RandomAccess.SetLength(file, bytes);
        Assert.Equal(0, Control(descriptor, AddSeals, SealGrow));
        return file;
    }

    [DllImport("libc", EntryPoint = "memfd_create", SetLastError = true)]
    private static extern int MakeInMemory(byte[] name, uint flags);

    [DllImport("libc", EntryPoint = "fcntl", SetLastError = true)]
    private static extern int Control(int descriptor, int command, int seals);
}
