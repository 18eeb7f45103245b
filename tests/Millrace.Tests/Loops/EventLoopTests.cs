// The word by which a loop goes from driver to driver, and what is posted to a loop that has ended.

using Microsoft.Extensions.Logging.Abstractions;
using Millrace.Connections;
using Millrace.Handlers;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Platform;

namespace Millrace.Tests.Loops;

public sealed unsafe class EventLoopTests : IDisposable
{
    private readonly LoopServices _services = new(new MillraceOptions(), new DelegateHandler(static (_, _) => { }), new Log(NullLogger.Instance));

    public void Dispose() => _services.Dispose();

    private EventLoop<LinuxKernel> New() => new(0, _services, default, ConnectionFactory.Create);

    [Fact]
    public void A_loop_is_its_drivers_or_whoevers_has_taken_it_over_and_never_both()
    {
        EventLoop<LinuxKernel> loop = New();
        long ended = loop.Enter(null);
        Assert.True(loop.Leave(ended));
        Assert.False(loop.TakeOver(ended));

        long taken = loop.Enter(null);
        Assert.NotEqual(ended, taken);
        Assert.True(loop.TakeOver(taken));
        Assert.False(loop.TakeOver(taken));
        Assert.False(loop.Leave(taken));

        long next = loop.Enter(null);
        Assert.False(loop.TakeOver(taken));
        Assert.True(loop.Leave(next));
        loop.Release();
    }

    // Another loop has accepted it for this one, which has just ended: nobody else knows of it.
    [Fact]
    public void A_socket_that_comes_to_a_loop_that_has_ended_is_closed_and_counts_no_more()
    {
        EventLoop<LinuxKernel> loop = New();
        loop.Stop();
        Assert.True(loop.Drive(new LoopDriver(_services)));

        int* pair = stackalloc int[2];
        Assert.Equal(0, SystemCalls.SocketPair(SystemCalls.AF_UNIX, SystemCalls.SOCK_SEQPACKET | SystemCalls.SOCK_CLOEXEC | SystemCalls.SOCK_NONBLOCK, 0, pair));
        Assert.True(_services.TryAddConnection());
        loop.Post(new AcceptedSocket(pair[0], ListenAddress.Parse("fastcgi://unix:/run/ended.sock"), []));

        Assert.Equal(0, _services.Connections);
        byte[] buffer = new byte[1];
        Assert.Equal(0, default(LinuxKernel).Receive(pair[1], buffer));     // the other end has gone
        default(LinuxKernel).Close(pair[1], reset: false);
    }

    // Its handler may still run: it is closed by its own loop and nobody else.
    [Fact]
    public void A_loop_that_is_told_to_stop_stays_for_the_connection_it_has()
    {
        EventLoop<LinuxKernel> loop = New();
        var driver = new LoopDriver(_services);
        int* pair = stackalloc int[2];
        Assert.Equal(0, SystemCalls.SocketPair(SystemCalls.AF_UNIX, SystemCalls.SOCK_STREAM | SystemCalls.SOCK_CLOEXEC | SystemCalls.SOCK_NONBLOCK, 0, pair));
        Assert.True(_services.TryAddConnection());
        loop.Post(new AcceptedSocket(pair[0], ListenAddress.Parse("fastcgi://unix:/run/here.sock"), []));
        Assert.True(loop.Turn(driver, waitMs: 0));
        loop.Stop();
        Assert.True(loop.Turn(driver, waitMs: 0));
        Assert.Equal((1, true), (loop.ConnectionCount, loop.IsOutlived));

        default(LinuxKernel).Close(pair[1], reset: false);
        Assert.True(loop.Drive(driver));
        Assert.Equal((0, true), (loop.ConnectionCount, loop.HasEnded));
    }

    // Where there is no memory for it.
    [Fact]
    public void A_socket_for_which_no_connection_can_be_made_is_closed_and_counts_no_more() =>
        IsClosedBy(new(0, _services, default, static (_, _, _, _) => throw new InsufficientMemoryException()));

    [Fact]
    public void A_socket_that_comes_when_the_drain_time_is_over_is_closed_and_counts_no_more()
    {
        EventLoop<LinuxKernel> loop = New();
        loop.CutConnections();
        IsClosedBy(loop);
    }

    private void IsClosedBy(EventLoop<LinuxKernel> loop)
    {
        int* pair = stackalloc int[2];
        Assert.Equal(0, SystemCalls.SocketPair(SystemCalls.AF_UNIX, SystemCalls.SOCK_SEQPACKET | SystemCalls.SOCK_CLOEXEC | SystemCalls.SOCK_NONBLOCK, 0, pair));
        Assert.True(_services.TryAddConnection());
        loop.Post(new AcceptedSocket(pair[0], ListenAddress.Parse("fastcgi://unix:/run/here.sock"), []));
        Assert.True(loop.Turn(new LoopDriver(_services), waitMs: 0));
        Assert.Equal((0, 0), (_services.Connections, loop.ConnectionCount));
        byte[] buffer = new byte[1];
        Assert.Equal(0, default(LinuxKernel).Receive(pair[1], buffer));
        default(LinuxKernel).Close(pair[1], reset: false);
        loop.Release();
    }
}
