// What belongs to whom where records of several requests meet on one connection.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

public sealed class RecordOwnershipTests
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

    private static byte[] Questions(int count) => [.. Enumerable.Repeat(Wire.Record(200, 0, []), count).SelectMany(static record => record)];

    private static byte[] HeadOf(string target) => [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get(target)))];

    // More than is collected before it is sent: it is sent on before the handler is called.
    [Theory]
    [InlineData(0, 2_200)]
    [InlineData(1_000, 1_200)]
    [InlineData(2_100, 100)]
    public void Answers_to_what_came_behind_a_head_leave_once_FastCGI_4_2(int before, int behind)
    {
        var gate = new TaskCompletionSource();
        FastCgiBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/long")
                {
                    await gate.Task;
                }

                await PlainCall.Echo(request, response);
            },
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, [.. Questions(before), .. HeadOf("/long"), .. Questions(behind)]);
                Assert.Equal(before + behind, front.Management.Count);
                Assert.Equal(16 * (before + behind), front.BytesRead);
                bench.Send(front, Wire.Record(Wire.Stdin, 1, []));
                gate.SetResult();
                bench.Settle();
                Assert.StartsWith("GET /long\n", Assert.Single(front.Ended).BodyText, StringComparison.Ordinal);
                Assert.Equal(before + behind, front.Management.Count);
                bench.StillServes(front);
            });
    }

    [Theory]
    [InlineData(0, 2_200)]
    [InlineData(1_000, 1_200)]
    public void A_head_stays_its_own_while_answers_to_what_came_behind_it_wait_for_the_front_server(int before, int behind) => FastCgiBench.Run(
        bench =>
        {
            bench.Simulation.World.SendCapacityMax = 1_000;
            FrontEnd slow = bench.Connect();
            FrontEnd other = bench.Connect();
            bench.Reads = false;
            bench.Send(slow, [.. Questions(before), .. HeadOf("/slow"), .. Questions(behind)]);
            bench.Send(other, Wire.Request("/other-one-with-a-target-of-its-own"));
            bench.Reads = true;
            bench.Settle();
            bench.Send(slow, Wire.Record(Wire.Stdin, 1, []));
            Assert.StartsWith("GET /other-one-with-a-target-of-its-own\n", Assert.Single(other.Ended).BodyText, StringComparison.Ordinal);
            Assert.StartsWith("GET /slow\n", Assert.Single(slow.Ended).BodyText, StringComparison.Ordinal);
            Assert.Equal(before + behind, slow.Management.Count);
            bench.StillServes(slow);
            bench.StillServes(other);
        });
}
