// Who waits in the queue of an application's listening socket, and was told to a process that has ended before it accepted him: the daemon passes him on.

using System.Net.Sockets;
using Millrace.Command.Serving;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Command;

[Collection(AloneCollection.Name)]
public sealed class PassedOnTests : IDisposable
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(20);

    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    private AppListeners Open(string parameters = "") => AppListeners.Open(
        new AppSettings { Name = "app", Target = "", Urls = [_folder.NewAddress("http") + parameters] }, new DaemonFolders(new DaemonPlaces(_folder.PathOf("control.sock"), _folder.PathOf("code"))));

    private static async Task<Socket> AskAsync(AppListeners listeners)
    {
        var client = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified) { ReceiveTimeout = 20_000 };
        await client.ConnectAsync(new UnixDomainSocketEndPoint(listeners.Shown[0].Split("unix:")[1]));
        await client.SendAsync("GET / HTTP/1.1\r\nHost: a\r\n\r\n"u8.ToArray());
        return client;
    }

    // The server takes connections, and has not been told of the queue: as one whose neighbour was, and has crashed.
    [Fact]
    public async Task Who_waits_in_a_queue_is_given_to_whoever_takes_connections()
    {
        using AppListeners listeners = Open();
        using Socket waiting = await AskAsync(listeners);
        using Socket another = await AskAsync(listeners);
        await using MillraceServer server = await MillraceServer.StartAsync(_folder.NewAddress("http"), static (_, response) => response.WriteText("served"), new MillraceOptions { Loops = 1, IgnoreSignals = false });
        await server.Engine.TakeFromAsync(listeners.CopyOfTakes());
        Assert.Equal(0, waiting.Available);
        await listeners.PassOnAsync();
        foreach (Socket client in (Socket[])[waiting, another])
        {
            byte[] answer = new byte[1_000];
            int length = client.Receive(answer);
            Assert.EndsWith("served", System.Text.Encoding.ASCII.GetString(answer, 0, length), StringComparison.Ordinal);
        }
    }

    [Fact]
    public async Task Nothing_is_passed_on_when_the_sockets_have_been_closed()
    {
        AppListeners listeners = Open();
        listeners.Dispose();
        await listeners.PassOnAsync();
    }

    // Whether accept(2) waits is a flag of the socket (O_NONBLOCK), which processes of the application share.
    [Fact]
    public async Task A_process_that_has_accept_wait_holds_nobody_up()
    {
        AppListeners listeners = Open();
        using var end = new CancellationTokenSource();
        Thread spoiling = Spoil(listeners, end.Token);
        long longest = 0;
        for (long begun = Environment.TickCount64; longest < 1_000 && Environment.TickCount64 - begun < 20_000;)
        {
            long at = Environment.TickCount64;
            await Task.Run(listeners.PassOnAsync, CancellationToken.None).WaitAsync(s_patience, CancellationToken.None);
            longest = Math.Max(longest, Environment.TickCount64 - at);
        }
        await Task.Run(listeners.PauseAsync, CancellationToken.None).WaitAsync(s_patience, CancellationToken.None);
        await Task.Run(listeners.Dispose, CancellationToken.None).WaitAsync(s_patience, CancellationToken.None);
        await end.CancelAsync();
        spoiling.Join();
    }

    // They are open in the daemon, which has none to lose: anybody may connect as often as he likes, and a process of the application may give it as many, and say of them what it likes.
    [Theory]
    [InlineData("", false)]
    [InlineData("?gate=off", false)]
    [InlineData("", true)]
    public async Task What_answers_503_has_so_many_connections_and_closes_those_beyond(string parameters, bool areGiven)
    {
        if (!OperatingSystem.IsLinux() || Millrace.Command.Running.Posix.DescriptorsMost() < 4 * HeldResponder.ConnectionsMax)
        {
            return;
        }

        using AppListeners listeners = Open(parameters);
        HeldResponder held = (await HeldResponder.StartAsync(listeners))!;
        int gives = listeners.CopyOfGives();
        byte[] answer = new byte[1_000];
        var clients = new List<Socket>();
        while (clients.Count < HeldResponder.ConnectionsMax)
        {
            clients.Add(areGiven ? await AskGivenAsync(gives) : await AskAsync(listeners));
            Assert.StartsWith("HTTP/1.1 503 ", System.Text.Encoding.ASCII.GetString(answer, 0, clients[^1].Receive(answer)), StringComparison.Ordinal);
        }
        using (Socket beyond = areGiven ? await AskGivenAsync(gives) : await AskAsync(listeners))
        {
            try
            {
                Assert.Equal(0, beyond.Receive(answer));
            }
            catch (SocketException error)
            {
                Assert.Equal(SocketError.ConnectionReset, error.SocketErrorCode);       // before its request was read
            }
        }
        clients.ForEach(static client => client.Dispose());
        _ = SystemCalls.Close(gives);
        await (await held.EndAsync(listeners)).WaitAsync(s_patience);
    }

    private static async Task<Socket> AskGivenAsync(int gives)
    {
        (int its, int given) = Pair();
        var client = new Socket(new SafeSocketHandle(its, ownsHandle: true)) { ReceiveTimeout = 20_000 };
        await client.SendAsync("GET / HTTP/1.1\r\nHost: a\r\n\r\n"u8.ToArray());
        Assert.Equal(0, new MovedConnection(ListenProtocol.Http1, IsTcp: false, Knowledge: 0, IdleUntilMs: 0, Peer: []) { IsUncounted = true }.Give(default(LinuxKernel), gives, given));
        _ = SystemCalls.Close(given);
        return client;
    }

    private static unsafe (int, int) Pair()
    {
        int* pair = stackalloc int[2];
        Assert.Equal(0, SystemCalls.SocketPair(SystemCalls.AF_UNIX, SystemCalls.SOCK_STREAM | SystemCalls.SOCK_CLOEXEC, 0, pair));
        return (pair[0], pair[1]);
    }

    [Fact]
    public async Task Nor_does_it_hold_up_the_end_of_what_answers_503()
    {
        using AppListeners listeners = Open();
        HeldResponder held = (await HeldResponder.StartAsync(listeners))!;
        using var end = new CancellationTokenSource();
        Thread spoiling = Spoil(listeners, end.Token);
        byte[] answer = new byte[1_000];
        bool isHeldUp = false;
        for (long begun = Environment.TickCount64; !isHeldUp && Environment.TickCount64 - begun < 15_000;)
        {
            using Socket client = await AskAsync(listeners);
            client.ReceiveTimeout = 1_000;
            try
            {
                _ = client.Receive(answer);
            }
            catch (SocketException)
            {
                isHeldUp = true;
            }
        }
        Task left = await held.EndAsync(listeners).WaitAsync(s_patience, CancellationToken.None);
        await end.CancelAsync();
        spoiling.Join();

        // What still waits goes with the addresses.
        await Task.Run(listeners.Dispose, CancellationToken.None).WaitAsync(s_patience, CancellationToken.None);
        await left.WaitAsync(s_patience, CancellationToken.None);
    }

    private static Thread Spoil(AppListeners listeners, CancellationToken end)
    {
        int descriptor = AppListeners.Copy(listeners.Listening.Single());
        var thread = new Thread(() =>
        {
            while (!end.IsCancellationRequested)
            {
                for (int i = 0; i < 1_000; i++)
                {
                    _ = SystemCalls.Fcntl(descriptor, SystemCalls.F_SETFL, 2);      // O_RDWR and nothing else
                }
            }
            _ = SystemCalls.Close(descriptor);
        });
        thread.Start();
        return thread;
    }
}
