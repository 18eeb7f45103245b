// 200 hostile clients at once: those who behave well, on connections of their own, lose nothing. How much of their
// throughput they keep is measured by bench/run flood.

using System.Diagnostics;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Soak;

[Collection(AloneCollection.Name)]
public sealed class FloodTests
{
    private const int Hostile = 200;
    private const int WellBehaved = 8;
    private static readonly TimeSpan s_length = TimeSpan.FromSeconds(6);

    [Fact]
    public async Task Well_behaved_clients_lose_no_request_among_200_hostile_ones()
    {
        await using SoakServer server = await SoakServer.StartAsync();
        var peers = new HostilePeer[Hostile];
        long started = Stopwatch.GetTimestamp();
        bool IsOver() => Stopwatch.GetElapsedTime(started) > s_length;
        ClientThreads hostile = ClientThreads.Start(Hostile, i =>
        {
            using HostilePeer peer = peers[i] = new HostilePeer(server.Http, server.FastCgi, seed: i);
            while (!IsOver())
            {
                peer.Step((Harm)(i % HostilePeer.Kinds));
                Thread.Sleep(20);
            }
        });
        var answered = new int[WellBehaved];
        ClientThreads.Start(WellBehaved, i =>
        {
            while (!IsOver())
            {
                answered[i] += i % 2 == 0 ? AskOverHttp(server, i) : AskOverFastCgi(server, i);
            }
        }).Join();
        hostile.Join();

        Assert.All(answered, static count => Assert.True(count >= 100, $"{count} answers in {s_length.TotalSeconds} s"));
        Assert.True(peers.Sum(static peer => peer.Done) > 1_000, "there was no flood");
        Assert.True(server.Refused > 0, "nothing was refused");
        Assert.True(ProcessState.Becomes(() => server.Connections == 0, 20_000), $"{server.Connections} connections are left");
    }

    private static int AskOverHttp(SoakServer server, int client)
    {
        using HttpPeer peer = HttpPeer.Connect(server.Http);
        int requests = client % 4 == 0 ? 50 : 1;
        for (int i = 0; i < requests; i++)
        {
            int id = server.NextId();
            peer.SendRequest(StressKind.Hello, id, 0);
            peer.Check(StressKind.Hello, id, 0);
        }

        return requests;
    }

    private static int AskOverFastCgi(SoakServer server, int client)
    {
        using FastCgiPeer peer = FastCgiPeer.Connect(server.FastCgi);
        int requests = client % 4 == 1 ? 50 : 1;
        for (int i = 0; i < requests; i++)
        {
            int id = server.NextId();
            FastCgiResponse response = peer.Exchange(new FastCgiRequest($"/Hello?{id}&0"));
            if (!response.IsWhole || !response.Body.SequenceEqual(StressContent.Hello(id)))
            {
                throw new InvalidDataException($"Request {id} got {response}");
            }
        }

        return requests;
    }
}
