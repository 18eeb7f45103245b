// A peer that sends a descriptor along with its bytes: the kernel refuses it, so that no loop ever closes what is somebody else's.

using System.Net.Sockets;
using System.Runtime.InteropServices;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Listeners;

public sealed unsafe partial class PassedDescriptorTests : IDisposable
{
    private const int SCM_RIGHTS = 1;
    private const int EPERM = 1;

    private readonly DirectoryInfo _directory = Directory.CreateTempSubdirectory("millrace-");

    private string SocketPath => Path.Combine(_directory.FullName, "app.sock");

    public void Dispose() => _directory.Delete(recursive: true);

    [Theory]
    [InlineData("fastcgi")]
    [InlineData("http")]
    public void Descriptor_is_refused_at_its_sender_and_bytes_are_not(string scheme)
    {
        using ListenSocket listener = UnixListener.Open(ListenAddress.Parse($"{scheme}://unix:{SocketPath}"), backlog: 1);
        Check();
    }

    [Fact]
    public void Descriptor_is_refused_by_an_inherited_socket_too()
    {
        using var given = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        given.Bind(new UnixDomainSocketEndPoint(SocketPath));
        given.Listen(1);
        int descriptor = SystemCalls.Fcntl((int)given.Handle, SystemCalls.F_DUPFD_CLOEXEC, 3);
        using ListenSocket listener = InheritedListeners.Open(ListenAddress.Parse($"fastcgi://fd:{descriptor}"));
        Check();
    }

    // Before it has been accepted: what waits in the queue is closed by a loop all the same.
    private void Check()
    {
        using var client = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        client.Connect(new UnixDomainSocketEndPoint(SocketPath));
        Assert.Equal(KernelCanRefuse ? EPERM : 0, SendWithDescriptor((int)client.Handle));
        Assert.Equal(1, client.Send([1]));
    }

    private static bool KernelCanRefuse
    {
        get
        {
            using var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
            return SystemCalls.GetSocketOption((int)socket.Handle, SystemCalls.SOL_SOCKET, SystemCalls.SO_PASSRIGHTS) >= 0;
        }
    }

    private static int SendWithDescriptor(int socket)
    {
        byte data = 1;
        var part = new Part { Start = &data, Length = 1 };
        var control = new Control { Length = 20, Level = SystemCalls.SOL_SOCKET, Type = SCM_RIGHTS, Descriptor = socket };
        var message = new Message { Parts = &part, PartCount = 1, Control = &control, ControlLength = (nuint)sizeof(Control) };
        return SendMessage(socket, &message, 0) < 0 ? Marshal.GetLastPInvokeError() : 0;
    }

    [LibraryImport("libc", EntryPoint = "sendmsg", SetLastError = true)]
    private static partial nint SendMessage(int socket, Message* message, int flags);

    // struct iovec, cmsghdr with one descriptor, msghdr
    private struct Part
    {
        public byte* Start;
        public nuint Length;
    }

    private struct Control
    {
        public nuint Length;
        public int Level;
        public int Type;
        public int Descriptor;
    }

    private struct Message
    {
        public void* Name;
        public uint NameLength;
        public Part* Parts;
        public nuint PartCount;
        public Control* Control;
        public nuint ControlLength;
        public int Flags;
    }
}
