// The end-to-end list: many requests, handlers that block, and an application that is stopped under load.
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using Millrace.Interop.Apps;
using Millrace.Interop.Client;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop;

public abstract partial class EndToEndList
{
    /// <summary>How many kept connections may carry what one client asks one after the other.</summary>
    protected virtual int KeptConnectionsMax => 1;

    [Fact]
    public virtual async Task Ten_thousand_requests_over_one_connection_each_get_their_own_answer()
    {
        const int Requests = 10_000;
        var upstreamConnections = new HashSet<string>(StringComparer.Ordinal);
        using WireClient client = await ConnectAsync();
        for (int id = 0; id < Requests; id++)
        {
            upstreamConnections.Add(await AssertIdEchoedAsync(client, id.ToString(CultureInfo.InvariantCulture)));
        }

        // The front end asked over one connection, or over a new one each time: as the combination says.
        Assert.InRange(upstreamConnections.Count, IsKeptAlive ? 1 : Requests, IsKeptAlive ? KeptConnectionsMax : Requests);
    }

    [Fact]
    public virtual async Task Parallel_clients_each_get_their_own_answers_and_bodies()
    {
        const int Clients = 24;
        const int RequestsPerClient = 150;
        await Task.WhenAll(Enumerable.Range(0, Clients).Select(async number =>
        {
            var random = new Random(number);
            for (int i = 0; i < RequestsPerClient;)
            {
                int onThisConnection = 0;
                try
                {
                    using WireClient client = await ConnectAsync();
                    for (; i < RequestsPerClient; i++)
                    {
                        _ = await AssertIdEchoedAsync(client, $"{number}-{i}");
                        onThisConnection++;
                        int size = random.Next(0, 50_000);
                        WireResponse hash = await client.SendAsync("POST", "/hash", DeterministicBytes.Create(size));
                        Assert.Equal($"{size} {DeterministicBytes.Hash(size)}", hash.Text);
                    }
                }
                catch (CutResponseException closed) when (ClosesKeptConnections && onThisConnection > 0 && closed.IsBeforeFirstByte)
                {
                    // The same is asked on a new one.
                }
            }
        }));
    }

    [Fact]
    public virtual async Task Blocking_handlers_keep_nobody_waiting()
    {
        const int Blocked = 32;
        const int Rounds = 8;
        const int BlockedMs = 100;

        // Two cores are shared with the web server, all clients and whatever else the machine does: what disturbed one measurement
        // does not disturb three, each twice as long as the one before: where little was answered more is.
        string? complaint = "";
        for (int attempt = 0; attempt < 3 && complaint is not null; attempt++)
        {
            complaint = await ComplaintOfWaitingAsync(Blocked, Rounds << attempt, BlockedMs);
        }

        Assert.Null(complaint);
    }

    private async Task<string?> ComplaintOfWaitingAsync(int blocked, int rounds, int blockedMs)
    {
        using var finished = new CancellationTokenSource();
        Task<List<double>> probe = Task.Factory.StartNew(
            () => MeasureHelloMs(rig.FrontEnd.Buffered, finished.Token), CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);

        long started = Stopwatch.GetTimestamp();
        await Task.WhenAll(Enumerable.Range(0, blocked).Select(async number =>
        {
            using WireClient client = await ConnectAsync();
            for (int round = 0; round < rounds; round++)
            {
                WireResponse response = await client.GetAsync($"/block?ms={blockedMs}&id={number}-{round}");
                Assert.Equal($"{number}-{round}", response.Text);
            }
        }));
        TimeSpan elapsed = Stopwatch.GetElapsedTime(started);
        await finished.CancelAsync();
        List<double> latenciesMs = await probe;

        // One after the other they would take 25.6 s. Latency is measured closely elsewhere: here the border is only what
        // waiting for one blocked handler would cost.
        latenciesMs.Sort();
        double p99 = latenciesMs.Count > 0 ? latenciesMs[(int)(latenciesMs.Count * 0.99)] : double.MaxValue;
        return elapsed >= TimeSpan.FromMilliseconds(3 * rounds * blockedMs) ? $"{blocked} blocking clients took {elapsed}."
            : latenciesMs.Count <= 100 ? $"Only {latenciesMs.Count} requests were answered meanwhile."
            : p99 >= blockedMs / 2.0 ? $"p99 of {latenciesMs.Count} requests beside blocked ones is {p99:0.0} ms."
            : null;
    }

    /// <summary>Whether the front end may close a kept connection of a client's between two requests, without a word of the next answer: whoever asks again is answered (RFC 9112 §9.3.1).</summary>
    protected virtual bool ClosesKeptConnections => false;

    /// <summary>How long the front end asks an application no more that refused a connection.</summary>
    protected virtual TimeSpan RefusalMemory => TimeSpan.Zero;

    [Fact]
    public virtual async Task Applications_are_stopped_and_started_under_load_without_one_failed_request()
    {
        await using EndToEndApp stable = await EndToEndApp.StartAsync(rig.FreeAddress());
        EndToEndApp restarted = await EndToEndApp.StartAsync(rig.FreeAddress());
        string address = rig.AddressOf(restarted);
        await using IFrontEnd frontEnd = await rig.StartFrontEndAsync(stable, restarted);

        using var finished = new CancellationTokenSource();
        var load = new DrainLoad(frontEnd.Buffered, ClosesKeptConnections);
        Task running = load.RunAsync(finished.Token);

        await Task.Delay(300);
        for (int i = 0; i < 3; i++)
        {
            await restarted.StopAsync();
            await restarted.DisposeAsync();
            await load.WaitForAnswerAsync("No request was answered by the application that runs on.");
            restarted = await EndToEndApp.StartAsync(address);
            await Task.Delay(200);
        }

        // The other way round: the one that was restarted must carry the load alone.
        await Task.Delay(RefusalMemory);
        await stable.StopAsync();
        await load.WaitForAnswerAsync("No request was answered by the application that was restarted.");

        await finished.CancelAsync();
        await running;
        await restarted.DisposeAsync();
        Assert.True(load.Failures.IsEmpty, string.Join('\n', [.. load.Failures.Take(5), .. frontEnd.ErrorLog().Take(10)]));
    }

    protected static async Task<string> AssertIdEchoedAsync(WireClient client, string id)
    {
        WireResponse response = await client.GetAsync($"/id?id={id}", $"X-Id: h{id}");
        Assert.Equal(200, response.Status);
        string[] parts = response.Text.Split(' ');
        Assert.Equal(id, parts[0]);
        Assert.Equal($"h{id}", parts[1]);
        return parts[2];
    }

    // On a thread of its own with a blocking socket: the thread pool's state must not be measured.
    private static List<double> MeasureHelloMs(IPEndPoint endPoint, CancellationToken finished)
    {
        var latenciesMs = new List<double>();
        using var socket = new Socket(endPoint.AddressFamily, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true, ReceiveTimeout = 20_000 };
        socket.Connect(endPoint);
        byte[] request = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"u8.ToArray();
        byte[] buffer = new byte[4096];
        while (!finished.IsCancellationRequested)
        {
            long started = Stopwatch.GetTimestamp();
            socket.Send(request);
            int count = 0;
            while (buffer.AsSpan(0, count).IndexOf("Hello, World!"u8) < 0)
            {
                int received = socket.Receive(buffer, count, buffer.Length - count, SocketFlags.None);
                Assert.True(received > 0, "The connection ended.");
                count += received;
            }

            latenciesMs.Add(Stopwatch.GetElapsedTime(started).TotalMilliseconds);

            // The rest of a chunked body: its last chunk may come with the text or after it.
            bool chunked = buffer.AsSpan(0, count).IndexOf("chunked"u8) >= 0;
            while (chunked && !buffer.AsSpan(0, count).EndsWith("0\r\n\r\n"u8))
            {
                count += socket.Receive(buffer, count, buffer.Length - count, SocketFlags.None);
            }

            Thread.Sleep(1);
        }

        return latenciesMs;
    }

    /// <summary>Clients that ask for short and slow answers until they are told to end, and note every failure.</summary>
    private sealed class DrainLoad(IPEndPoint endPoint, bool mayBeClosed)
    {
        private const int Clients = 8;
        private readonly ConcurrentQueue<string> _failures = new();
        private int _answered;

        public ConcurrentQueue<string> Failures => _failures;

        public int Answered => Volatile.Read(ref _answered);

        /// <summary>For 200 ms, or longer where the machine is busy: clients that would wait, do so.</summary>
        public async Task WaitForAnswerAsync(string otherwise)
        {
            int before = Answered;
            var watch = Stopwatch.StartNew();
            do
            {
                Assert.True(watch.Elapsed < TimeSpan.FromSeconds(15), otherwise);
                await Task.Delay(200);
            }
            while (Answered == before);
        }

        public Task RunAsync(CancellationToken finished) =>
            Task.WhenAll(Enumerable.Range(0, Clients).Select(number => Task.Run(() => RunClientAsync(number, finished))));

        private async Task RunClientAsync(int number, CancellationToken finished)
        {
            for (int i = 0; !finished.IsCancellationRequested;)
            {
                int onThisConnection = 0;
                try
                {
                    using WireClient client = await WireClient.ConnectAsync(endPoint);
                    for (; onThisConnection < 200 && !finished.IsCancellationRequested; onThisConnection++, i++)
                    {
                        string id = $"{number}-{i}";
                        string target = i % 10 == 0 ? $"/slow?ms=30&id={id}" : $"/id?id={id}";
                        WireResponse response = await client.GetAsync(target, $"X-Id: {id}");
                        if (response.Status != 200 || !response.Text.StartsWith(id, StringComparison.Ordinal))
                        {
                            _failures.Enqueue($"{target}: {response.Status} {response.Text}");
                        }

                        Interlocked.Increment(ref _answered);
                    }
                }
                catch (CutResponseException closed) when (mayBeClosed && onThisConnection > 0 && closed.IsBeforeFirstByte)
                {
                    // The same is asked on a new one.
                }
                catch (Exception failure) when (failure is IOException or SocketException or TimeoutException)
                {
                    _failures.Enqueue(failure.ToString());
                }
            }
        }
    }
}
