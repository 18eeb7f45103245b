// ABORT_REQUEST, at every moment of a request, and ids that are used again. FastCGI 1.0 §5.4.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

public sealed class AbortTests
{
    private static byte[] Abort(int id = 1) => Wire.Record(Wire.Abort, id, []);

    private static byte[] Post() => [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/", "POST")))];

    [Fact]
    public void Hostile_56_ABORT_before_the_handler_runs_is_answered_with_END_FastCGI_5_4() =>
        FastCgiBench.HoweverCut([.. Wire.BeginRequest(), .. Wire.Record(Wire.Params, 1, Wire.Pairs(Wire.Get("/"))), .. Abort()], static (bench, front) =>
        {
            ReceivedResponse end = Assert.Single(front.Ended);
            Assert.Equal((0, 0L), (end.ProtocolStatus, end.Stdout.Length));
            Assert.Equal(0, bench.Simulation.Handler.Started);
            bench.StillServes(front);
        });

    [Fact]
    public void Hostile_56_ABORT_in_the_body_fails_its_reading_and_is_answered_with_END_FastCGI_5_4()
    {
        Exception? seen = null;
        FastCgiBench.Run(
            async (request, response) =>
            {
                seen ??= await Record.ExceptionAsync(() => PlainCall.Echo(request, response).AsTask());
            },
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, [.. Post(), .. Wire.Record(Wire.Stdin, 1, new byte[100])]);
                bench.Send(front, Abort());
                Assert.IsAssignableFrom<IOException>(seen);
                Assert.Equal(1, Assert.Single(front.Ended).Id);
                Assert.Equal(200, bench.Ask(front, Wire.Request("/next")).Status);
            });
    }

    [Fact]
    public void Hostile_56_ABORT_in_the_response_cancels_the_handler_and_its_later_bytes_vanish_FastCGI_5_4() => FastCgiBench.Run(
        static async (request, response) =>
        {
            response.WriteText("first ");
            await response.FlushAsync();
            if (request.Path == "/long")
            {
                await Bench.Cancelled(request.Aborted);
                response.WriteText("late");
                await response.FlushAsync();
            }
        },
        static bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, Wire.Request("/long"));
            Assert.Equal("first ", front.Open[1].BodyText);
            bench.Send(front, Abort());
            Assert.Equal("first ", Assert.Single(front.Ended).BodyText);
            Assert.Equal("first ", bench.Ask(front, Wire.Request("/short")).BodyText);
        });

    [Fact]
    public void Hostile_56_ABORT_after_END_is_passed_over() => FastCgiBench.Run(static bench =>
    {
        FrontEnd front = bench.Connect();
        bench.StillServes(front);
        bench.Send(front, Abort());
        Assert.Single(front.Ended);
        bench.StillServes(front);
    });

    [Fact]
    public void Hostile_57_An_id_may_be_used_again_after_ABORT_while_the_old_handler_still_writes()
    {
        var late = new TaskCompletionSource();
        Stream? kept = null;
        FastCgiBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/old")
                {
                    kept = response.Body;
                    await Bench.Cancelled(request.Aborted);
                    return;
                }

                response.WriteText("new ");
                await response.FlushAsync();
                await late.Task;
                response.WriteText("end");
            },
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, [.. Wire.Request("/old"), .. Abort()]);
                Assert.Equal(1, Assert.Single(front.Ended).Id);
                bench.Send(front, Wire.Request("/new"));
                Assert.IsType<ObjectDisposedException>(Record.Exception(() => kept!.WriteAsync(new byte[] { 88, 88 }).AsTask().GetAwaiter().GetResult()));
                bench.Settle();
                late.SetResult();
                bench.Settle();
                Assert.Equal("new end", front.Ended[^1].BodyText);
            });
    }
}
