// The channel through which connections move, as the kernel has it.

using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Platform;

public sealed unsafe class ChannelTests
{
    [Fact]
    public void A_message_whose_descriptor_is_lost_is_not_the_end_of_the_others()
    {
        int* pair = stackalloc int[2];
        Assert.Equal(0, SystemCalls.SocketPair(SystemCalls.AF_UNIX, SystemCalls.SOCK_SEQPACKET | SystemCalls.SOCK_CLOEXEC | SystemCalls.SOCK_NONBLOCK, 0, pair));
        LinuxKernel kernel = default;
        Span<byte> knowledge = stackalloc byte[8];
        byte* word = stackalloc byte[1];
        Assert.Equal(1, SystemCalls.Write(pair[0], word, 1));
        Assert.Equal(0, kernel.Give(pair[0], pair[0], [1, 2, 3]));

        int taken = kernel.Take(pair[1], knowledge, out int length);
        Assert.InRange(taken, 0, int.MaxValue);
        Assert.Equal([1, 2, 3], knowledge[..length].ToArray());
        Assert.Equal(KernelResult.Again, kernel.Take(pair[1], knowledge, out _));

        _ = SystemCalls.Close(taken);
        _ = SystemCalls.Close(pair[0]);
        Assert.Equal(KernelResult.Broken, kernel.Take(pair[1], knowledge, out _));
        _ = SystemCalls.Close(pair[1]);
    }
}
