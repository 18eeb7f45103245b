// What another process may do to a socket that it shares with a server (one that is inherited, or a connection that has moved): flags of the open file
// description and options of the socket are both of theirs. A second descriptor of the same one stands for the other process here.

using System.Net;
using System.Net.Sockets;
using System.Text;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Faults;

public sealed class SharedSocketTests : IDisposable
{
    private const int PatienceMs = 10_000;

    private readonly SocketFolder _folder = new();
    private readonly List<Socket> _sockets = [];

    public void Dispose()
    {
        _sockets.ForEach(static socket => socket.Dispose());
        _folder.Dispose();
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_listener_that_another_process_makes_blocking_keeps_no_loop(bool unix)
    {
        Socket listener = Listen(unix);
        await using MillraceServer server = await StartAsync(listener);
        Socket kept = Connect(listener.LocalEndPoint!);
        await AskAsync(kept, "/first");
        for (int i = 0; i < 3; i++)
        {
            MakeBlocking((int)listener.Handle);
            await AskAsync(Connect(listener.LocalEndPoint!), "/new");
            await AskAsync(kept, "/kept");
        }
    }

    // Who waits in the queue is accepted once more at the end.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_listener_that_another_process_makes_blocking_does_not_keep_a_server_from_its_end(bool unix)
    {
        Socket listener = Listen(unix);
        await using MillraceServer server = await StartAsync(listener);
        await AskAsync(Connect(listener.LocalEndPoint!), "/first");
        MakeBlocking((int)listener.Handle);
        await server.StopAsync().WaitAsync(TimeSpan.FromSeconds(4));    // 5 s: a loop that does not end
    }

    [Fact]
    public async Task A_connection_that_has_moved_and_is_made_blocking_keeps_no_loop()
    {
        Socket listener = Listen(unix: true);
        await using MillraceServer server = await StartAsync(listener);
        (int gives, int takes) = MoveChannel.New();
        await server.Engine.TakeFromAsync(takes);
        Socket other = Connect(listener.LocalEndPoint!);
        await AskAsync(other, "/first");

        (Socket moved, int its) = TcpPair();
        Assert.Equal(0, new MovedConnection(ListenProtocol.Http1, IsTcp: true, Knowledge: 0, IdleUntilMs: 0, Peer: []).Give(default(LinuxKernel), gives, its));
        await AskAsync(moved, "/moved");
        MakeBlocking(its);
        await AskAsync(moved, "/moved");
        await AskAsync(other, "/other");

        MakeBlocking(its);
        await moved.SendAsync(Request("/large"));
        byte[] first = new byte[1];
        Assert.Equal(1, await moved.ReceiveAsync(first).WaitAsync(TimeSpan.FromMilliseconds(PatienceMs)));
        await AskAsync(other, "/other");        // while nobody reads the rest
        _ = SystemCalls.Close(its);
        _ = SystemCalls.Close(gives);
    }

    // socket(7), SO_LINGER: a loop that takes it for a Unix socket would close it as one, and wait for as long as whoever has it besides has said.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_connection_that_is_said_to_be_what_it_is_not_is_closed(bool isTcp)
    {
        Socket listener = Listen(unix: true);
        await using MillraceServer server = await StartAsync(listener);
        (int gives, int takes) = MoveChannel.New();
        await server.Engine.TakeFromAsync(takes);

        (Socket moved, int its) = Pair(unix: !isTcp);
        Assert.Equal(0, new MovedConnection(ListenProtocol.Http1, !isTcp, Knowledge: 0, IdleUntilMs: 0, Peer: []).Give(default(LinuxKernel), gives, its));
        _ = SystemCalls.Close(its);
        Assert.Equal(0, await moved.ReceiveAsync(new byte[1]).WaitAsync(TimeSpan.FromMilliseconds(PatienceMs)));
        await AskAsync(Connect(listener.LocalEndPoint!), "/other");
        _ = SystemCalls.Close(gives);
    }

    [Fact]
    public async Task No_call_on_a_socket_that_is_made_blocking_waits()
    {
        (Socket client, int its) = TcpPair();
        string file = _folder.PathOf("file");
        await File.WriteAllBytesAsync(file, new byte[1 << 20]);
        using var opened = File.OpenHandle(file);
        foreach (Func<int> call in new Func<int>[]
        {
            () => default(LinuxKernel).Receive(its, new byte[1]),
            () => default(LinuxKernel).Send(its, new byte[1 << 20], more: false),
            () => SendFile(its, (int)opened.DangerousGetHandle()),
        })
        {
            MakeBlocking(its);
            await Task.Run(() => SpinWait.SpinUntil(() => call() == KernelResult.Again)).WaitAsync(TimeSpan.FromMilliseconds(PatienceMs));
        }

        Assert.True(client.Connected);
        _ = SystemCalls.Close(its);
    }

    private static int SendFile(int descriptor, int file)
    {
        long offset = 0;
        return default(LinuxKernel).SendFile(descriptor, file, ref offset, 1 << 20);
    }

    // ---- what the tests share ----

    private static Task<MillraceServer> StartAsync(Socket listener)
    {
        int copy = SystemCalls.Fcntl((int)listener.Handle, SystemCalls.F_DUPFD_CLOEXEC, 3);
        return MillraceServer.StartAsync(
            $"http://fd:{copy}",
            static async (request, response) =>
            {
                if (request.Path == "/large")
                {
                    await response.WriteAsync(new byte[64 << 20]);
                    return;
                }

                response.WriteText(request.Path);
            },
            new MillraceOptions { Loops = 1, DrainTimeout = TimeSpan.FromSeconds(1) });
    }

    private Socket Listen(bool unix)
    {
        EndPoint at = unix ? new UnixDomainSocketEndPoint(_folder.PathOf($"listener{_sockets.Count}")) : new IPEndPoint(IPAddress.Loopback, 0);
        Socket listener = Kept(new Socket(at.AddressFamily, SocketType.Stream, ProtocolType.Unspecified));
        listener.Bind(at);
        listener.Listen(16);
        return listener;
    }

    private Socket Connect(EndPoint to)
    {
        Socket socket = Kept(new Socket(to.AddressFamily, SocketType.Stream, ProtocolType.Unspecified));
        socket.Connect(to);
        return socket;
    }

    // A client, and the descriptor of a server's end that has been accepted by somebody else.
    private (Socket Client, int Accepted) TcpPair() => Pair(unix: false);

    private (Socket Client, int Accepted) Pair(bool unix)
    {
        Socket listener = Listen(unix);
        Socket client = Connect(listener.LocalEndPoint!);
        using Socket accepted = listener.Accept();
        return (client, SystemCalls.Fcntl((int)accepted.Handle, SystemCalls.F_DUPFD_CLOEXEC, 3));
    }

    private static void MakeBlocking(int descriptor)
    {
        int flags = SystemCalls.Fcntl(descriptor, SystemCalls.F_GETFL, 0);
        Assert.Equal(0, SystemCalls.Fcntl(descriptor, SystemCalls.F_SETFL, flags & ~SystemCalls.O_NONBLOCK));
    }

    private static byte[] Request(string path) => Encoding.ASCII.GetBytes($"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");

    private static async Task AskAsync(Socket socket, string path)
    {
        await socket.SendAsync(Request(path));
        byte[] buffer = new byte[4096];
        int count = await socket.ReceiveAsync(buffer).WaitAsync(TimeSpan.FromMilliseconds(PatienceMs));
        Assert.EndsWith($"\r\n\r\n{path}", Encoding.ASCII.GetString(buffer, 0, count), StringComparison.Ordinal);
    }

    private Socket Kept(Socket socket)
    {
        _sockets.Add(socket);
        return socket;
    }
}
