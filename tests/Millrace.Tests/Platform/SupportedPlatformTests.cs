// Machines Millrace does not run on, and kernels that lack what it likes to use.

using System.Runtime.InteropServices;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Platform;

public sealed class SupportedPlatformTests
{
    [Theory]
    [InlineData(Architecture.X86)]
    [InlineData(Architecture.Arm)]
    [InlineData(Architecture.Armv6)]
    [InlineData(Architecture.S390x)]
    [InlineData(Architecture.Ppc64le)]
    [InlineData(Architecture.RiscV64)]
    public void Other_processors_than_x64_and_arm64_are_refused_with_a_sentence(Architecture process)
    {
        var refusal = Assert.Throws<PlatformNotSupportedException>(() => SupportedPlatform.Require(isLinux: true, process));
        Assert.Contains($"this process is {process}", refusal.Message, StringComparison.Ordinal);
        Assert.Contains("publish for linux-x64 or linux-arm64", refusal.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(Architecture.X64)]
    [InlineData(Architecture.Arm64)]
    public void Linux_on_x64_and_arm64_is_taken(Architecture process)
    {
        SupportedPlatform.Require(isLinux: true, process);
        Assert.Contains("Linux", Assert.Throws<PlatformNotSupportedException>(() => SupportedPlatform.Require(isLinux: false, process)).Message, StringComparison.Ordinal);
    }

    [Fact]
    public void This_machine_is_taken() => SupportedPlatform.Require();

    [Fact]
    public void Shared_listener_is_watched_where_EPOLLEXCLUSIVE_is_not_possible()
    {
        LinuxKernel kernel = default;
        Poller poller = kernel.OpenPoller();

        // epoll_ctl(2): EINVAL for EPOLLEXCLUSIVE on a descriptor of epoll, as it would be for one on a kernel without it.
        int listener = SystemCalls.EpollCreate(SystemCalls.EPOLL_CLOEXEC);
        try
        {
            Assert.Equal(-1, SystemCalls.EpollControl(poller.Queue, SystemCalls.EPOLL_CTL_ADD, listener, SystemCalls.EPOLLIN | SystemCalls.EPOLLEXCLUSIVE, 1));
            Assert.Equal(SystemCalls.EINVAL, SystemCalls.Errno);
            Assert.True(kernel.WatchListener(poller, listener, token: 1, shared: true));
            Assert.False(kernel.WatchListener(poller, listener, token: 1, shared: true));   // EEXIST: it is watched
            kernel.Unwatch(poller, listener);
        }
        finally
        {
            _ = SystemCalls.Close(listener);
            kernel.ClosePoller(poller);
        }
    }
}
