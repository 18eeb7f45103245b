// A folder whose file system does not answer, as behind a program of FUSE that hangs or a server that has gone: whoever asks anything of it waits. Nobody reads what the
// kernel asks (fuse(4)), or somebody does who never answers: whoever waits then is ended by no signal. Needs root.

using System.Buffers.Binary;
using System.Runtime.InteropServices;

namespace Millrace.Interop.Command;

internal sealed partial class StillFolder : IDisposable
{
    private const int ReadWriteCloseOnExecNonBlocking = 0x80802;
    private const int Detach = 2;       // MNT_DETACH
    private const int RequestMax = 256 * 1024;
    private const int Init = 26;        // FUSE_INIT of linux/fuse.h, as are the places below
    private const int AnswerHead = 16;

    private readonly string _path;
    private readonly int _device;
    private readonly Thread? _reader;
    private volatile bool _isOver;

    /// <param name="path">Of a folder that is there; what lies in it is hidden.</param>
    /// <param name="isRead">Whether somebody reads what is asked.</param>
    public StillFolder(string path, bool isRead = false)
    {
        _path = path;
        _device = Open("/dev/fuse", ReadWriteCloseOnExecNonBlocking);
        Assert.SkipUnless(_device >= 0, "there is no /dev/fuse, or no right to it: `modprobe fuse`, as root");
        bool isMounted = Mount("still", path, "fuse", 0, $"fd={_device},rootmode=40000,user_id=0,group_id=0,allow_other") == 0;
        Assert.SkipUnless(isMounted, "only root may mount a file system (CAP_SYS_ADMIN)");
        if (isRead)
        {
            _reader = new Thread(ReadAll) { IsBackground = true };
            _reader.Start();
        }
    }

    // The first request is for the version that is spoken, and the others wait for its answer.
    private void ReadAll()
    {
        byte[] request = new byte[RequestMax];
        while (!_isOver)
        {
            if (Read(_device, request, request.Length) < 0)
            {
                Thread.Sleep(10);
            }
            else if (BinaryPrimitives.ReadInt32LittleEndian(request.AsSpan(4)) == Init)
            {
                byte[] answer = new byte[AnswerHead + 64];
                BinaryPrimitives.WriteInt32LittleEndian(answer, answer.Length);
                request.AsSpan(8, 8).CopyTo(answer.AsSpan(8));
                BinaryPrimitives.WriteInt32LittleEndian(answer.AsSpan(AnswerHead), 7);
                BinaryPrimitives.WriteInt32LittleEndian(answer.AsSpan(AnswerHead + 4), 31);
                BinaryPrimitives.WriteInt32LittleEndian(answer.AsSpan(AnswerHead + 20), 4096);      // max_write
                BinaryPrimitives.WriteInt32LittleEndian(answer.AsSpan(AnswerHead + 24), 1);         // time_gran
                _ = Write(_device, answer, answer.Length);
            }
        }
    }

    /// <summary>It is no more: whoever waits is told so.</summary>
    public void Dispose()
    {
        _isOver = true;
        _reader?.Join();
        _ = Unmount(_path, Detach);
        _ = Close(_device);
    }

    [LibraryImport("libc", EntryPoint = "open", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Open(string path, int flags);

    [LibraryImport("libc", EntryPoint = "read")]
    private static partial nint Read(int device, byte[] buffer, nint length);

    [LibraryImport("libc", EntryPoint = "write")]
    private static partial nint Write(int device, byte[] buffer, nint length);

    [LibraryImport("libc", EntryPoint = "close")]
    private static partial int Close(int descriptor);

    [LibraryImport("libc", EntryPoint = "mount", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Mount(string source, string target, string type, nuint flags, string data);

    [LibraryImport("libc", EntryPoint = "umount2", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Unmount(string target, int flags);
}
