// Everything at once for as long as one likes: both protocols directly and behind a real nginx that reloads, handlers that
// block, wait and throw, uploads, downloads, slow readers, clients that go away, hostile bytes, connections that are only
// opened. It fails on a wrong byte, a lost request, or growth of memory, descriptors or threads.
//
// MILLRACE_SOAK_MINUTES says how long (1); the figures go to the file MILLRACE_SOAK_REPORT names.

using System.Diagnostics;
using System.Globalization;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Soak;

[Collection(AloneCollection.Name)]
public sealed class SoakTests
{
    private const int Clients = 12;
    private const int Hostile = 8;
    private const int HalfOpen = 100;
    private const int SamplesMin = 20;
    private static readonly TimeSpan s_long = TimeSpan.FromMinutes(5);
    private static readonly TimeSpan s_reloadEvery = TimeSpan.FromSeconds(5);
    private static readonly TimeSpan s_sampleEveryMax = TimeSpan.FromSeconds(15);

    [Fact]
    [Trait("Category", "Soak")]
    public async Task Everything_at_once_is_answered_right_and_nothing_grows()
    {
        var length = TimeSpan.FromMinutes(double.Parse(Environment.GetEnvironmentVariable("MILLRACE_SOAK_MINUTES") ?? "1", CultureInfo.InvariantCulture));
        await using SoakServer server = await SoakServer.StartAsync();
        using var nginx = new SoakNginx(server);
        var clients = new SoakClient[Clients];
        var peers = new HostilePeer[Hostile];
        long started = Stopwatch.GetTimestamp();
        bool isOver = false;
        bool IsOver() => Volatile.Read(ref isOver) || Stopwatch.GetElapsedTime(started) > length;

        ClientThreads hostile = ClientThreads.Start(Hostile, i =>
        {
            using HostilePeer peer = peers[i] = new HostilePeer(server.Http, server.FastCgi, seed: i);
            for (int step = i; !IsOver(); step++)
            {
                peer.Step((Harm)(step % HostilePeer.Kinds));
                Thread.Sleep(10);
            }
        });
        ClientThreads idle = ClientThreads.Start(1, _ => HoldHalfOpen(server, IsOver));
        ClientThreads load = ClientThreads.Start(Clients, i =>
        {
            using SoakClient client = clients[i] = new SoakClient(server, nginx, seed: 100 + i);
            while (!IsOver())
            {
                client.Step();
            }
        });

        SoakSamples samples = Watch(nginx, load, length);
        Volatile.Write(ref isOver, true);
        load.Join();
        hostile.Join();
        idle.Join();
        Report(length, server, clients, peers, samples);
        Assert.True(samples.Growth is null, $"{samples.Growth} grew: {samples.Summary}");
        nginx.Dispose();
        Assert.True(ProcessState.Becomes(() => server.Connections == 0, 30_000), $"{server.Connections} connections are left");
    }

    // The first tenth is for warming up, a third of a short soak: until then pools of threads and buffers grow to the load. What a failed client found is thrown by the caller's Join.
    private static SoakSamples Watch(SoakNginx nginx, ClientThreads load, TimeSpan length)
    {
        var samples = new SoakSamples();
        TimeSpan warmUp = length > s_long ? length / 10 : length / 3;
        TimeSpan every = TimeSpan.FromTicks(Math.Min(s_sampleEveryMax.Ticks, (length - warmUp).Ticks / (2 * SamplesMin)));
        long started = Stopwatch.GetTimestamp();
        TimeSpan nextReload = s_reloadEvery;
        TimeSpan nextSample = warmUp;
        while (Stopwatch.GetElapsedTime(started) is var elapsed && elapsed < length && !load.HaveFailed)
        {
            if (elapsed > nextReload)
            {
                nginx.Reload();
                nextReload = elapsed + s_reloadEvery;
            }

            if (elapsed > nextSample)
            {
                samples.Add(SoakSample.Take());
                nextSample = elapsed + every;
            }

            Thread.Sleep(50);
        }

        if (!load.HaveFailed)
        {
            Assert.True(samples.Count >= SamplesMin, $"only {samples.Count} samples were taken");
        }

        return samples;
    }

    // Connections on which nothing ever comes; the server closes them when their time is over.
    private static void HoldHalfOpen(SoakServer server, Func<bool> isOver)
    {
        var open = new Queue<SoakConnection>();
        while (!isOver())
        {
            open.Enqueue(SoakConnection.Connect(server.Http));
            if (open.Count > HalfOpen)
            {
                open.Dequeue().Dispose();
            }

            Thread.Sleep(20);
        }

        foreach (SoakConnection peer in open)
        {
            peer.Dispose();
        }
    }

    private static void Report(TimeSpan length, SoakServer server, SoakClient[] clients, HostilePeer[] peers, SoakSamples samples)
    {
        long answered = clients.Sum(static client => client.Answered);
        long connections = clients.Sum(static client => client.Connections) + peers.Sum(static peer => peer.Connections);
        Assert.True(answered > 0 && clients.Sum(static client => client.GivenUp) > 0);
        string text = string.Create(CultureInfo.InvariantCulture,
            $"soak of {length.TotalMinutes:F0} min: {answered} requests answered right, {clients.Sum(static client => client.GivenUp)} given up, {peers.Sum(static peer => peer.Done)} hostile acts, {connections} connections made, {server.Accepted} accepted, {server.Refused} refusals, {server.HandOvers} hand-overs; {samples.Summary}");
        if (Environment.GetEnvironmentVariable("MILLRACE_SOAK_REPORT") is { Length: > 0 } path)
        {
            File.AppendAllText(path, text + "\n");
        }
    }
}
