// What a front server sends beside a request whose file takes its time (a disk that is busy, a network): the loop answers later, and serves others.

using Millrace.Exchanges;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

public sealed class ControlDuringFileTests
{
    private const int File = 79;
    private const int Size = 100_000;

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(30);     // nothing here takes it, unless it takes for ever

    [Fact]
    public void Management_records_are_answered_behind_the_file_FastCGI_4_1() => WhileAFileIsRead(
        [.. Ask("FCGI_MAX_CONNS"), .. Ask("FCGI_MAX_REQS")],
        static (bench, front) =>
        {
            Assert.Equal(Plan.Bytes("file", 0, Size), Assert.Single(front.Ended).Body);
            Assert.Equal(2, front.Management.Count);
            bench.StillServes(front, id: 2);
        });

    [Fact]
    public void A_second_request_is_refused_behind_the_file_FastCGI_5_5() => WhileAFileIsRead(
        Wire.Request("/second", id: 1),
        static (bench, front) =>
        {
            Assert.Equal(Plan.Bytes("file", 0, Size), front.Ended[0].Body);
            bench.OthersAreServed();
        });

    [Fact]
    public void A_front_server_that_gives_the_request_up_gets_its_end_FastCGI_5_4() => WhileAFileIsRead(
        [.. Wire.Record(Wire.Abort, 1, []), .. Ask("FCGI_MAX_CONNS")],
        static (bench, front) =>
        {
            bench.Pass(TimeSpan.FromSeconds(1));
            Assert.True(front.IsAtEnd || front.Ended.Count == 1);
            bench.OthersAreServed();
        });

    [Fact]
    public void Questions_without_end_break_the_connection_off() => WhileAFileIsRead(
        [.. Enumerable.Repeat(Ask("FCGI_MAX_CONNS"), 2_000).SelectMany(static each => each)],
        static (bench, front) =>
        {
            Assert.True(front.IsAtEnd);
            Assert.Empty(front.Ended);
            bench.OthersAreServed();
        },
        breaks: true);

    [Fact]
    public void Another_version_breaks_the_connection_off_FastCGI_3_3() => WhileAFileIsRead(
        [9, 9, 9, 9, 9, 9, 9, 9],
        static (bench, front) =>
        {
            Assert.True(front.IsAtEnd);
            Assert.Empty(front.Ended);
            bench.OthersAreServed();
        },
        breaks: true);

    // What came while the socket had no room for the file need not wait for what the handler does behind it.
    [Fact]
    public void Management_records_are_answered_where_the_file_ends_FastCGI_4_1()
    {
        var ends = new TaskCompletionSource();
        FastCgiBench? current = null;
        FastCgiBench.Run(
            async (request, response) =>
            {
                await current!.Simulation.Handler.Current!.SendSimulatedFileAsync(File, Size);
                await ends.Task;
            },
            bench =>
            {
                current = bench;
                bench.Simulation.World.Files[File] = Plan.Bytes("file", 0, Size);
                bench.Simulation.World.SendCapacityMax = 18_000;
                FrontEnd front = bench.Connect();
                bench.Reads = false;
                bench.Send(front, Wire.Request("/"));
                bench.Send(front, Ask("FCGI_MAX_CONNS"));
                bench.Reads = true;
                bench.Settle();
                Assert.Equal((1, 0), (front.Management.Count, front.Ended.Count));
                ends.SetResult();
                bench.Settle();
                Assert.Equal(Plan.Bytes("file", 0, Size), Assert.Single(front.Ended).Body);
            });
    }

    // The locks of the server know threads: what must not wait for the file is done by another than sends it.
    private static void WhileAFileIsRead(byte[] sent, Action<FastCgiBench, FrontEnd> check, bool breaks = false)
    {
        var pause = new TaskCompletionSource();
        bool wasThere = false;
        FastCgiBench? current = null;
        FastCgiBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/file")
                {
                    Exchange exchange = current!.Simulation.Handler.Current!;
                    await pause.Task;
                    await exchange.SendSimulatedFileAsync(File, Size);
                }
                else
                {
                    await PlainCall.Echo(request, response);
                }
            },
            bench =>
            {
                current = bench;
                bench.Simulation.World.Files[File] = Plan.Bytes("file", 0, Size);
                FrontEnd front = bench.Connect();
                bench.Send(front, Wire.Request("/file"));
                bench.Simulation.World.InFile = () =>
                {
                    bench.Simulation.World.InFile = null;
                    wasThere = true;
                    Assert.True(Task.Run(() =>
                    {
                        bench.Send(front, sent);
                        bench.OthersAreServed();
                        Assert.Equal(breaks, front.Socket.WasReset);
                    }).Wait(s_patience), "It waits for the file.");
                };
                pause.SetResult();
                Assert.True(wasThere);
                bench.Settle();
                bench.Pass(TimeSpan.FromMilliseconds(200));
                check(bench, front);
            });
    }

    private static byte[] Ask(string name) => Wire.Record(Wire.GetValues, 0, Wire.Pairs((name, "")));
}
