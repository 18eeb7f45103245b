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

    // A connection in whose queue there is one whose last close waits: with those that are kept, and beyond them.
    [Theory]
    [InlineData(Doorman.KeptMax)]
    [InlineData(Doorman.KeptMax + 1)]
    public async Task What_lies_in_a_connection_that_is_given_keeps_nobody_from_whoever_stands_at_the_door(int count)
    {
        using var slow = new SlowToClose();
        var doorman = new Doorman(_listeners, static () => { });
        List<int> ends = [];
        for (int i = 1; i <= count; i++)
        {
            ends.Add(Give(i == count ? slow : null));
        }
        Assert.True(SpinWait.SpinUntil(() => Unread(_listeners.Takes) == 0, SlowToClose.Soon));
        await Task.Delay(100);

        var kept = await Task.Run(doorman.Pause).WaitAsync(SlowToClose.Soon);
        Assert.Equal(Doorman.KeptMax, kept.Count);
        doorman.GoOn();
        await Task.Run(doorman.Dispose).WaitAsync(SlowToClose.Soon);
        ends.ForEach(static end => _ = SystemCalls.Close(end));
    }

    [Fact]
    public async Task However_many_connections_close_slowly_one_thread_of_the_daemon_waits_for_them()
    {
        using var slow = new SlowToClose();
        Assert.True(SpinWait.SpinUntil(static () => Closers() == 0, SlowToClose.Wait));
        List<int> ends = [];
        for (int generation = 0; generation < 3; generation++)
        {
            var doorman = new Doorman(_listeners, static () => { });
            for (int i = 0; i < 4; i++)
            {
                ends.Add(Give(slow));
            }
            await Task.Delay(100);
            doorman.Dispose();
        }
        await Task.Delay(100);
        Assert.Equal(1, Closers());
        ends.ForEach(static end => _ = SystemCalls.Close(end));
    }

    [Fact]
    public async Task Nor_does_who_answers_503_take_more_of_what_is_no_connection_than_one_thread_closes()
    {
        using var slow = new SlowToClose();
        Assert.True(SpinWait.SpinUntil(static () => Closers() == 0, SlowToClose.Wait));
        for (int hold = 0; hold < 3; hold++)
        {
            var responder = (await HeldResponder.StartAsync(_listeners))!;
            Assert.True(slow.TrySend(_listeners.Gives, "x"u8, count: 2));
            await Task.Delay(200);
            await await responder.EndAsync(successor: null);
        }
        Assert.Equal(1, Closers());
    }

    [Fact]
    public async Task Who_answers_503_takes_what_has_come_as_soon_as_the_slow_ones_are_closed()
    {
        using var slow = new SlowToClose();
        var doorman = new Doorman(_listeners, static () => { });
        int end = Give(slow);
        await Task.Delay(100);
        doorman.Dispose();
        var responder = (await HeldResponder.StartAsync(_listeners))!;
        int visitor = Give(slow: null);
        await Task.Delay(100);
        Assert.NotEqual(0, Unread(_listeners.Takes));

        slow.Dispose();
        Assert.True(SpinWait.SpinUntil(() => Unread(_listeners.Takes) == 0, SlowToClose.Soon));
        await await responder.EndAsync(successor: null);
        _ = SystemCalls.Close(end);
        _ = SystemCalls.Close(visitor);
    }

    // By the name of a thread, of which the kernel keeps 15 characters.
    private static int Closers() => Directory.GetDirectories("/proc/self/task").Count(static thread =>
    {
        try
        {
            return File.ReadAllText(thread + "/comm").StartsWith("foreign", StringComparison.Ordinal);
        }
        catch (IOException)
        {
            return false;       // it has ended
        }
    });

    // One end of a connection; the other one is the application's.
    private unsafe int Give(SlowToClose? slow)
    {
        int* pair = stackalloc int[2];
        Assert.Equal(0, SystemCalls.SocketPair(SystemCalls.AF_UNIX, SystemCalls.SOCK_STREAM | SystemCalls.SOCK_CLOEXEC, 0, pair));
        Assert.True(slow?.TrySend(pair[1], "x"u8) ?? true);
        int given = pair[0];
        Assert.True(SpinWait.SpinUntil(() => DescriptorPassing.TrySend(_listeners.Gives, "x"u8, [given]), SlowToClose.Soon));
        _ = SystemCalls.Close(given);
        return pair[1];
    }

    private static unsafe int Unread(int socket)
    {
        int unread = 0;
        Assert.Equal(0, SystemCalls.Ioctl(socket, SystemCalls.SIOCINQ, &unread));
        return unread;
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
