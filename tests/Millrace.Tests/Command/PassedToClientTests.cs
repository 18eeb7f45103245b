// What the daemon connects to is an application's, which may send connections along with its answer whose last close waits as long as it likes: nobody here waits with it.

using System.Net;
using System.Net.Sockets;
using System.Text;
using Millrace.Command;
using Millrace.Command.Serving;
using Millrace.Connector;
using Millrace.Listeners;
using Millrace.Platform;
using Millrace.Tests.Platform;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Command;

public sealed class PassedToClientTests : IDisposable
{
    private readonly SocketFolder _folder = new();
    private readonly SlowToClose _slow = new();
    private readonly Socket _listener = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);

    public PassedToClientTests()
    {
        _listener.Bind(new UnixDomainSocketEndPoint(Channel));
        _listener.Listen();
    }

    // As the channel of a process is named.
    private string Channel => _folder.PathOf("shop-1-1.channel");

    public void Dispose()
    {
        _slow.Dispose();
        _listener.Dispose();
        _folder.Dispose();
    }

    [Theory]
    [InlineData("the relay")]
    [InlineData("the pool of connections")]
    [InlineData("the other protocol")]
    [InlineData("the daemon")]
    [InlineData("the command")]
    public async Task Descriptors_are_refused_at_their_sender_whoever_has_connected_and_bytes_are_not(string who)
    {
        using IDisposable client = who switch
        {
            "the relay" => Relay(),
            "the pool of connections" => await ConnectionPool.ConnectAsync(new UnixDomainSocketEndPoint(Channel), SlowToClose.Soon, CancellationToken.None),
            "the other protocol" => await UpgradedRequest.ConnectAsync(new UnixDomainSocketEndPoint(Channel), SlowToClose.Soon, CancellationToken.None),
            "the daemon" => await PrivateSocket.ConnectAsync(Channel, CancellationToken.None),
            _ => await ServerAddress.Parse("http://unix:" + Channel).ConnectAsync(CancellationToken.None),
        };
        using Socket application = await _listener.AcceptAsync();
        Assert.Equal(!KernelCanRefuse, _slow.TrySend((int)application.Handle, "x"u8));
        Assert.Equal(1, application.Send([1]));
    }

    // As it is before Linux 6.16.
    [Fact]
    public async Task Where_they_cannot_be_refused_what_comes_with_them_is_no_answer_and_its_socket_is_closed_without_waiting_for_them()
    {
        var client = UnixSocket.NewTaking();
        await client.ConnectAsync(new UnixDomainSocketEndPoint(Channel));
        using Socket application = await _listener.AcceptAsync();
        Assert.True(_slow.TrySend((int)application.Handle, "ok\n"u8, count: 2));
        Assert.True(_slow.TrySend((int)application.Handle, "more"u8));

        int misused = 0;
        await Task.Run(async () =>
        {
            await using var stream = new WaryStream(client, () => misused++);
            await Assert.ThrowsAsync<IOException>(() => stream.ReadExactlyAsync(new byte[3]).AsTask());
        }).WaitAsync(SlowToClose.Soon);
        Assert.Equal(1, misused);       // whoever has sent them is not asked again
    }

    [Fact]
    public async Task A_wary_stream_reads_what_has_come_to_its_end()
    {
        var client = UnixSocket.NewTaking();
        await client.ConnectAsync(new UnixDomainSocketEndPoint(Channel));
        await using var stream = new WaryStream(client);
        using (Socket application = await _listener.AcceptAsync())
        {
            ValueTask<int> waiting = stream.ReadAsync(Memory<byte>.Empty);
            Assert.False(waiting.IsCompleted);
            application.Send("all of it"u8);
            Assert.Equal(0, await waiting);
        }

        using var reader = new StreamReader(stream);
        Assert.Equal("all of it", await reader.ReadToEndAsync());
    }

    // The next daemon asks for descriptors, and takes them: the application is this process.
    [Theory]
    [InlineData("! no\n", "it says: no")]
    [InlineData("ok\n", "what it has given is not what the daemon had")]
    public async Task A_daemon_that_takes_processes_over_waits_for_nothing_that_one_of_them_gives(string answer, string why)
    {
        var adoption = new Adoption(Path.GetDirectoryName(Channel)!, static _ => { });
        var asked = Task.Run(() => adoption.AskAsync(new ListenersState([], -1, -1), Instance));
        using Socket application = await _listener.AcceptAsync();
        _ = await application.ReceiveAsync(new byte[16]);
        for (int i = 0; i < 3; i++)
        {
            _ = _slow.TrySend((int)application.Handle, Encoding.ASCII.GetBytes(answer), count: 3);
        }

        Assert.Equal(why, await asked.WaitAsync(SlowToClose.Soon));
    }

    // Each process of an application gives the same, or says so: with the last end of a channel goes what waits in it.
    [Fact]
    public async Task Nor_for_what_a_second_process_gives_that_should_be_what_the_first_gave()
    {
        int[] channel = Pair();
        Assert.True(_slow.TrySend(channel[0], "x"u8));
        await Task.Run(() => Adoption.CloseSame([[channel[0], channel[1], -1, -1, -1, -1]])).WaitAsync(SlowToClose.Soon);
    }

    private static unsafe int[] Pair()
    {
        int* pair = stackalloc int[2];
        Assert.Equal(0, SystemCalls.SocketPair(SystemCalls.AF_UNIX, SystemCalls.SOCK_SEQPACKET | SystemCalls.SOCK_CLOEXEC, 0, pair));
        return [pair[0], pair[1]];
    }

    private static InstanceState Instance => new(
        "shop-1-1", Environment.ProcessId, StartTime: 0, DateTimeOffset.UtcNow, ServesSince: 0, new ListenerState("", -1, null), new ListenerState("", -1, null), Output: -1, Error: -1, new Dictionary<string, string>(), DescriptorsMost: 0, Groups: null);

    private Socket Relay()
    {
        int descriptor = default(LinuxKernel).Connect(SocketName.Write(Channel));
        Assert.InRange(descriptor, 0, int.MaxValue);
        return new Socket(new SafeSocketHandle(descriptor, ownsHandle: true));
    }

    private static bool KernelCanRefuse
    {
        get
        {
            using Socket socket = UnixSocket.NewTaking();
            return SystemCalls.GetSocketOption((int)socket.Handle, SystemCalls.SOL_SOCKET, SystemCalls.SO_PASSRIGHTS) >= 0;
        }
    }
}
