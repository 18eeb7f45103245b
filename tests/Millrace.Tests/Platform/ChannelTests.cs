// The channel through which connections move, as the kernel has it, and what another process may send through it.

using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using Millrace.Platform;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Platform;

public sealed unsafe class ChannelTests : IDisposable
{
    private const int SO_PASSCRED = 16;
    private const int SO_PASSPIDFD = 76;
    private const int LingerSeconds = 5;

    private readonly int _gives;
    private readonly int _takes;
    private readonly List<Socket> _sockets = [];

    public ChannelTests()
    {
        (_gives, _takes) = MoveChannel.New();
    }

    private static LinuxKernel Kernel => default;

    public void Dispose()
    {
        _ = SystemCalls.Close(_gives);
        _ = SystemCalls.Close(_takes);
        _sockets.ForEach(static socket => socket.Dispose());
    }

    [Fact]
    public void A_message_whose_descriptor_is_lost_is_not_the_end_of_the_others()
    {
        byte word = 1;
        Assert.Equal(1, SystemCalls.Write(_gives, &word, 1));
        int connection = Accepted();
        Assert.Equal(0, Kernel.Give(_gives, connection, [1, 2, 3]));

        Assert.Equal(KernelResult.Refused, Take(out _));
        int taken = Take(out byte[] knowledge);
        Assert.InRange(taken, 0, int.MaxValue);
        Assert.Equal([1, 2, 3], knowledge);
        Assert.Equal(KernelResult.Again, Take(out _));

        _ = SystemCalls.Close(taken);
        _ = SystemCalls.Close(connection);
        _ = SystemCalls.Shutdown(_gives, SystemCalls.SHUT_RDWR);
        Assert.Equal(KernelResult.Broken, Take(out _));
    }

    // SO_LINGER: the last close waits, for as long as whoever had the connection before has said, or says while he has it still.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Closing_a_connection_that_has_moved_waits_for_nobody(bool isSaidBefore)
    {
        int connection = Accepted();
        Fill(connection);
        if (isSaidBefore)
        {
            Linger(connection);
        }

        Assert.Equal(0, Kernel.Give(_gives, connection, [1]));
        int taken = Take(out _);
        if (!isSaidBefore)
        {
            Linger(connection);
        }

        _ = SystemCalls.Close(connection);
        long begun = Stopwatch.GetTimestamp();
        if (isSaidBefore)
        {
            _ = SystemCalls.Close(taken);
        }
        else
        {
            Kernel.Close(taken, reset: false);
        }

        Assert.InRange(Stopwatch.GetElapsedTime(begun), TimeSpan.Zero, TimeSpan.FromSeconds(LingerSeconds - 2));
    }

    // What is accepted has it of the listening socket, which may be somebody else's too.
    [Fact]
    public void Closing_a_connection_of_a_listener_that_lingers_waits_for_nobody()
    {
        int connection = Accepted(lingers: true);
        Fill(connection);
        long begun = Stopwatch.GetTimestamp();
        Kernel.Close(connection, reset: false);
        Assert.InRange(Stopwatch.GetElapsedTime(begun), TimeSpan.Zero, TimeSpan.FromSeconds(LingerSeconds - 2));
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(5)]
    public void What_is_no_connection_ends_the_channel_and_is_closed_however_many_come(int count)
    {
        using var pipe = new System.IO.Pipes.AnonymousPipeServerStream(System.IO.Pipes.PipeDirection.In);
        Send([.. Enumerable.Repeat((int)pipe.ClientSafePipeHandle.DangerousGetHandle(), count)]);
        pipe.DisposeLocalCopyOfClientHandle();
        Assert.Equal(KernelResult.Broken, Take(out _));
        Assert.Equal(-1, pipe.ReadByte());      // nobody can write to it any more
    }

    [Fact]
    public void Several_connections_in_one_message_end_the_channel_and_are_closed()
    {
        int first = Accepted();
        int second = Accepted();
        Send([first, second]);
        _ = SystemCalls.Close(first);
        _ = SystemCalls.Close(second);
        Assert.Equal(KernelResult.Broken, Take(out _));
        Assert.All(_sockets.Where(static socket => socket.Connected), static client => Assert.Equal(0, client.Receive(new byte[1])));
    }

    // Nobody here closes what has come with another: for as long as its sender has set.
    [Theory]
    [InlineData(2)]
    [InlineData(DescriptorPassing.Most)]
    public void Taking_waits_for_nothing_that_comes_in_a_message(int count)
    {
        int connection = Accepted();
        int slow = Accepted();
        Fill(slow);
        Linger(slow);
        int[] all = [connection, .. Enumerable.Range(0, count - 1).Select(_ => SystemCalls.Fcntl(slow, SystemCalls.F_DUPFD_CLOEXEC, 3))];
        Send(all);
        Array.ForEach([slow, .. all], static descriptor => _ = SystemCalls.Close(descriptor));
        long begun = Stopwatch.GetTimestamp();
        int result = Take(out _);
        Assert.InRange(Stopwatch.GetElapsedTime(begun), TimeSpan.Zero, TimeSpan.FromSeconds(LingerSeconds - 2));
        Assert.Equal(KernelResult.Broken, result);
    }

    // SO_PASSCRED, which the other process may set: it comes first.
    [Fact]
    public void A_connection_is_found_behind_what_else_comes_with_it()
    {
        Assert.Equal(0, SystemCalls.SetSocketOption(_takes, SystemCalls.SOL_SOCKET, SO_PASSCRED, 1));
        _ = SystemCalls.SetSocketOption(_takes, SystemCalls.SOL_SOCKET, SO_PASSPIDFD, 1);
        int before = PidFds();
        int connection = Accepted();
        Assert.Equal(0, Kernel.Give(_gives, connection, [7]));
        _ = SystemCalls.Close(connection);
        int taken = Take(out byte[] knowledge);
        Assert.True(ForeignDescriptor.IsConnection(taken));
        Assert.Equal([7], knowledge);
        Assert.Equal(before, PidFds());
        _ = SystemCalls.Close(taken);
    }

    [Fact]
    public void An_empty_message_with_a_connection_is_one()
    {
        int connection = Accepted();
        Assert.Equal(0, Kernel.Give(_gives, connection, []));
        _ = SystemCalls.Close(connection);
        int taken = Take(out byte[] knowledge);
        Assert.InRange(taken, 0, int.MaxValue);
        Assert.Empty(knowledge);
        _ = SystemCalls.Close(taken);
    }

    // From Linux 6.5 on; before, the option is refused and nothing comes.
    [Fact]
    public void A_descriptor_of_the_sender_is_closed_that_nobody_has_asked_for()
    {
        _ = SystemCalls.SetSocketOption(_takes, SystemCalls.SOL_SOCKET, SO_PASSPIDFD, 1);
        int before = PidFds();
        byte word = 1;
        Assert.Equal(1, SystemCalls.Write(_gives, &word, 1));
        Assert.Equal(KernelResult.Refused, Take(out _));
        Assert.Equal(before, PidFds());
    }

    [Fact]
    public void Connections_are_connected_stream_sockets_of_TCP_and_Unix()
    {
        int connection = Accepted();
        Assert.True(ForeignDescriptor.IsConnection(connection));
        _ = SystemCalls.Close(connection);
        Assert.False(ForeignDescriptor.IsConnection(_gives));
        Assert.False(ForeignDescriptor.IsConnection(-1));
        foreach (Socket socket in (Socket[])[Listen(), Kept(new Socket(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp)), Kept(new Socket(AddressFamily.Unix, SocketType.Dgram, ProtocolType.Unspecified))])
        {
            Assert.False(ForeignDescriptor.IsConnection((int)socket.Handle));
        }

        using FileStream file = File.OpenRead("/proc/self/stat");
        Assert.False(ForeignDescriptor.IsConnection((int)file.SafeFileHandle.DangerousGetHandle()));
        Poller poller = Kernel.OpenPoller();
        Assert.False(ForeignDescriptor.IsConnection(poller.Queue));
        Kernel.ClosePoller(poller);
    }

    // ---- what the tests share ----

    private int Take(out byte[] knowledge)
    {
        byte[] bytes = new byte[8];
        int taken = Kernel.Take(_takes, bytes, out int length, out int[] strange);
        ForeignDescriptor.Close(strange);
        knowledge = bytes[..length];
        return taken;
    }

    // One message with so many descriptors: a header, the numbers, and zeros up to a multiple of eight.
    private void Send(int[] descriptors)
    {
        byte word = 1;
        int length = 16 + (sizeof(int) * descriptors.Length);
        byte[] control = new byte[(length + 7) & ~7];
        BitConverter.TryWriteBytes(control, (long)length);
        BitConverter.TryWriteBytes(control.AsSpan(8), SystemCalls.SOL_SOCKET);
        BitConverter.TryWriteBytes(control.AsSpan(12), SystemCalls.SCM_RIGHTS);
        Buffer.BlockCopy(descriptors, 0, control, 16, length - 16);
        fixed (byte* at = control)
        {
            var vector = new SystemCalls.IoVector { Base = &word, Length = 1 };
            var message = new SystemCalls.MessageHeader { Vectors = &vector, VectorCount = 1, Control = at, ControlLength = control.Length };
            Assert.Equal(1, SystemCalls.SendMessage(_gives, &message, 0));
        }
    }

    // The server's end of a TCP connection.
    private int Accepted(bool lingers = false)
    {
        Socket listener = Listen();
        if (lingers)
        {
            Linger((int)listener.Handle);
        }

        Kept(new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)).Connect(listener.LocalEndPoint!);
        int accepted = Kernel.Accept((int)listener.Handle, isFirst: true, new byte[128], out _);
        Assert.InRange(accepted, 0, int.MaxValue);
        return accepted;
    }

    private Socket Listen()
    {
        Socket listener = Kept(new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp));
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen();
        return listener;
    }

    private static void Fill(int connection)
    {
        byte[] piece = new byte[1 << 20];
        while (Kernel.Send(connection, piece, more: false) > 0)
        {
        }
    }

    private static void Linger(int descriptor)
    {
        var linger = new SystemCalls.Linger { On = 1, Seconds = LingerSeconds };
        Assert.Equal(0, SystemCalls.SetSocketOption(descriptor, SystemCalls.SOL_SOCKET, SystemCalls.SO_LINGER, &linger, (uint)sizeof(SystemCalls.Linger)));
    }

    private static int PidFds() => Directory.GetFiles("/proc/self/fd").Count(static name => new FileInfo(name).LinkTarget is "anon_inode:[pidfd]" or "pidfd:[1]");

    private Socket Kept(Socket socket)
    {
        _sockets.Add(socket);
        return socket;
    }
}
