// TCP on loopback: one socket per loop, ports that are chosen and ports that are taken.

using System.Globalization;
using System.Net;
using System.Net.Sockets;
using Microsoft.Win32.SafeHandles;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Listeners;

public sealed unsafe class TcpListenerTests
{
    [Theory]
    [InlineData("fastcgi://127.0.0.1:0", "127.0.0.1")]
    [InlineData("http://[::1]:0", "::1")]
    public void Each_loop_has_its_own_socket_on_the_chosen_port(string text, string address)
    {
        using var opened = new OpenedSockets(ListenSockets.Open(ListenAddress.Parse(text), 3));
        int port = opened.Port;
        Assert.Equal([0, 1, 2], opened.Select(socket => socket.Loop));
        Assert.NotEqual(0, port);
        Assert.All(opened, socket =>
        {
            Assert.False(socket.IsShared);
            Assert.Equal(port, socket.Address.Port);
            Assert.Equal(new SocketName(IPAddress.Parse(address), port, null), socket.Name);
        });
        Assert.EndsWith(port.ToString(CultureInfo.InvariantCulture), opened[0].Address.Url, StringComparison.Ordinal);
    }

    [Fact]
    public void Connections_reach_every_loop()
    {
        using var opened = new OpenedSockets(ListenSockets.Open(ListenAddress.Parse("http://127.0.0.1:0"), 2));
        Socket[] clients = [.. Enumerable.Range(0, 64).Select(_ => Connect(IPAddress.Loopback, opened.Port))];
        int[] accepted = [.. opened.Select(socket => AcceptAll(socket.Descriptor))];
        Assert.Equal(64, accepted.Sum());
        Assert.All(accepted, count => Assert.InRange(count, 1, 63));
        Array.ForEach(clients, client => client.Dispose());
    }

    [Fact]
    public void Sockets_do_not_block_and_do_not_leak_into_children()
    {
        using var opened = new OpenedSockets(ListenSockets.Open(ListenAddress.Parse("http://127.0.0.1:0"), 2));
        Assert.All(opened, socket =>
        {
            Assert.Equal(SystemCalls.FD_CLOEXEC, SystemCalls.Fcntl(socket.Descriptor, SystemCalls.F_GETFD, 0));
            Assert.Equal(SystemCalls.O_NONBLOCK, SystemCalls.Fcntl(socket.Descriptor, SystemCalls.F_GETFL, 0) & SystemCalls.O_NONBLOCK);
        });
    }

    [Fact]
    public void Accepted_sockets_have_no_delay_without_asking()
    {
        using var opened = new OpenedSockets(ListenSockets.Open(ListenAddress.Parse("http://127.0.0.1:0"), 1));
        using Socket client = Connect(IPAddress.Loopback, opened.Port);
        int accepted = SystemCalls.Accept(opened[0].Descriptor, null, null, SystemCalls.SOCK_CLOEXEC);
        Assert.True(accepted >= 0);
        Assert.NotEqual(0, SystemCalls.GetSocketOption(accepted, SystemCalls.IPPROTO_TCP, SystemCalls.TCP_NODELAY));
        _ = SystemCalls.Close(accepted);
    }

    // A client's system asks again after a second (RFC 6298, section 2.1); until then its connection is neither made nor refused.
    [Theory]
    [InlineData("http://127.0.0.1:0", "127.0.0.1")]
    [InlineData("http://[::1]:0", "::1")]
    public void Who_is_held_off_is_refused_once_the_socket_is_closed_and_who_came_before_is_accepted(string text, string place)
    {
        using var opened = new OpenedSockets(ListenSockets.Open(ListenAddress.Parse(text), 1));
        var address = IPAddress.Parse(place);
        using Socket before = Connect(address, opened.Port);
        Assert.True(opened[0].HoldOff());
        using var after = new Socket(address.AddressFamily, SocketType.Stream, ProtocolType.Tcp) { Blocking = false };
        Assert.Equal(SocketError.WouldBlock, Assert.Throws<SocketException>(() => after.Connect(address, opened.Port)).SocketErrorCode);
        using var accepted = new Socket(new SafeSocketHandle(SystemCalls.Accept(opened[0].Descriptor, null, null, SystemCalls.SOCK_CLOEXEC), ownsHandle: true));
        Assert.Equal(2, before.Send("hi"u8));
        Assert.Equal(2, accepted.Receive(new byte[2]));
        Assert.Equal(0, AcceptAll(opened[0].Descriptor));
        Assert.False(after.Poll(TimeSpan.FromMilliseconds(50), SelectMode.SelectWrite));
        opened[0].Dispose();
        Assert.True(after.Poll(TimeSpan.FromSeconds(30), SelectMode.SelectWrite));
        Assert.Equal(SystemCalls.ECONNREFUSED, SystemCalls.GetSocketOption((int)after.SafeHandle.DangerousGetHandle(), SystemCalls.SOL_SOCKET, SystemCalls.SO_ERROR));
    }

    [Fact]
    public void Localhost_is_one_port_on_both_families()
    {
        using var opened = new OpenedSockets(ListenSockets.Open(ListenAddress.Parse("http://localhost:0"), 2));
        Assert.All(opened, socket => Assert.Equal(opened.Port, socket.Address.Port));
        Assert.Equal(2, opened.Count(socket => socket.Name.Address!.Equals(IPAddress.Loopback)));
        Assert.Equal(Socket.OSSupportsIPv6 ? 2 : 0, opened.Count(socket => socket.Name.Address!.Equals(IPAddress.IPv6Loopback)));
        Assert.Equal($"http://localhost:{opened.Port}", opened[0].Address.Url);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    public void Port_of_a_running_server_is_refused_with_its_owner(int loops)
    {
        // The same user, and SO_REUSEPORT on both sides: the kernel alone would let them share.
        using var opened = new OpenedSockets(ListenSockets.Open(ListenAddress.Parse("http://127.0.0.1:0"), 2));
        var refusal = Assert.Throws<MillraceStartException>(() => ListenSockets.Open(opened[0].Address, loops));
        Assert.Equal($"127.0.0.1:{opened.Port} is in use by this process already: the address is given twice, or another server of this process has it; leave one out or choose another port.", refusal.Message);
    }

    [Fact]
    public void Port_taken_by_a_socket_that_only_bound_is_refused()
    {
        // Without SO_REUSEADDR, which Socket.Bind would set.
        int holder = SystemCalls.Socket(SystemCalls.AF_INET, SystemCalls.SOCK_STREAM | SystemCalls.SOCK_CLOEXEC, 0);
        byte[] anyPort = SocketName.Write(IPAddress.Loopback, 0);
        fixed (byte* bytes = anyPort)
        {
            Assert.Equal(0, SystemCalls.Bind(holder, bytes, (uint)anyPort.Length));
        }

        int port = SocketName.Of(holder)!.Value.Port;
        var refusal = Assert.Throws<MillraceStartException>(() => ListenSockets.Open(ListenAddress.Parse($"http://127.0.0.1:{port}"), 2));
        Assert.Contains("choose another port", refusal.Message, StringComparison.Ordinal);
        _ = SystemCalls.Close(holder);
    }

    [Fact]
    public void Localhost_with_one_family_taken_opens_neither()
    {
        using Socket holder = Listen(IPAddress.IPv6Loopback);
        int port = ((IPEndPoint)holder.LocalEndPoint!).Port;
        var refusal = Assert.Throws<MillraceStartException>(() => ListenSockets.Open(ListenAddress.Parse($"http://localhost:{port}"), 2));
        Assert.Contains($"[::1]:{port} is in use", refusal.Message, StringComparison.Ordinal);
        Assert.Throws<SocketException>(() => Connect(IPAddress.Loopback, port).Dispose());
    }

    [Fact]
    public void Port_is_free_again_after_dispose_even_with_connections_in_time_wait()
    {
        ListenAddress address;
        using (var opened = new OpenedSockets(ListenSockets.Open(ListenAddress.Parse("http://127.0.0.1:0"), 1)))
        {
            address = opened[0].Address;
            using Socket client = Connect(IPAddress.Loopback, opened.Port);
            int accepted = SystemCalls.Accept(opened[0].Descriptor, null, null, 0);
            _ = SystemCalls.Close(accepted); // this end closes first: it is the one that waits
            _ = client.Receive(new byte[1]);
        }

        using var again = new OpenedSockets(ListenSockets.Open(address, 2));
        Assert.Equal(address.Port, again.Port);
    }

    [Fact]
    public void Dispose_twice_closes_once()
    {
        ListenSocket socket = ListenSockets.Open(ListenAddress.Parse("http://127.0.0.1:0"), 1)[0];
        socket.Dispose();
        Assert.Equal(-1, socket.Descriptor);
        socket.Dispose();
        Assert.Equal(-1, socket.Descriptor);
        Assert.Throws<SocketException>(() => Connect(IPAddress.Loopback, socket.Address.Port).Dispose());
    }

    [Fact]
    public void Address_of_another_machine_is_refused_with_a_cure()
    {
        // 192.0.2.0/24 is for documentation (RFC 5737): no machine has it.
        var refusal = Assert.Throws<MillraceStartException>(() => ListenSockets.Open(ListenAddress.Parse("http://192.0.2.1:0"), 1));
        Assert.Contains("192.0.2.1 is not an address of this machine", refusal.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Loops_and_backlog_are_at_least_one()
    {
        var address = ListenAddress.Parse("http://127.0.0.1:0");
        Assert.Throws<ArgumentOutOfRangeException>(() => ListenSockets.Open(address, 0));
        Assert.Throws<ArgumentOutOfRangeException>(() => ListenSockets.Open(address, 1, 0));
    }

    // gVisor: whether a port is shared is decided when it is bound.
    public static TheoryData<string, string> KernelsThatCannotShareLater => new()
    {
        { "http://127.0.0.1:0", "the option fails" },
        { "http://127.0.0.1:0", "the option has no effect" },
        { "http://[::1]:0", "the option fails" },
        { "http://*:0", "the option has no effect" },
    };

    [Theory]
    [MemberData(nameof(KernelsThatCannotShareLater))]
    public void Where_a_bound_port_cannot_be_shared_all_loops_wait_on_one_socket(string text, string kernel)
    {
        using var opened = new OpenedSockets(TcpListeners.Open(ListenAddress.Parse(text), 2, 16, _ => kernel == "the option has no effect"));
        ListenSocket socket = Assert.Single(opened);
        Assert.True(socket.IsShared);
        Assert.NotEqual(0, socket.Address.Port);
        Assert.Equal(socket.Name.Port, socket.Address.Port);
        using Socket client = Connect(text.Contains('[', StringComparison.Ordinal) ? IPAddress.IPv6Loopback : IPAddress.Loopback, opened.Port);
        Assert.Equal(1, AcceptAll(socket.Descriptor));
        Assert.Throws<MillraceStartException>(() => ListenSockets.Open(socket.Address, 2));
    }

    [Fact]
    public void Where_a_bound_port_cannot_be_shared_localhost_has_one_socket_for_each_family()
    {
        using var opened = new OpenedSockets(TcpListeners.Open(ListenAddress.Parse("http://localhost:0"), 3, 16, static _ => false));
        Assert.All(opened, static socket => Assert.True(socket.IsShared));
        Assert.Equal(Socket.OSSupportsIPv6 ? 2 : 1, opened.Count);
    }

    [Fact]
    public void One_loop_shares_with_nobody_on_any_kernel()
    {
        using var opened = new OpenedSockets(TcpListeners.Open(ListenAddress.Parse("http://127.0.0.1:0"), 1, 16, static _ => false));
        Assert.Equal(0, Assert.Single(opened).Loop);
    }

    [Fact]
    public void Any_other_failure_of_a_socket_that_joins_is_a_refusal_and_no_reason_to_share()
    {
        int asked = 0;
        var refusal = Assert.Throws<MillraceStartException>(() => TcpListeners.Open(
            ListenAddress.Parse("http://127.0.0.1:0"), 2, 16, _ => ++asked == 1 || SystemCalls.Close(-1) == 0));
        Assert.Contains("EBADF", refusal.Message, StringComparison.Ordinal);
        Assert.Equal(2, asked);
    }

    private static Socket Connect(IPAddress address, int port)
    {
        var client = new Socket(address.AddressFamily, SocketType.Stream, ProtocolType.Tcp);
        client.Connect(address, port);
        return client;
    }

    private static Socket Listen(IPAddress address)
    {
        var listener = new Socket(address.AddressFamily, SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(address, 0));
        listener.Listen();
        return listener;
    }

    private static int AcceptAll(int descriptor)
    {
        int count = 0;
        for (int accepted; (accepted = SystemCalls.Accept(descriptor, null, null, SystemCalls.SOCK_CLOEXEC)) >= 0; count++)
        {
            _ = SystemCalls.Close(accepted);
        }

        Assert.Equal(SystemCalls.EAGAIN, SystemCalls.Errno);
        return count;
    }
}
