// Who stands at the addresses of an application without a process, and what somebody who has the channel of its generations too may do to him.

using System.Net.Sockets;
using Millrace.Command.Serving;
using Millrace.Listeners;
using Millrace.Platform;
using Millrace.Tests.Platform;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Command;

[Collection(AloneCollection.Name)]
public sealed class DoormanTests : IDisposable
{
    private readonly SocketFolder _folder = new();
    private readonly AppListeners _listeners;

    public DoormanTests() => _listeners = AppListeners.Open(
        new AppSettings { Name = "app", Target = "", Urls = [_folder.NewAddress("http")] }, new DaemonFolders(new DaemonPlaces(_folder.PathOf("control.sock"), _folder.PathOf("code"))));

    public void Dispose()
    {
        _listeners.Dispose();
        _folder.Dispose();
    }

    [Fact]
    public async Task A_channel_that_has_been_shut_down_rings_once()
    {
        using var doorman = new Doorman(_listeners, static () => { });
        _ = SystemCalls.Shutdown(_listeners.Gives, SystemCalls.SHUT_RDWR);
        long before = ThreadPool.CompletedWorkItemCount;
        await Task.Delay(300);
        Assert.InRange(ThreadPool.CompletedWorkItemCount - before, 0, 500);
    }

    [Fact]
    public async Task Somebody_who_sends_without_end_keeps_nobody_from_dismissing_him()
    {
        bool isOver = false;
        var doorman = new Doorman(_listeners, static () => { });
        var sending = new Thread(() => Flood(ref isOver));
        sending.Start();
        await Task.Delay(100);
        await Task.Run(doorman.Dispose).WaitAsync(TimeSpan.FromSeconds(10));
        Volatile.Write(ref isOver, true);
        sending.Join();
    }

    // The application has the sockets too, with their options, and sends what it likes: connections whose last close waits. What nobody has taken goes with the sockets.
    [Fact]
    public async Task Sockets_are_closed_without_waiting_for_what_an_application_has_left_in_them()
    {
        using var slow = new SlowToClose();
        int listening = _listeners.Listening.Single();
        _ = SystemCalls.SetSocketOption(listening, SystemCalls.SOL_SOCKET, SystemCalls.SO_PASSRIGHTS, 1);
        using (var visitor = UnixSocket.New())
        {
            await visitor.ConnectAsync(new UnixDomainSocketEndPoint(SocketName.Of(listening)!.Value.Path!));
            Assert.True(slow.TrySend((int)visitor.Handle, "x"u8));
        }
        Assert.True(slow.TrySend(_listeners.Gives, "x"u8));
        Assert.True(slow.TrySend(_listeners.Takes, "x"u8));
        await Task.Run(_listeners.Dispose).WaitAsync(SlowToClose.Soon);
    }

    // The second of two would find no room, and be closed by the kernel.
    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(5)]
    public async Task Whoever_gives_more_than_one_connection_keeps_nobody_from_dismissing_the_doorman(int count)
    {
        using var slow = new SlowToClose();
        var doorman = new Doorman(_listeners, static () => { });
        Assert.True(slow.TrySend(_listeners.Gives, "x"u8, count));
        await Task.Delay(100);
        await Task.Run(doorman.Dispose).WaitAsync(SlowToClose.Soon);
    }

    private unsafe void Flood(ref bool isOver)
    {
        byte word = 1;
        while (!Volatile.Read(ref isOver))
        {
            _ = SystemCalls.Send(_listeners.Gives, &word, 1, SystemCalls.MSG_DONTWAIT | SystemCalls.MSG_NOSIGNAL);
        }
    }
}
