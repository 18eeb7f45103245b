// Responses over FastCGI that end in the middle while the front server does not read: wherever the socket took no more, nothing of them can be
// taken for the end of the response. FastCGI 1.0 §3.3, §5.5. nginx takes an end between two records for that, and one within a record.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

public sealed class BreakOffTests
{
    private const string Tcp = "fastcgi://127.0.0.1:9000";
    private const string Unix = "fastcgi://unix:/run/simulated.sock";
    private const int Size = 200_000;
    private const int File = 77;

    public enum Cause
    {
        Timeout,
        Drain,
        Abort,
    }

    // All of it is written at once: the handler ends, or waits until it has left, or it is a file.
    private static async ValueTask Answer(Request request, Response response, FastCgiBench bench, List<TaskCompletionSource> gates)
    {
        switch (request.Path)
        {
            case "/ended":
                response.Write(Plan.Bytes("part", 0, Size));
                return;
            case "/file":
                response.WriteText("");
                bench.Simulation.World.Files[File] = Plan.Bytes("part", 0, Size);
                await bench.Simulation.Handler.Current!.SendSimulatedFileAsync(File, Size);
                return;
        }

        response.Write(Plan.Bytes("part", 0, Size));
        ValueTask flush = response.FlushAsync();
        if (request.Path == "/aborts")
        {
            var gate = new TaskCompletionSource();
            gates.Add(gate);
            await gate.Task;
            response.Abort();
        }

        await flush;
    }

    private static void Run(string path, Cause cause, string address, Action<FastCgiBench, FrontEnd> check)
    {
        List<TaskCompletionSource> gates = [];
        FastCgiBench? current = null;
        FastCgiBench.Run(
            (request, response) => Answer(request, response, current!, gates),
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

                switch (cause)
                {
                    case Cause.Timeout:
                        bench.Pass(TimeSpan.FromSeconds(12));
                        Assert.Equal(fronts.Count, bench.Refused("send-timeout"));
                        break;
                    case Cause.Drain:
                        bench.Drain();
                        bench.Cut();
                        break;
                    case Cause.Abort:
                        gates.ForEach(static gate => gate.SetResult());
                        bench.Settle();
                        break;
                }

                Assert.Equal(0, bench.Connections);
                bench.Reads = true;
                bench.Settle();
                Assert.All(fronts, front =>
                {
                    Assert.True(front.IsAtEnd);
                    Assert.Empty(front.Ended);
                    check(bench, front);
                });
            },
            Bench.Options(static options => options.SendTimeout = TimeSpan.FromSeconds(10)),
            address);
    }

    [Theory]
    [InlineData("/ended", Cause.Timeout)]
    [InlineData("/ended", Cause.Drain)]
    [InlineData("/waits", Cause.Timeout)]
    [InlineData("/waits", Cause.Drain)]
    [InlineData("/file", Cause.Timeout)]
    [InlineData("/file", Cause.Drain)]
    [InlineData("/aborts", Cause.Abort)]
    public void Over_a_Unix_socket_the_record_that_has_begun_is_filled_and_the_head_of_none_follows_FastCGI_3_3(string path, Cause cause) =>
        Run(path, cause, Unix, static (_, front) =>
        {
            Assert.True(front.IsBrokenOff);
            ReceivedResponse open = Assert.Single(front.Open).Value;
            Assert.InRange(open.Body.Length, 65_000, 2 * 65_536);
            Assert.True(Plan.Matches("part", 0, open.Body), "Other bytes arrived than were sent.");
            Assert.False(open.StdoutEnded);
        });

    [Theory]
    [InlineData("/ended", Cause.Timeout)]
    [InlineData("/ended", Cause.Drain)]
    [InlineData("/waits", Cause.Timeout)]
    [InlineData("/waits", Cause.Drain)]
    [InlineData("/file", Cause.Timeout)]
    public void Over_TCP_a_response_that_nobody_takes_is_reset_FastCGI_5_5(string path, Cause cause) =>
        Run(path, cause, Tcp, static (_, front) => Assert.True(front.Socket.WasReset));
}
