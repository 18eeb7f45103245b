// How a server on real sockets stops listening: refused at once, nobody in the queue lost, and what was inherited goes on.

using System.Collections.Concurrent;
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using Microsoft.Extensions.Logging;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Stress;

[Collection(AloneCollection.Name)]
public sealed class DrainRaceTests : IDisposable
{
    private const int KeptRounds = 10;

    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Who_connects_during_the_drain_is_refused_at_once(bool unix)
    {
        using var entered = new SemaphoreSlim(0);
        var gate = new TaskCompletionSource();
        await using MillraceServer server = await MillraceServer.StartAsync(
            unix ? _folder.NewAddress() : "fastcgi://127.0.0.1:0",
            async (request, response) =>
            {
                entered.Release();
                await gate.Task;
                response.WriteText("whole");
            },
            new MillraceOptions { Loops = 2 });
        string address = server.Addresses[0];
        using FastCgiPeer busy = FastCgiPeer.Connect(address);
        busy.Send(new FastCgiRequest("/busy").ToBytes());
        Assert.True(await entered.WaitAsync(10_000));
        Task stopping = server.StopAsync();
        Assert.True(ProcessState.Becomes(() => IsRefused(address)));
        Assert.False(stopping.IsCompleted);
        gate.SetResult();
        Assert.Equal("whole", busy.Receive().Text);
        await stopping.WaitAsync(TimeSpan.FromSeconds(10));
    }

    [Fact]
    public async Task A_server_is_stopped_and_disposed_of_as_often_as_anybody_likes()
    {
        MillraceServer server = await MillraceServer.StartAsync(_folder.NewAddress(), static (_, response) => response.WriteText("whole"), new MillraceOptions { Loops = 2 });
        await Task.WhenAll(Enumerable.Range(0, 20).Select(i => Task.Run(() => i % 2 == 0 ? server.StopAsync() : server.DisposeAsync().AsTask()))).WaitAsync(TimeSpan.FromSeconds(20));
        await server.DisposeAsync();
        await server.StopAsync();
        await server.DisposeAsync();
    }

    // The message that connections are cut is said on the thread of whoever stops the server.
    [Fact]
    public async Task A_logger_that_stops_the_server_begins_no_second_stop()
    {
        using var entered = new SemaphoreSlim(0);
        var logger = new StoppingLogger();
        MillraceServer server = await MillraceServer.StartAsync(
            _folder.NewAddress(),
            async (request, _) =>
            {
                entered.Release();
                await Task.Delay(Timeout.Infinite, request.Aborted).ContinueWith(static _ => { }, TaskScheduler.Default);
            },
            new MillraceOptions { Loops = 1, DrainTimeout = TimeSpan.Zero },
            logger);
        using FastCgiPeer busy = FastCgiPeer.Connect(server.Addresses[0]);
        busy.Send(new FastCgiRequest("/busy").ToBytes());
        Assert.True(await entered.WaitAsync(10_000));
        logger.Stop = () => server.StopAsync();
        await server.StopAsync().WaitAsync(TimeSpan.FromSeconds(20));
        Assert.Equal([9, 14], logger.Events);
        Assert.NotNull(logger.Stopped);
        await logger.Stopped.WaitAsync(TimeSpan.FromSeconds(20));
    }

    private sealed class StoppingLogger : ILogger
    {
        private readonly ConcurrentQueue<int> _events = new();

        public Func<Task>? Stop { get; set; }

        public Task? Stopped { get; private set; }

        public IEnumerable<int> Events => _events.Where(static id => id is 9 or 14);

        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => true;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
        {
            _events.Enqueue(eventId.Id);
            if (eventId.Id == 9 && Stopped is null)
            {
                Stopped = Task.CompletedTask;       // it is called again from within
                Stopped = Stop!();
            }
        }
    }

    // Over TCP a client may have to wait for a second before it is refused.
    [Theory]
    [InlineData("", 10)]
    [InlineData("fastcgi://127.0.0.1:0", 4)]
    [InlineData("fastcgi://[::1]:0", 4)]
    public async Task Nobody_who_could_connect_goes_without_an_answer(string tcp, int rounds)
    {
        for (int round = 0; round < rounds; round++)
        {
            MillraceServer server = await MillraceServer.StartAsync(
                tcp.Length > 0 ? tcp : _folder.NewAddress(), static (request, response) => response.WriteText(request.Path), new MillraceOptions { Loops = 2 });
            string address = server.Addresses[0];
            var lost = new ConcurrentQueue<string>();
            int answered = 0;
            using var started = new CountdownEvent(4);
            Thread[] clients = [.. Enumerable.Range(0, 4).Select(_ => new Thread(() => ConnectUntilRefused(address, started, ref answered, lost)))];
            Array.ForEach(clients, static client => client.Start());
            Assert.True(started.Wait(10_000));
            await server.StopAsync().WaitAsync(TimeSpan.FromSeconds(20));
            Assert.All(clients, static client => Assert.True(client.Join(10_000)));
            Assert.Empty(lost);
            Assert.True(answered >= 4);
            await server.DisposeAsync();
        }
    }

    // A web server sends its requests on the connections it has kept. What was sent without an error is answered; what fails to be sent it sends elsewhere.
    [Theory]
    [InlineData("fastcgi", false)]
    [InlineData("fastcgi", true)]
    [InlineData("http", false)]
    [InlineData("http", true)]
    public async Task No_request_is_lost_that_could_be_sent_on_a_kept_connection_of_a_Unix_socket(string scheme, bool asynchronous)
    {
        var lost = new ConcurrentQueue<string>();
        int answered = 0;
        int failed = 0;
        for (int round = 0; round < KeptRounds; round++)
        {
            await using MillraceServer server = await MillraceServer.StartAsync(
                _folder.NewAddress(scheme),
                async (request, response) =>
                {
                    if (asynchronous)
                    {
                        await Task.Yield();
                    }

                    response.WriteText(request.Path);
                },
                new MillraceOptions { Loops = 2 });
            string path = server.Addresses[0].Split("unix:")[1].Split('?')[0];
            using var started = new CountdownEvent(8);
            ClientThreads clients = ClientThreads.Start(8, i =>
            {
                var random = new Random((round * 8) + i);
                using var peer = new KeptPeer(path, scheme == "http");
                for (int asked = 0; ; asked++)
                {
                    switch (peer.Ask($"/{round}/{i}/{asked}"))
                    {
                        case KeptPeer.Answer.Whole:
                            Interlocked.Increment(ref answered);
                            break;
                        case KeptPeer.Answer.NotSent:
                            Interlocked.Increment(ref failed);
                            return;
                        case KeptPeer.Answer.ToldOfEnd:
                            return;
                        default:
                            lost.Enqueue($"round {round}, client {i}, request {asked}: {peer.Fault}");
                            return;
                    }

                    if (asked == 20)
                    {
                        started.Signal();
                    }

                    // Half of them ask at once, the others when the server is about to find that they are quiet.
                    if (i % 2 == 0 && asked > 20)
                    {
                        Thread.Sleep(random.Next(230, 330));
                    }
                }
            });
            Assert.True(started.Wait(20_000));
            await server.StopAsync().WaitAsync(TimeSpan.FromSeconds(20));
            clients.Join();
        }

        Assert.Empty(lost);
        Assert.True(answered > 0 && failed > 0);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task An_inherited_socket_goes_on_listening_for_the_next_process(bool unix)
    {
        using var parent = unix ? new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified) : new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        EndPoint place = unix ? new UnixDomainSocketEndPoint(_folder.PathOf("inherited.sock")) : new IPEndPoint(IPAddress.Loopback, 0);
        parent.Bind(place);
        parent.Listen();
        int passed = SystemCalls.Fcntl((int)parent.SafeHandle.DangerousGetHandle(), SystemCalls.F_DUPFD_CLOEXEC, 600);
        string listener = new FileInfo(SystemCalls.PathOf(passed)).LinkTarget!;
        await using MillraceServer server = await MillraceServer.StartAsync(
            string.Create(CultureInfo.InvariantCulture, $"fastcgi://fd:{passed}"), static (request, response) => response.WriteText("first"), new MillraceOptions { Loops = 2 });
        string address = unix ? $"fastcgi://unix:{_folder.PathOf("inherited.sock")}" : $"fastcgi://{parent.LocalEndPoint}";
        using (FastCgiPeer peer = FastCgiPeer.Connect(address))
        {
            Assert.Equal("first", peer.Exchange(new FastCgiRequest("/")).Text);
        }

        await server.StopAsync();
        using FastCgiPeer next = FastCgiPeer.Connect(address);
        using Socket accepted = await parent.AcceptAsync().WaitAsync(TimeSpan.FromSeconds(10));
        Assert.Equal(5, await accepted.SendAsync("hello"u8.ToArray()));
        Assert.NotEqual(listener, new FileInfo(SystemCalls.PathOf(passed)).LinkTarget);      // the number may be another's by now
    }

    // Such a socket is readable for ever, and gives nobody.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task An_inherited_socket_that_another_process_shuts_down_is_spoken_of_and_keeps_no_loop_busy(bool unix)
    {
        using var parent = unix ? new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified) : new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        parent.Bind(unix ? new UnixDomainSocketEndPoint(_folder.PathOf("inherited.sock")) : new IPEndPoint(IPAddress.Loopback, 0));
        parent.Listen();
        int passed = SystemCalls.Fcntl((int)parent.SafeHandle.DangerousGetHandle(), SystemCalls.F_DUPFD_CLOEXEC, 600);
        using var log = new Hosting.CollectedLog();
        await using MillraceServer server = await MillraceServer.StartAsync(
            string.Create(CultureInfo.InvariantCulture, $"fastcgi://fd:{passed}"), static (request, response) => response.WriteText("served"), new MillraceOptions { Loops = 2 }, log.CreateLogger("Millrace"));
        using FastCgiPeer kept = FastCgiPeer.Connect(unix ? $"fastcgi://unix:{_folder.PathOf("inherited.sock")}" : $"fastcgi://{parent.LocalEndPoint}");
        Assert.Equal("served", kept.Exchange(new FastCgiRequest("/")).Text);

        _ = SystemCalls.Shutdown(passed, SystemCalls.SHUT_RDWR);

        Assert.True(ProcessState.Becomes(() => log.Lines.Any(static line => line.Contains("The system accepts nobody on", StringComparison.Ordinal))), "nothing is said");
        long begun = Environment.TickCount64;
        long turns = server.Engine.Loops.Sum(static loop => loop.Turns);
        for (int i = 0; i < 20; i++)
        {
            Assert.Equal("served", kept.Exchange(new FastCgiRequest("/")).Text);
            await Task.Delay(20);
        }

        long most = 20 * ((Environment.TickCount64 - begun) / 100 + 20);     // two loops, ten looks a second each, and what the requests take
        Assert.InRange(server.Engine.Loops.Sum(static loop => loop.Turns) - turns, 1, most);
        Assert.Single(log.Lines, static line => line.Contains("accepts nobody", StringComparison.Ordinal));
    }

    [Fact]
    public async Task A_client_of_an_inherited_TCP_socket_has_an_address()
    {
        using var parent = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        parent.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        parent.Listen();
        int passed = SystemCalls.Fcntl((int)parent.SafeHandle.DangerousGetHandle(), SystemCalls.F_DUPFD_CLOEXEC, 600);
        await using MillraceServer server = await MillraceServer.StartAsync(
            string.Create(CultureInfo.InvariantCulture, $"http://fd:{passed}"), static (request, response) => response.WriteText($"{request.RemoteAddress} {request.RemotePort}"));
        using var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        await client.ConnectAsync(parent.LocalEndPoint!);
        await client.SendAsync("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"u8.ToArray());
        using var reader = new StreamReader(new NetworkStream(client));
        string answer = await reader.ReadToEndAsync().WaitAsync(TimeSpan.FromSeconds(10));
        Assert.EndsWith($"\r\n\r\n127.0.0.1 {((IPEndPoint)client.LocalEndPoint!).Port}", answer, StringComparison.Ordinal);
    }

    private static bool IsRefused(string address)
    {
        try
        {
            FastCgiPeer.Connect(address).Dispose();
            return false;
        }
        catch (SocketException)
        {
            return true;
        }
    }

    private static void ConnectUntilRefused(string address, CountdownEvent started, ref int answered, ConcurrentQueue<string> lost)
    {
        bool first = true;
        while (true)
        {
            FastCgiPeer peer;
            try
            {
                peer = FastCgiPeer.Connect(address);
            }
            catch (SocketException)
            {
                return;
            }

            using (peer)
            {
                long sending = Stopwatch.GetTimestamp();
                FastCgiResponse? response = null;
                string? failure = null;
                try
                {
                    response = peer.Exchange(new FastCgiRequest("/here") { KeepConnection = false });
                }
                catch (SocketException error)
                {
                    failure = error.Message;
                }

                if (response is { IsWhole: true })
                {
                    Interlocked.Increment(ref answered);
                }
                else if (Stopwatch.GetElapsedTime(sending) < TimeSpan.FromMilliseconds(200))
                {
                    lost.Enqueue(failure ?? $"{response}");     // a client that was held up for longer may have been taken for a silent one
                }
            }

            if (first)
            {
                first = false;
                started.Signal();
            }
        }
    }
}
