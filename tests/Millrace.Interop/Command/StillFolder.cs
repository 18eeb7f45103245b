// A folder whose file system does not answer, as behind a program of FUSE that hangs or a server that has gone: whoever asks anything of it waits. Nobody reads what the
// kernel asks (fuse(4)). Needs root.

using System.Runtime.InteropServices;

namespace Millrace.Interop.Command;

internal sealed partial class StillFolder : IDisposable
{
    private const int ReadWriteCloseOnExec = 0x80002;
    private const int Detach = 2;       // MNT_DETACH

    private readonly string _path;
    private readonly int _device;

    /// <param name="path">Of a folder that is there; what lies in it is hidden.</param>
    public StillFolder(string path)
    {
        _path = path;
        _device = Open("/dev/fuse", ReadWriteCloseOnExec);
        Assert.SkipUnless(_device >= 0, "there is no /dev/fuse, or no right to it: `modprobe fuse`, as root");
        bool isMounted = Mount("still", path, "fuse", 0, $"fd={_device},rootmode=40000,user_id=0,group_id=0,allow_other") == 0;
        Assert.SkipUnless(isMounted, "only root may mount a file system (CAP_SYS_ADMIN)");
    }

    /// <summary>It is no more: whoever waits is told so.</summary>
    public void Dispose()
    {
        _ = Unmount(_path, Detach);
        _ = Close(_device);
    }

    [LibraryImport("libc", EntryPoint = "open", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Open(string path, int flags);

    [LibraryImport("libc", EntryPoint = "close")]
    private static partial int Close(int descriptor);

    [LibraryImport("libc", EntryPoint = "mount", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Mount(string source, string target, string type, nuint flags, string data);

    [LibraryImport("libc", EntryPoint = "umount2", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Unmount(string target, int flags);
}
