// Several descriptors in one message over a Unix socket (SCM_RIGHTS, unix(7)), between a daemon and its processes: what is sent is what the receiver has to judge.

using System.Runtime.InteropServices;

namespace Millrace.Platform;

internal static unsafe class DescriptorPassing
{
    /// <summary>SCM_MAX_FD: more of them one message cannot have.</summary>
    public const int Most = 253;

    private const int HeaderSize = 16;      // CMSG_LEN(0)

    // All that can come at once: whatever finds no room is closed by the kernel, on the thread that receives. Beside the descriptors what somebody may have asked for who has the
    // socket too: who the sender is (SO_PASSCRED, SO_PASSPIDFD), and his label (SO_PASSSEC).
    private const int Room = 4096;

    /// <summary>Whether the other end is the process that it should be, and who that is (SO_PEERCRED); of a listening socket, who listens.</summary>
    public static (int Process, uint User) Peer(int socket)
    {
        SystemCalls.PeerCredentials peer = default;
        uint length = (uint)sizeof(SystemCalls.PeerCredentials);
        return SystemCalls.GetSocketOption(socket, SystemCalls.SOL_SOCKET, SystemCalls.SO_PEERCRED, &peer, &length) < 0 ? (0, uint.MaxValue) : (peer.Process, peer.User);
    }

    /// <summary>Sends a text, which must be small, and descriptors with it. False: not, or not all of it.</summary>
    public static bool TrySend(int socket, ReadOnlySpan<byte> text, ReadOnlySpan<int> descriptors)
    {
        byte* control = stackalloc byte[HeaderSize + (Most * sizeof(int))];
        int size = Math.Min(descriptors.Length, Most) * sizeof(int);
        *(nint*)control = HeaderSize + size;
        *(int*)(control + 8) = SystemCalls.SOL_SOCKET;
        *(int*)(control + 12) = SystemCalls.SCM_RIGHTS;
        descriptors[..(size / sizeof(int))].CopyTo(new Span<int>(control + HeaderSize, size / sizeof(int)));
        fixed (byte* at = text)
        {
            var vector = new SystemCalls.IoVector { Base = at, Length = text.Length };
            var message = new SystemCalls.MessageHeader { Vectors = &vector, VectorCount = 1, Control = size > 0 ? control : null, ControlLength = size > 0 ? HeaderSize + size : 0 };
            return SystemCalls.SendMessage(socket, &message, SystemCalls.MSG_NOSIGNAL | SystemCalls.MSG_DONTWAIT) == text.Length;
        }
    }

    /// <summary>Receives what is there. The descriptors are the caller's to close.</summary>
    /// <param name="socket">Of a stream; is not waited for.</param>
    /// <param name="text">What comes; the answer is how much, 0 at the end and less where there is nothing.</param>
    /// <param name="descriptors">What comes with it.</param>
    public static int Receive(int socket, Span<byte> text, out int[] descriptors)
    {
        byte* control = stackalloc byte[Room];
        fixed (byte* at = text)
        {
            var vector = new SystemCalls.IoVector { Base = at, Length = text.Length };
            var message = new SystemCalls.MessageHeader { Vectors = &vector, VectorCount = 1, Control = control, ControlLength = Room };
            nint count = SystemCalls.ReceiveMessage(socket, &message, SystemCalls.MSG_DONTWAIT | SystemCalls.MSG_CMSG_CLOEXEC);
            descriptors = count >= 0 ? DescriptorsIn(new ReadOnlySpan<byte>(control, (int)message.ControlLength)) : [];
            return (int)count;
        }
    }

    // cmsg(3): a length with its header, a level, a type, what is said, and zeros up to a multiple of eight.
    private static int[] DescriptorsIn(ReadOnlySpan<byte> control)
    {
        int[] descriptors = [];
        while (control.Length >= HeaderSize)
        {
            int length = (int)BitConverter.ToInt64(control);
            if (length < HeaderSize || length > control.Length)
            {
                break;
            }

            (int level, int type) = (BitConverter.ToInt32(control[8..]), BitConverter.ToInt32(control[12..]));
            ReadOnlySpan<int> numbers = MemoryMarshal.Cast<byte, int>(control[HeaderSize..length]);
            if (level == SystemCalls.SOL_SOCKET && type == SystemCalls.SCM_RIGHTS)
            {
                descriptors = [.. descriptors, .. numbers];
            }
            else if (level == SystemCalls.SOL_SOCKET && type == SystemCalls.SCM_PIDFD && numbers.Length > 0)
            {
                _ = SystemCalls.Close(numbers[0]);      // SO_PASSPIDFD: nobody here has asked for it, and it waits for nobody
            }

            control = control[Math.Min(control.Length, (length + 7) & ~7)..];
        }

        return descriptors;
    }
}
