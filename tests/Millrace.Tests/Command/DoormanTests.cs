// Who stands at the addresses of an application without a process, and what somebody who has the channel of its generations too may do to him.

using Millrace.Command.Serving;
using Millrace.Platform;
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

    private unsafe void Flood(ref bool isOver)
    {
        byte word = 1;
        while (!Volatile.Read(ref isOver))
        {
            _ = SystemCalls.Send(_listeners.Gives, &word, 1, SystemCalls.MSG_DONTWAIT | SystemCalls.MSG_NOSIGNAL);
        }
    }
}
