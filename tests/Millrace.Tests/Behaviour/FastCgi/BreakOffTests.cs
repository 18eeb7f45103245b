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
    [InlineData("/ended", CutBy.Timeout)]
    [InlineData("/ended", CutBy.Drain)]
    [InlineData("/waits", CutBy.Timeout)]
    [InlineData("/waits", CutBy.Drain)]
    [InlineData("/file", CutBy.Timeout)]
    public void Over_TCP_a_response_that_nobody_takes_is_reset_FastCGI_5_5(string path, CutBy cause) =>
        Run(path, cause, Tcp, static (_, front) => Assert.True(front.Socket.WasReset));
}
