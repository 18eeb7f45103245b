// An application that wants to hold up whoever looks after it: to each Unix socket that it is connected by it sends connections whose last close waits for a minute. What is not received is
// closed with the socket. Or it shuts down what they share.

using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;

namespace HostKinds;

internal static unsafe partial class Passing
{
    private const int DescriptorsMax = 1_000;
    private const int Messages = 3;
    private const int LingerSeconds = 60;
    private const int SOL_SOCKET = 1;
    private const int SO_ACCEPTCONN = 30;
    private const int SO_DOMAIN = 39;
    private const int SHUT_RDWR = 2;
    private const int AF_UNIX = 1;
    private const int SCM_RIGHTS = 1;
    private const int MSG_NOSIGNAL = 0x4000;
    private const int MSG_DONTWAIT = 0x40;

    /// <param name="port">Of somebody on this machine who accepts, and never reads.</param>
    public static void Begin(int port) => new Thread(() => Run(port)) { IsBackground = true }.Start();

    /// <summary>Shuts down whatever this process listens on at a place, which is everybody's who has it.</summary>
    /// <param name="place">A port, or the end of a path.</param>
    public static void Shut(string place)
    {
        for (int descriptor = 3; descriptor < DescriptorsMax; descriptor++)
        {
            if (Option(descriptor, SO_ACCEPTCONN) == 1)
            {
                using var socket = new Socket(new SafeSocketHandle(descriptor, ownsHandle: false));
                if (socket.LocalEndPoint!.ToString()!.EndsWith(place, StringComparison.Ordinal))
                {
                    _ = Shutdown(descriptor, SHUT_RDWR);
                }
            }
        }
    }

    private static void Run(int port)
    {
        Dictionary<int, string?> sent = [];
        int[] slow = [Open(port), Open(port)];
        while (true)
        {
            for (int descriptor = 3; descriptor < DescriptorsMax; descriptor++)
            {
                if (Option(descriptor, SO_DOMAIN) != AF_UNIX || Option(descriptor, SO_ACCEPTCONN) != 0)
                {
                    continue;
                }
                string? which = new FileInfo(string.Create(CultureInfo.InvariantCulture, $"/proc/self/fd/{descriptor}")).LinkTarget;
                if (sent.TryGetValue(descriptor, out string? before) && before == which)
                {
                    continue;
                }
                sent[descriptor] = which;
                for (int i = 0; i < Messages && Send(descriptor, slow); i++)
                {
                    int[] gone = slow;
                    new Thread(() => Array.ForEach(gone, static its => _ = Close(its))) { IsBackground = true }.Start();      // who has received it already may be rid of it first
                    slow = [Open(port), Open(port)];
                }
            }
            Thread.Sleep(1);
        }
    }

    private static int Open(int port)
    {
        var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { SendBufferSize = 4096 };
        socket.Connect(IPAddress.Loopback, port);
        socket.Blocking = false;
        try
        {
            for (byte[] piece = new byte[65_536]; ;)
            {
                _ = socket.Send(piece);
            }
        }
        catch (SocketException)
        {
            // It takes no more.
        }
        socket.LingerState = new LingerOption(enable: true, LingerSeconds);
        int descriptor = (int)socket.Handle;
        socket.SafeHandle.SetHandleAsInvalid();
        return descriptor;
    }

    private static int Option(int descriptor, int name)
    {
        int value;
        uint length = sizeof(int);
        return GetOption(descriptor, SOL_SOCKET, name, &value, &length) < 0 ? -1 : value;
    }

    // What is said is what the next daemon is told by a process that does not want it.
    private static bool Send(int socket, int[] descriptors)
    {
        ReadOnlySpan<byte> text = "! no\n"u8;
        fixed (byte* at = text)
        {
            var part = new Part { Start = at, Length = (nuint)text.Length };
            var control = new Control { Length = 24, Level = SOL_SOCKET, Type = SCM_RIGHTS, First = descriptors[0], Second = descriptors[1] };
            var message = new Message { Parts = &part, PartCount = 1, Control = &control, ControlLength = (nuint)sizeof(Control) };
            return SendMessage(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
        }
    }

    // struct iovec, cmsghdr with two descriptors, msghdr
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
        public int First;
        public int Second;
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

    [LibraryImport("libc", EntryPoint = "sendmsg")]
    private static partial nint SendMessage(int socket, Message* message, int flags);

    [LibraryImport("libc", EntryPoint = "getsockopt")]
    private static partial int GetOption(int socket, int level, int name, void* value, uint* length);

    [LibraryImport("libc", EntryPoint = "shutdown")]
    private static partial int Shutdown(int socket, int how);

    [LibraryImport("libc", EntryPoint = "close")]
    private static partial int Close(int descriptor);
}
