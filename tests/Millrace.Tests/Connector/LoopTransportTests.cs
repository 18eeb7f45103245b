// A socket that a loop tells of, with the loop in the test's hand: a receive is completed once, by whoever is first, and on the loop where it has heard of what came.

using System.Net.Sockets;
using Millrace.Connector;
using Millrace.Loops;
using Millrace.Platform;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Connector;

public sealed class LoopTransportTests : IDisposable
{
    private readonly SocketFolder _folder = new();
    private readonly HandLoop _loop = new();
    private readonly Socket _program;
    private readonly LoopTransport _transport;
    private readonly byte[] _buffer = new byte[4];

    public LoopTransportTests()
    {
        var endPoint = new UnixDomainSocketEndPoint(_folder.PathOf("p.sock"));
        using var listener = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        listener.Bind(endPoint);
        listener.Listen(1);
        var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        socket.Connect(endPoint);
        _program = listener.Accept();
        _program.ReceiveTimeout = 10_000;
        _transport = new LoopTransport(socket, _loop);
    }

    public void Dispose()
    {
        _program.Dispose();
        _transport.Dispose();
        _loop.Work();
        _folder.Dispose();
    }

    private Task<int> ReceiveAsync(CancellationToken ct = default) => _transport.ReceiveAsync(_buffer, ct).AsTask();

    private void Say(string text) => Assert.Equal(text.Length, _program.Send(System.Text.Encoding.ASCII.GetBytes(text)));

    private void Hear(Readiness ready = Readiness.Read) => Assert.True(_transport.OnEvent(null!, ready));

    private string Text(int count) => System.Text.Encoding.ASCII.GetString(_buffer, 0, count);

    [Fact]
    public async Task What_comes_goes_on_in_the_turn_that_hears_of_it()
    {
        Task<int> received = ReceiveAsync();
        Assert.False(_loop.IsWatched);      // it is the loop that begins
        _loop.Work();
        Assert.True(_loop.IsWatched);
        for (int i = 0; i < 3; i++)
        {
            Say("ab");
            Assert.False(received.IsCompleted);
            Hear();
            Assert.Equal("ab", Text(await received));
            received = ReceiveAsync();
            Assert.False(received.IsCompleted);
        }
        Assert.Equal(3, _loop.Runs);
    }

    [Fact]
    public async Task What_goes_on_may_cost_the_loop_its_driver()
    {
        Task<int> received = ReceiveAsync();
        _loop.Work();
        Say("ab");
        _loop.IsTakenOver = true;
        Assert.False(_transport.OnEvent(null!, Readiness.Read));
        Assert.Equal("ab", Text(await received));
    }

    [Fact]
    public async Task What_has_come_before_anybody_waits_is_there_at_once()
    {
        Task<int> received = ReceiveAsync();
        _loop.Work();
        Say("a");
        Hear();
        _ = await received;
        Say("b");
        Hear();
        received = ReceiveAsync();
        Assert.True(received.IsCompletedSuccessfully);
        Assert.Equal("b", Text(await received));
        Assert.False(ReceiveAsync().IsCompleted);
    }

    [Fact]
    public async Task What_nobody_waits_for_is_seen_once_the_loop_has_heard_of_it()
    {
        Task<int> received = ReceiveAsync();
        _loop.Work();
        Say("a");
        Hear();
        _ = await received;
        Assert.False(_transport.HasInput);
        Hear();     // of what has been taken along
        Assert.False(_transport.HasInput);
        Say("b");
        Hear();
        Assert.True(_transport.HasInput);
        Assert.Equal("b", Text(await ReceiveAsync()));
        Assert.False(_transport.HasInput);
    }

    [Fact]
    public async Task What_nobody_waits_for_is_seen_where_there_is_no_loop_any_more()
    {
        Task<int> received = ReceiveAsync();
        _loop.Work();
        Say("a");
        Hear();
        _ = await received;
        _transport.OnLoopEnded();
        Assert.False(_transport.HasInput);
        Say("b");
        Assert.True(_transport.HasInput);
    }

    [Fact]
    public async Task An_event_without_anything_to_read_ends_no_receive()
    {
        Task<int> received = ReceiveAsync();
        _loop.Work();
        Hear();
        Assert.False(received.IsCompleted);
        Say("ab");
        Hear();
        Assert.Equal("ab", Text(await received));
    }

    [Fact]
    public async Task One_edge_is_read_to_its_end_and_every_so_often_others_have_their_turn()
    {
        Task<int> received = ReceiveAsync();
        _loop.Work();
        Say("0123456789abcdefghijklmnopqrstuvwxyz");
        Hear();
        string all = Text(await received);
        int turns = 0;
        while (all.Length < 36)
        {
            received = ReceiveAsync();
            if (!received.IsCompleted)
            {
                turns++;
                Assert.Equal(1, _loop.Work());
            }
            all += Text(await received);
        }
        Assert.Equal("0123456789abcdefghijklmnopqrstuvwxyz", all);
        Assert.Equal(2, turns);
    }

    [Fact]
    public async Task The_end_that_comes_along_with_the_last_bytes_is_seen_behind_them()
    {
        Task<int> received = ReceiveAsync();
        _loop.Work();
        Say("ab");
        _program.Shutdown(SocketShutdown.Send);
        Hear(Readiness.Read | Readiness.PeerFinished);
        Assert.Equal("ab", Text(await received));
        received = ReceiveAsync();
        Assert.True(received.IsCompletedSuccessfully);
        Assert.Equal(0, await received);
        Assert.Equal(0, await ReceiveAsync());
    }

    [Fact]
    public async Task Whoever_cancels_a_receive_takes_no_bytes_along_and_goes_on_elsewhere()
    {
        using var stop = new CancellationTokenSource();
        Task<int> received = ReceiveAsync(stop.Token);
        _loop.Work();
        Thread? canceller = Thread.CurrentThread;
        Task<bool> isElsewhere = received.ContinueWith(_ => Thread.CurrentThread != Volatile.Read(ref canceller), CancellationToken.None, TaskContinuationOptions.ExecuteSynchronously, TaskScheduler.Default);
        stop.Cancel();
        Volatile.Write(ref canceller, null);
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => received);
        Assert.True(await isElsewhere);

        Say("ab");
        Hear();
        Assert.Equal("ab", Text(await ReceiveAsync()));
        Assert.Throws<OperationCanceledException>(() => { _ = ReceiveAsync(stop.Token); });
    }

    [Fact]
    public async Task Its_end_ends_the_receive_and_the_socket_is_closed_by_the_loop_that_watches_it()
    {
        Task<int> received = ReceiveAsync();
        _loop.Work();
        _transport.Dispose();
        await Assert.ThrowsAsync<ObjectDisposedException>(() => received);
        Assert.True(_loop.IsWatched);
        Assert.False(_program.Poll(0, SelectMode.SelectRead));
        Hear();     // the rest of a batch
        _loop.Work();
        Assert.False(_loop.IsWatched);
        Assert.Equal(0, _program.Receive(new byte[1]));
        _ = Assert.Throws<ObjectDisposedException>(() => { _ = ReceiveAsync(); });
        await Assert.ThrowsAsync<ObjectDisposedException>(async () => await _transport.SendAsync(new byte[1], default));
        _transport.Dispose();
        Assert.Equal(0, _loop.Work());
    }

    [Fact]
    public void One_that_no_loop_has_been_told_of_is_closed_at_once()
    {
        _transport.Dispose();
        Assert.Equal(0, _loop.Work());
        Assert.Equal(0, _program.Receive(new byte[1]));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Without_its_loop_or_room_there_it_goes_on_by_itself(bool hasLoop)
    {
        _loop.HasRoom = !hasLoop;
        Task<int> received = ReceiveAsync();
        _loop.Work();
        if (!hasLoop)
        {
            _transport.OnLoopEnded();
            _loop.HasEnded = true;
        }
        Assert.False(received.IsCompleted);
        for (int i = 0; i < 2; i++)
        {
            Say("ab");
            Assert.Equal("ab", Text(await received.WaitAsync(TimeSpan.FromSeconds(10))));
            received = ReceiveAsync();
        }
        _transport.Dispose();
        _loop.Work();
        _ = await Assert.ThrowsAnyAsync<Exception>(() => received.WaitAsync(TimeSpan.FromSeconds(10)));
        Assert.Equal(0, _program.Receive(new byte[1]));
    }

    [Fact]
    public async Task A_loop_that_has_ended_before_it_could_watch_changes_nothing()
    {
        _loop.HasEnded = true;
        Task<int> received = ReceiveAsync();
        Say("ab");
        Assert.Equal("ab", Text(await received.WaitAsync(TimeSpan.FromSeconds(10))));
        _transport.Dispose();
        Assert.Equal(0, _program.Receive(new byte[1]));
    }

    [Fact]
    public async Task More_than_the_socket_takes_is_sent_as_the_program_reads()
    {
        byte[] much = new byte[4_000_000];
        Random.Shared.NextBytes(much);
        Task sending = Task.Run(async () =>
        {
            for (int sent = 0; sent < much.Length;)
            {
                sent += await _transport.SendAsync(much.AsMemory(sent), default);
            }
        });
        var read = new MemoryStream();
        byte[] buffer = new byte[64 * 1024];
        while (read.Length < much.Length)
        {
            read.Write(buffer, 0, _program.Receive(buffer));
        }
        await sending;
        Assert.Equal(much, read.ToArray());
    }

    // Events, cancellations, bytes and the end of the loop in any order, from three threads: every byte arrives once, in order.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Whatever_happens_at_the_same_time_a_receive_ends_once_and_no_byte_is_lost(bool loopEnds)
    {
        const int Count = 20_000;
        bool isOver = false;
        Task loop = Task.Run(() =>
        {
            for (int turn = 0; !Volatile.Read(ref isOver); turn++)
            {
                _ = _loop.Work();
                if (!_loop.HasEnded)
                {
                    Hear();
                }
                if (loopEnds && turn == 2_000)
                {
                    _loop.HasEnded = true;
                    _transport.OnLoopEnded();
                }
            }
        });
        Task program = Task.Run(() =>
        {
            for (int sent = 0; sent < Count;)
            {
                int count = Math.Min(Random.Shared.Next(1, 9), Count - sent);
                byte[] bytes = [.. Enumerable.Range(sent, count).Select(static i => (byte)i)];
                sent += _program.Send(bytes);
            }
        });
        int next = 0;
        while (next < Count)
        {
            using var stop = new CancellationTokenSource();
            Task cancelling = Random.Shared.Next(3) == 0 ? Task.Run(stop.Cancel) : Task.CompletedTask;
            try
            {
                int count = await _transport.ReceiveAsync(_buffer, stop.Token).AsTask().WaitAsync(TimeSpan.FromSeconds(20));
                Assert.InRange(count, 1, _buffer.Length);
                for (int i = 0; i < count; i++)
                {
                    Assert.Equal((byte)next++, _buffer[i]);
                }
            }
            catch (OperationCanceledException)
            {
                // Nothing has been taken.
            }
            await cancelling;
        }
        await program;
        Volatile.Write(ref isOver, true);
        await loop;
    }
}
