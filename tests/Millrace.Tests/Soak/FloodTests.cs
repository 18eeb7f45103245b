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
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(60);     // for a machine that is busy

    [Fact]
    public async Task Well_behaved_clients_lose_no_request_among_200_hostile_ones()
    {
        await using SoakServer server = await SoakServer.StartAsync();
        var peers = new HostilePeer[Hostile];
        long started = Stopwatch.GetTimestamp();
        var answered = new int[WellBehaved];
        bool IsOver() => Stopwatch.GetElapsedTime(started) is var time && time > s_length && (time > s_patience || answered.Index().All(static client => IsEnough(client.Item, client.Index)));
        ClientThreads hostile = ClientThreads.Start(Hostile, i =>
        {
            Thread.Sleep(300);      // the others are connected
            using HostilePeer peer = peers[i] = new HostilePeer(server.Http, server.FastCgi, seed: i);
            while (!IsOver())
            {
                peer.Step((Harm)(i % HostilePeer.Kinds));
                Thread.Sleep(20);
            }
        });
        ClientThreads.Start(WellBehaved, i =>
        {
            while (!IsOver())
            {
                if (i % 2 == 0)
                {
                    AskOverHttp(server, Keeps(i), IsOver, ref answered[i]);
                }
                else
                {
                    AskOverFastCgi(server, Keeps(i), IsOver, ref answered[i]);
                }
            }
        }).Join();
        hostile.Join();

        // A new connection stands in the kernel's queue behind those of the flood; one that is there already does not.
        Assert.All(answered.Index(), static client =>
            Assert.True(IsEnough(client.Item, client.Index), $"{client.Item} answers"));
        Assert.True(peers.Sum(static peer => peer.Done) > 1_000, "there was no flood");
        Assert.True(server.Refused > 0, "nothing was refused");
        Assert.True(ProcessState.Becomes(() => server.Connections == 0, 20_000), $"{server.Connections} connections are left");
    }

    // Half of the clients keep their connection, the others take a new one for each request.
    private static bool Keeps(int client) => client % 4 < 2;

    private static bool IsEnough(int answered, int client) => answered >= (Keeps(client) ? 100 : 1);

    private static void AskOverHttp(SoakServer server, bool keeps, Func<bool> isOver, ref int answered)
    {
        using SoakConnection peer = SoakConnection.Connect(server.Http);
        do
        {
            int id = server.NextId();
            peer.SendRequest(StressKind.Hello, id, 0);
            peer.Check(StressKind.Hello, id, 0);
            answered++;
        }
        while (keeps && !isOver());
    }

    private static void AskOverFastCgi(SoakServer server, bool keeps, Func<bool> isOver, ref int answered)
    {
        using FastCgiPeer peer = FastCgiPeer.Connect(server.FastCgi);
        do
        {
            int id = server.NextId();
            FastCgiResponse response = peer.Exchange(new FastCgiRequest($"/Hello?{id}&0"));
            if (!response.IsWhole || !response.Body.SequenceEqual(StressContent.Hello(id)))
            {
                throw new InvalidDataException($"Request {id} got {response}");
            }

            answered++;
        }
        while (keeps && !isOver());
    }
}
