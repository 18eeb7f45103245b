// What belongs to whom where records of several requests meet on one connection.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

public sealed class OwnershipTests
{
    [Fact]
    public void Answers_of_a_connection_that_is_closed_reach_nobody_else()
    {
        var gate = new TaskCompletionSource();
        FastCgiBench.Run(
            async (request, response) =>
            {
                await gate.Task;
                await PlainCall.Echo(request, response);
            },
            bench =>
            {
                FrontEnd victim = bench.Connect();
                FrontEnd broken = bench.Connect();
                bench.Send(broken, [.. Wire.BeginRequest(), .. Wire.BeginRequest(id: 2), .. Wire.Record(Wire.GetValues, 0, []), 77]);
                Assert.True(broken.IsAtEnd);
                bench.Send(victim, Wire.Request("/victim"));
                Assert.Equal(0, victim.BytesRead);
                gate.SetResult();
                bench.Settle();
                Assert.Equal(200, Assert.Single(victim.Ended).Status);
                Assert.Empty(victim.Management);
            });
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_second_id_is_refused_while_the_first_waits_for_its_turn_FastCGI_5_5(bool keep)
    {
        var gate = new TaskCompletionSource();
        FastCgiBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/long")
                {
                    await gate.Task;
                }

                response.WriteText(request.Path);
            },
            bench =>
            {
                FrontEnd first = bench.Connect();
                bench.Send(first, Wire.Request("/long"));
                FrontEnd queued = bench.Connect();
                bench.Send(queued, [.. Wire.BeginRequest(keep: keep), .. Wire.BeginRequest(id: 5), .. Wire.Request("/queued", keep: keep)[16..]]);
                Assert.Equal((5, 1), (Assert.Single(queued.Ended).Id, queued.Ended[0].ProtocolStatus));
                gate.SetResult();
                bench.Settle();
                Assert.Equal("/long", Assert.Single(first.Ended).BodyText);
                Assert.Equal("/queued", queued.Ended[1].BodyText);
                Assert.Equal(!keep, queued.IsAtEnd);
            },
            new MillraceOptions { Loops = 1, MaxConcurrentRequests = 1 });
    }

    [Fact]
    public void Bytes_written_before_an_abort_do_not_open_a_stream_that_never_ends() => FastCgiBench.Run(
        static async (request, response) =>
        {
            var aborted = new TaskCompletionSource();
            response.WriteText("written early");
            using CancellationTokenRegistration registration = request.Aborted.UnsafeRegister(_ => aborted.TrySetResult(), null);
            await aborted.Task;
        },
        static bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, [.. Wire.Request("/"), .. Wire.Record(Wire.Abort, 1, [])]);
            Assert.Equal(0, Assert.Single(front.Ended).Stdout.Length);
        });

}
