// sendfile(2) where it fails: for the file's sake, the peer's, or that of a file system whose files cannot be sent in this way.

using System.Net.Sockets;
using System.Runtime.InteropServices;
using Microsoft.Win32.SafeHandles;
using Millrace.Platform;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Platform;

public sealed class SendFileTests : IDisposable
{
    private readonly Socket _listener = new(AddressFamily.Unix, SocketType.Stream, 0);
    private readonly Socket _socket = new(AddressFamily.Unix, SocketType.Stream, 0);
    private readonly Socket _peer;
    private readonly SocketFolder _folder = new();

    public SendFileTests()
    {
        var place = new UnixDomainSocketEndPoint(_folder.PathOf("file.sock"));
        _listener.Bind(place);
        _listener.Listen();
        _socket.Connect(place);
        _peer = _listener.Accept();
    }

    public void Dispose()
    {
        _socket.Dispose();
        _peer.Dispose();
        _listener.Dispose();
        _folder.Dispose();
    }

    // The memory of this process is a file that can be read and not sent: EINVAL, as of /proc/config.gz.
    [Theory]
    [InlineData(10)]
    [InlineData(16 * 1024)]
    [InlineData(100_000)]
    public void A_file_that_can_only_be_read_is_sent_all_the_same(int size)
    {
        byte[] bytes = new byte[size];
        Random.Shared.NextBytes(bytes);
        GCHandle pin = GCHandle.Alloc(bytes, GCHandleType.Pinned);
        try
        {
            using SafeFileHandle memory = File.OpenHandle("/proc/self/mem", FileMode.Open, FileAccess.Read, FileShare.ReadWrite);
            long begin = pin.AddrOfPinnedObject();
            long offset = begin;
            byte[] received = new byte[size];
            for (int at = 0; at < size;)
            {
                int sent = default(LinuxKernel).SendFile((int)_socket.Handle, (int)memory.DangerousGetHandle(), ref offset, size - at);
                Assert.InRange(sent, 1, size - at);
                Assert.Equal(begin + at + sent, offset);
                for (int end = at + sent; at < end;)
                {
                    at += _peer.Receive(received.AsSpan(at, end - at));
                }
            }

            Assert.Equal(bytes, received);
        }
        finally
        {
            pin.Free();
        }
    }

    [Fact]
    public void A_file_that_cannot_be_read_is_no_fault_of_the_peer()
    {
        using SafeFileHandle memory = File.OpenHandle("/proc/self/mem", FileMode.Open, FileAccess.Read, FileShare.ReadWrite);
        long offset = 1;        // where no memory is: EIO
        Assert.Equal(0, default(LinuxKernel).SendFile((int)_socket.Handle, (int)memory.DangerousGetHandle(), ref offset, 100));
        Assert.Equal(1, offset);
    }

    [Fact]
    public void A_peer_that_has_gone_is_no_fault_of_the_file()
    {
        string path = Path.GetTempFileName();
        File.WriteAllText(path, "the file");
        using SafeFileHandle file = File.OpenHandle(path);
        _peer.Dispose();
        long offset = 0;
        Assert.Equal(KernelResult.Broken, default(LinuxKernel).SendFile((int)_socket.Handle, (int)file.DangerousGetHandle(), ref offset, 8));
        Assert.Equal(0, offset);
        File.Delete(path);
    }
}
