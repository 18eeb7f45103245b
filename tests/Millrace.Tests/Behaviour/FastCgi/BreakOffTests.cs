// Responses over FastCGI that end in the middle while the front server does not read: wherever the socket took no more, nothing of them can be
// taken for the end of the response. FastCGI 1.0 §3.3, §5.5. nginx takes an end between two records for that, and one within a record.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

public sealed class BreakOffTests
{
    private const string Tcp = "fastcgi://127.0.0.1:9000";
    private const string Unix = "fastcgi://unix:/run/simulated.sock";

    // All of it is written at once: the handler ends, or waits until it has left, or it is a file.
    private static async ValueTask Answer(Request request, Response response, FastCgiBench bench, CutShort cut)
    {
        switch (request.Path)
        {
            case "/ended":
                response.Write(Plan.Bytes("part", 0, CutShort.Size));
                return;
            case "/file":
                response.WriteText("");
                bench.Simulation.World.Files[CutShort.File] = Plan.Bytes("part", 0, CutShort.Size);
                await bench.Simulation.Handler.Current!.SendSimulatedFileAsync(CutShort.File, CutShort.Size);
                return;
        }

        await cut.Answer(request, response);
    }

    private static void Run(string path, CutBy cause, string address, Action<FastCgiBench, FrontEnd> check)
    {
        var cut = new CutShort();
        FastCgiBench? current = null;
        FastCgiBench.Run(
            (request, response) => Answer(request, response, current!, cut),
            bench =>
            {
                current = bench;
                bench.Reads = false;
                List<FrontEnd> fronts = [];

                // The first record has 65,536 bytes: the socket takes a few less, so many, and a few more.
                for (int taken = 65_516; taken <= 65_556; taken += 2)
                {
                    bench.Simulation.World.SendCapacityMax = taken;
                    FrontEnd front = bench.Connect();
                    bench.Send(front, Wire.Request(path));
                    Assert.True(path == "/file" || front.Socket.SentByServer == taken);
                    fronts.Add(front);
                }

                cut.Happens(cause, bench, fronts.Count);
                Assert.All(fronts, front =>
                {
                    Assert.True(front.IsAtEnd);
                    Assert.Empty(front.Ended);
                    check(bench, front);
                });
            },
            Bench.Options(CutShort.SetTimeout),
            address);
    }

    [Theory]
    [InlineData("/ended", CutBy.Timeout)]
    [InlineData("/ended", CutBy.Drain)]
    [InlineData("/waits", CutBy.Timeout)]
    [InlineData("/waits", CutBy.Drain)]
    [InlineData("/file", CutBy.Timeout)]
    [InlineData("/file", CutBy.Drain)]
    [InlineData("/aborts", CutBy.Abort)]
    public void Over_a_Unix_socket_the_record_that_has_begun_is_filled_and_the_head_of_none_follows_FastCGI_3_3(string path, CutBy cause) =>
        Run(path, cause, Unix, static (_, front) =>
        {
            Assert.True(front.IsBrokenOff);
            ReceivedResponse open = Assert.Single(front.Open).Value;
            Assert.InRange(open.Body.Length, 65_000, 2 * 65_536);
            Assert.True(Plan.Matches("part", 0, open.Body), "Other bytes arrived than were sent.");
            Assert.False(open.StdoutEnded);
        });

    [Theory]
    [InlineData(CutBy.Timeout)]
    [InlineData(CutBy.Drain)]
    public void The_sign_of_a_break_comes_once_wherever_the_socket_took_no_more_FastCGI_3_3(CutBy cause) => FastCgiBench.Run(
        static async (request, response) =>
        {
            response.Write(Plan.Bytes("part", 0, 2_000));
            await response.FlushAsync();
            throw new InvalidOperationException();
        },
        bench =>
        {
            FrontEnd whole = bench.Connect();
            bench.Send(whole, Wire.Request("/"));
            int length = (int)whole.BytesRead;
            bench.Reads = false;
            List<FrontEnd> fronts = [];
            for (int room = 2_100; room < length; room++)
            {
                bench.Simulation.World.SendCapacityMax = room;
                FrontEnd front = bench.Connect();
                bench.Send(front, Wire.Request("/"));
                fronts.Add(front);
            }

            Assert.Contains(fronts, front => front.Socket.SentByServer == length - 12);     // within the record before the last
            if (cause == CutBy.Timeout)
            {
                bench.Pass(TimeSpan.FromSeconds(12));
            }
            else
            {
                bench.Drain();
                bench.Cut();
            }

            bench.Reads = true;
            bench.Settle();
            Assert.All(fronts, static front => Assert.True(front.IsAtEnd && front.IsBrokenOff));
        },
        Bench.Options(CutShort.SetTimeout),
        Unix);

    [Theory]
    [InlineData(CutBy.Timeout)]
    [InlineData(CutBy.Drain)]
    public void Over_a_Unix_socket_the_record_of_a_file_that_ended_early_is_filled_and_the_head_of_none_follows_FastCGI_3_3(CutBy cause)
    {
        const int There = 40_000;
        FastCgiBench? current = null;
        FastCgiBench.Run(
            async (request, response) => await current!.Simulation.Handler.Current!.SendSimulatedFileAsync(CutShort.File, 65_528),
            bench =>
            {
                current = bench;
                bench.Reads = false;
                bench.Simulation.World.Files[CutShort.File] = Plan.Bytes("part", 0, There);
                List<FrontEnd> fronts = [];

                // The socket takes the file, and more and more of what fills its record up.
                for (int taken = There + 200; taken < 65_000; taken += 1_001)
                {
                    bench.Simulation.World.SendCapacityMax = taken;
                    FrontEnd front = bench.Connect();
                    bench.Send(front, Wire.Request("/"));
                    fronts.Add(front);
                }

                Assert.Contains(fronts, static front => front.Socket.SentByServer < 65_528);
                if (cause == CutBy.Timeout)
                {
                    bench.Pass(TimeSpan.FromSeconds(12));
                }
                else
                {
                    bench.Drain();
                    bench.Cut();
                }

                Assert.Equal(0, bench.Connections);
                bench.Reads = true;
                bench.Settle();
                Assert.All(fronts, static front =>
                {
                    Assert.True(front.IsAtEnd && front.IsBrokenOff);
                    ReadOnlySpan<byte> body = Assert.Single(front.Open).Value.Body;
                    Assert.Equal(65_528, body.Length);
                    Assert.True(Plan.Matches("part", 0, body[..There]) && !body[There..].ContainsAnyExcept((byte)0), "Other bytes arrived than were sent.");
                });
            },
            Bench.Options(CutShort.SetTimeout),
            Unix);
    }

    // The connection stays until their client's system has them: what a client still sends to one that is closed is met by a reset.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Over_TCP_answers_before_an_aborted_one_arrive_though_their_client_goes_on_sending_FastCGI_5_5(bool later)
    {
        List<TaskCompletionSource> gates = [];
        FastCgiBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/whole")
                {
                    response.Write(Plan.Bytes("whole", 0, 5_000));
                    return;
                }

                if (later)
                {
                    var gate = new TaskCompletionSource();
                    gates.Add(gate);
                    await gate.Task;
                }

                response.Abort();
            },
            bench =>
            {
                bench.Simulation.World.PeerCapacityMax = 0;     // nothing has arrived before it is read
                List<FrontEnd> fronts = [.. Enumerable.Range(0, 20).Select(_ => bench.Connect())];
                bench.Reads = false;
                fronts.ForEach(front => bench.Send(front, [.. Wire.Request("/whole"), .. Wire.Request("/whole"), .. Wire.Request("/aborts"), .. Wire.Request("/whole")]));
                gates.ForEach(static gate => gate.SetResult());
                bench.Settle();
                fronts.ForEach(front => bench.Send(front, Wire.Request("/whole")));
                bench.Pass(TimeSpan.FromMilliseconds(400));
                bench.Reads = true;
                bench.Pass(TimeSpan.FromMilliseconds(400));
                Assert.All(fronts, static front =>
                {
                    Assert.Equal(2, front.Ended.Count);
                    Assert.All(front.Ended, static whole => Assert.Equal(Plan.Bytes("whole", 0, 5_000), whole.Body.ToArray()));
                    Assert.True(front.IsAtEnd);
                });
                Assert.Equal(0, bench.Connections);
            },
            address: Tcp);
    }

    [Theory]
    [InlineData("/ended", CutBy.Timeout)]
    [InlineData("/ended", CutBy.Drain)]
    [InlineData("/waits", CutBy.Timeout)]
    [InlineData("/waits", CutBy.Drain)]
    [InlineData("/file", CutBy.Timeout)]
    public void Over_TCP_a_response_that_nobody_takes_is_reset_FastCGI_5_5(string path, CutBy cause) =>
        Run(path, cause, Tcp, static (_, front) => Assert.True(front.Socket.WasReset));
}
