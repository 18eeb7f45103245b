// What belongs to whom: buffers, answers and deadlines of a request whose handler outlives its turn, waits in the queue or
// follows another on the same connection. Each of these was once found by a random life.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour;

public sealed class OwnershipTests
{
    [Fact]
    public void Answers_of_a_connection_that_is_closed_reach_nobody_else()
    {
        var gate = new TaskCompletionSource();
        Bench.Run(
            async (request, response) =>
            {
                await gate.Task;
                await Bench.Echo(request, response);
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

    [Fact]
    public void A_pipelined_request_that_goes_on_alone_keeps_its_own_head()
    {
        var gates = new List<TaskCompletionSource>();
        Bench.Run(
            async (request, response) =>
            {
                var gate = new TaskCompletionSource();
                gates.Add(gate);
                await gate.Task;
                await Bench.Echo(request, response);
            },
            bench =>
            {
                FrontEnd[] fronts = [.. Enumerable.Range(0, 4).Select(_ => bench.Connect())];
                for (int i = 0; i < fronts.Length; i++)
                {
                    bench.Send(fronts[i], [.. Wire.Request($"/first{i}"), .. Wire.Request($"/second{i}", more: [("HTTP_X_OWN", new string((char)('a' + i), 500))])]);
                }

                for (int round = 0; round < 2; round++)
                {
                    TaskCompletionSource[] now = [.. gates];
                    gates.Clear();
                    Array.ForEach(now, static gate => gate.SetResult());
                    bench.Settle();
                }

                for (int i = 0; i < fronts.Length; i++)
                {
                    Assert.Equal([$"GET /first{i}", $"GET /second{i}"], fronts[i].Ended.Select(static response => response.BodyText.Split('\n')[0]));
                    Assert.Contains($"X-Own: {new string((char)('a' + i), 500)}\n", fronts[i].Ended[1].BodyText, StringComparison.Ordinal);
                }
            });
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_request_that_waited_for_its_turn_is_answered_although_it_then_ends_at_once(bool keep)
    {
        var gate = new TaskCompletionSource();
        Bench.Run(
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
    public void Bytes_written_before_an_abort_do_not_open_a_stream_that_never_ends() => Bench.Run(
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

    [Fact]
    public void A_body_may_be_read_again_after_its_end() => Bench.Run(
        static async (request, response) =>
        {
            byte[] buffer = new byte[100];
            int total = 0;
            for (int i = 0; i < 4; i++)
            {
                total += await request.ReadAsync(buffer);
            }

            response.WriteText($"{total}");
        },
        static bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, Wire.Request("/")[..^8]);
            Assert.Equal("0", bench.Ask(front, Wire.Record(Wire.Stdin, 1, [])).BodyText);
            Assert.Equal("3", bench.Ask(front, Wire.Request("/", "POST", [1, 2, 3])).BodyText);
            Assert.Equal("0", bench.Ask(front, Wire.Request("/")).BodyText);
        });

    [Fact]
    public void A_connection_whose_request_ran_long_is_still_closed_when_idle_IdleTimeout()
    {
        var gate = new TaskCompletionSource();
        Bench.Run(
            async (request, response) => await gate.Task,
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, Wire.Request("/long"));
                bench.Pass(TimeSpan.FromSeconds(200));
                Assert.Equal(1, bench.Connections);
                gate.SetResult();
                bench.Settle();
                Assert.Equal(200, Assert.Single(front.Ended).Status);
                bench.Pass(TimeSpan.FromSeconds(128));
                Assert.Equal(1, bench.Connections);
                bench.Pass(TimeSpan.FromSeconds(4));
                Assert.Equal(0, bench.Connections);
            });
    }
}
