// How connections go to another process: through a channel (SOCK_SEQPACKET) that both have.

namespace Millrace.Platform;

internal readonly unsafe partial struct LinuxKernel
{
    // unix(7): SCM_RIGHTS. A control message is its length, its level, its type, and one descriptor.
    public int Give(int channel, int descriptor, ReadOnlySpan<byte> knowledge)
    {
        fixed (byte* at = knowledge)
        {
            var rights = new SystemCalls.DescriptorMessage(descriptor);
            var vector = new SystemCalls.IoVector { Base = at, Length = knowledge.Length };
            var message = new SystemCalls.MessageHeader { Vectors = &vector, VectorCount = 1, Control = &rights, ControlLength = sizeof(SystemCalls.DescriptorMessage) };
            while (SystemCalls.SendMessage(channel, &message, SystemCalls.MSG_NOSIGNAL | SystemCalls.MSG_DONTWAIT) < 0)
            {
                // Too many descriptors are on their way: as if the channel were full.
                int result = SystemCalls.Errno is SystemCalls.ETOOMANYREFS or SystemCalls.ENOBUFS or SystemCalls.ENOMEM ? KernelResult.Again : Failed();
                if (result != 0)
                {
                    return result;
                }
            }

            return 0;
        }
    }

    // The other process may send what it likes, and has the channel too, with its options. One connection comes at a time: whoever sends anything else, or several, is none of ours.
    public int Take(int channel, Span<byte> knowledge, out int length, out int[] strange)
    {
        int count;
        int[] descriptors;
        strange = [];
        while ((count = DescriptorPassing.Receive(channel, knowledge, out descriptors)) < 0)
        {
            int result = Failed();
            if (result != 0)
            {
                length = 0;
                return result;
            }
        }

        length = count;
        switch (descriptors)
        {
            case [int connection] when ForeignDescriptor.IsConnection(connection):
                SetLinger(connection, reset: false);
                return connection;
            case []:
                // A message whose descriptor is lost, since there was no number for it, is not the end of the others.
                return count == 0 ? KernelResult.Broken : KernelResult.Refused;
            default:
                strange = descriptors;
                return KernelResult.Broken;
        }
    }

    public bool IsTcp(int descriptor) => !ForeignDescriptor.IsUnix(descriptor);

    // Closing does not end the registration where another process has the socket too: epoll(7), question 6.
    public void Leave(Poller poller, int descriptor)
    {
        Unwatch(poller, descriptor);
        Close(descriptor, reset: false);
    }
}
