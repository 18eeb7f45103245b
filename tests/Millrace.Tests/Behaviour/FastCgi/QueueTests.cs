// What a front server says about a request that waits for its turn (MaxConcurrentRequests): that it gives the request up, by
// ABORT_REQUEST or by the next one, or something that is none of the request's business. FastCGI 1.0 §4, §5.4.

using System.Text;
using Millrace.Protocols.FastCgi;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

public sealed class QueueTests
{
    private readonly Queue<TaskCompletionSource> _running = new();
    private readonly List<string> _run = [];

    private async ValueTask Handle(Request request, Response response)
    {
        _run.Add(request.Path);
        var gate = new TaskCompletionSource();
        _running.Enqueue(gate);
        byte[] buffer = new byte[10_000];
        long length = 0;
        for (int count; (count = await request.ReadAsync(buffer)) > 0;)
        {
            length += count;
        }

        await gate.Task;
        response.WriteText($"{request.Path} {length}");
    }

    private void Run(Action<FastCgiBench> test, int maxDiscardBytes = 16 * 1024 * 1024) => FastCgiBench.Run(
        Handle,
        bench =>
        {
            FrontEnd first = bench.Connect();
            bench.Send(first, Wire.Request("/first"));
            test(bench);
            while (_running.Count > 0)
            {
                Ends(bench);
            }
        },
        new MillraceOptions { Loops = 1, MaxConcurrentRequests = 1, RequestQueueLimit = 1, MaxDiscardBytes = maxDiscardBytes });

    private void Ends(FastCgiBench bench)
    {
        _running.Dequeue().SetResult();
        bench.Settle();
    }

    private void AssertPlaceIsFree(FastCgiBench bench)
    {
        FrontEnd patient = bench.Connect();
        bench.Send(patient, Wire.Request("/patient"));
        Assert.Empty(patient.Ended);
        Ends(bench);
        Ends(bench);
        Assert.Equal("/patient 0", Assert.Single(patient.Ended).BodyText);
        Assert.Equal(["/first", "/patient"], _run);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1_000)]
    [InlineData(40_000)]
    public void ABORT_ends_a_waiting_request_at_once_and_its_place_is_for_others_FastCGI_5_4(int body)
    {
        byte[] request = Wire.Request("/aborted");
        if (body > 0)
        {
            request = [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/aborted", "POST", ("CONTENT_LENGTH", "50000")))), .. Wire.Stream(Wire.Stdin, 1, new byte[body], ends: false)];
        }

        byte[] bytes = [.. request, .. Wire.Record(Wire.Abort, 1, [])];
        foreach (int cut in (int[])[0, request.Length - 20, request.Length, request.Length + 4, bytes.Length])
        {
            _run.Clear();
            Run(bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, bytes.AsSpan(0, cut));
                bench.Send(front, bytes.AsSpan(cut));
                ReceivedResponse end = Assert.Single(front.Ended);
                Assert.Equal((0, 0L), (end.ProtocolStatus, end.Stdout.Length));
                Assert.False(front.IsAtEnd);
                AssertPlaceIsFree(bench);
                Assert.Equal(0, bench.RefusedInAll);
            });
        }
    }

    [Fact]
    public void The_next_request_gives_a_waiting_one_up_where_one_at_a_time_is_known_FastCGI_5_4() => Run(bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MPXS_CONNS", ""))));
        bench.Send(front, Wire.Request("/given-up"));
        bench.Send(front, Wire.Request("/next", id: 3));
        Assert.Equal((1, 0), (Assert.Single(front.Ended).Id, front.Ended[0].ProtocolStatus));
        Ends(bench);
        Ends(bench);
        Assert.Equal("/next 0", front.Ended[1].BodyText);
        Assert.Equal(["/first", "/next"], _run);
    });

    [Fact]
    public void Management_records_are_answered_while_a_request_waits_FastCGI_4_1() => Run(bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, Wire.Request("/waits"));
        bench.Send(front, Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MPXS_CONNS", ""))));
        Assert.Single(front.Management);
        Ends(bench);
        Ends(bench);
        Assert.Equal("/waits 0", Assert.Single(front.Ended).BodyText);
    });

    [Fact]
    public void A_body_that_comes_while_its_request_waits_is_whole_FastCGI_5_3() => Run(bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/waits", "POST", ("CONTENT_LENGTH", "500000"))))]);
        bench.Send(front, Wire.Stream(Wire.Stdin, 1, new byte[500_000]));
        Ends(bench);
        Ends(bench);
        Assert.Equal("/waits 500000", Assert.Single(front.Ended).BodyText);
    });

    [Fact]
    public void A_request_that_waits_does_not_keep_the_loop_from_others_whatever_comes_behind_it() => Run(bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, Wire.Request("/waits"));
        bench.SendInTurns(front, [.. Enumerable.Repeat(Wire.Record(Wire.Data, 9, new byte[10_000]), 20).SelectMany(static record => record)]);
        Ends(bench);
        Ends(bench);
        Assert.Equal("/waits 0", Assert.Single(front.Ended).BodyText);
    });

    [Fact]
    public void A_request_that_runs_does_not_keep_the_loop_from_others_whatever_comes_behind_it() => FastCgiBench.Run(
        Handle,
        bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, Wire.Request("/runs"));
            bench.SendInTurns(front, [.. Enumerable.Repeat(Wire.Record(Wire.Data, 9, new byte[10_000]), 20).SelectMany(static record => record)]);
            Ends(bench);
            Assert.Equal("/runs 0", Assert.Single(front.Ended).BodyText);
        });

    // An abort may lie behind it.
    [Fact]
    public void Of_the_body_of_a_request_that_waits_no_more_than_a_part_is_read_FastCGI_5_4() => Run(bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/waits", "POST", ("CONTENT_LENGTH", "200000"))))]);
        bench.Send(front, Wire.Stream(Wire.Stdin, 1, new byte[200_000]));
        Assert.InRange(front.Socket.TakenByServer, 64 * 1024, 128 * 1024);
        Ends(bench);
        Ends(bench);
        Assert.Equal("/waits 200000", Assert.Single(front.Ended).BodyText);
    });

    [Fact]
    public void A_role_that_is_refused_under_the_id_of_a_waiting_request_is_ended_behind_it_FastCGI_5_5() => Run(bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, Wire.Request("/waits"));
        bench.Send(front, Wire.BeginRequest(role: 2));
        Ends(bench);
        Assert.Empty(front.Ended);
        Ends(bench);
        Assert.Equal([0, 3], front.Ended.Select(static response => (int)response.ProtocolStatus));
        Assert.Equal("/waits 0", front.Ended[0].BodyText);
    });

    // One whose own end leaves in its turn, since callbacks come behind it.
    [Fact]
    public void A_role_that_is_refused_under_the_id_of_a_waiting_request_is_ended_behind_it_at_once_FastCGI_5_5()
    {
        var first = new TaskCompletionSource();
        FastCgiBench.RunHosted(
            context =>
            {
                context.Response.OnCompleted(static () => Task.CompletedTask);
                return context.Request.Path == "/first" ? first.Task : Task.CompletedTask;
            },
            bench =>
            {
                bench.Send(bench.Connect(), Wire.Request("/first"));
                FrontEnd front = bench.Connect();
                bench.Send(front, Wire.Request("/waits"));
                bench.Send(front, Wire.BeginRequest(role: 2));
                first.SetResult();
                bench.Settle();
                Assert.Equal([0, 3], front.Ended.Select(static response => (int)response.ProtocolStatus));
                bench.Send(front, Wire.Request("/next"));
                Assert.Equal([0, 3, 0], front.Ended.Select(static response => (int)response.ProtocolStatus));
            },
            new MillraceOptions { Loops = 1, MaxConcurrentRequests = 1, RequestQueueLimit = 1 });
    }

    // It has asked for the end of the connection, which comes behind the one that is answered.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_request_that_is_refused_beside_a_waiting_one_ends_the_connection_behind_it_FastCGI_5_1_FCGI_KEEP_CONN(bool keep) => Run(bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, Wire.Request("/waits"));
        bench.Send(front, Wire.BeginRequest(role: 3, keep: keep));
        Ends(bench);
        Ends(bench);
        Assert.Equal([0, 3], front.Ended.Select(static response => (int)response.ProtocolStatus));
        Assert.Equal("/waits 0", front.Ended[0].BodyText);
        Assert.Equal(!keep, front.IsAtEnd);
    });

    // A turn ends with the deadlines, and what it then hears of goes before what they have posted.
    [Fact]
    public void A_request_that_begins_to_wait_as_the_time_of_another_ends_has_all_of_its_own_RequestQueueTimeout()
    {
        int turns = 0;
        Run(bench =>
        {
            _ = Waiting(bench);
            for (; !bench.Simulation.Loops[0].Loop.HasPosted; turns++)
            {
                PassTurn(bench);
            }

            bench.Settle();
            Assert.Equal(1, bench.Refused("queue-timeout"));
        });
        Run(bench =>
        {
            FrontEnd front = Waiting(bench);
            for (int turn = 1; turn < turns; turn++)
            {
                PassTurn(bench);
            }

            front.Socket.ClientSend(Wire.Request("/next", id: 3));
            _ = front.Socket.Deliver(int.MaxValue);
            PassTurn(bench);
            Assert.True(bench.Simulation.Loops[0].Loop.HasPosted);
            bench.Settle();
            Assert.Equal((1, 0, 0L), (Assert.Single(front.Ended).Id, front.Ended[0].ProtocolStatus, front.Ended[0].Stdout.Length));
            Assert.Equal(0, bench.Refused("queue-timeout"));

            bench.Pass(TimeSpan.FromSeconds(28));
            Ends(bench);
            Ends(bench);
            Assert.Equal("/next 0", front.Ended[1].BodyText);
        });
    }

    // It may be given up by the next one.
    private static FrontEnd Waiting(FastCgiBench bench)
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MPXS_CONNS", ""))));
        bench.Send(front, Wire.Request("/given-up"));
        bench.Pass(TimeSpan.FromSeconds(29));
        return front;
    }

    private static void PassTurn(FastCgiBench bench)
    {
        bench.Simulation.World.NowMs += 100;
        _ = bench.Simulation.Loops[0].Turn(0);
    }

    [Fact]
    public void Broken_framing_behind_a_waiting_request_ends_the_connection_and_frees_its_place_FastCGI_3_3() => Run(bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, Wire.Request("/broken"));
        bench.Send(front, Encoding.ASCII.GetBytes("GET / HTTP/1.1\r\n\r\n"));
        Assert.True(front.IsAtEnd);
        Assert.Equal(1, bench.Refused("fastcgi-version"));
        AssertPlaceIsFree(bench);
    });

    // What was asked before is answered first, and that answer is in the driver's hands when the fault is found.
    [Theory]
    [InlineData("bytes that are no record")]
    [InlineData("a BEGIN_REQUEST that is not 8 bytes")]
    [InlineData("a second BEGIN_REQUEST")]
    public void What_ends_a_connection_behind_a_question_ends_it_while_its_request_waits_too_FastCGI_3_3(string what) => Run(bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/broken", "POST", ("CONTENT_LENGTH", "5"))))]);
        byte[] fault = what switch
        {
            "bytes that are no record" => Encoding.ASCII.GetBytes("GET / HTTP/1.1\r\n\r\n"),
            "a BEGIN_REQUEST that is not 8 bytes" => Wire.Record(Wire.Begin, 1, new byte[7]),
            _ => Wire.BeginRequest(),
        };
        bench.Send(front, [.. Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MAX_CONNS", ""))), .. fault]);
        Assert.True(front.IsAtEnd);
        Assert.Single(front.Management);
        Assert.Equal(1, bench.RefusedInAll);
        AssertPlaceIsFree(bench);
    });

    [Theory]
    [InlineData(0, false)]
    [InlineData(0, true)]
    [InlineData(1, false)]
    [InlineData(1, true)]
    public void Too_much_for_nobody_behind_a_waiting_request_ends_it_and_what_follows_is_never_run_MaxDiscardBytes(int beyond, bool asks)
    {
        const int Most = 1_000;
        byte[] question = asks ? Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MAX_CONNS", ""))) : [];
        Run(
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, Wire.Request("/waits"));
                byte[] nobodys = Wire.Record(Wire.Data, 9, new byte[Most - RecordHeader.Size + beyond]);
                bench.Send(front, [.. question, .. nobodys, .. beyond > 0 ? Wire.Request("/second") : []]);
                Assert.Equal((beyond > 0, beyond), (front.IsAtEnd, bench.Refused("discard-limit")));
                Assert.Equal(asks ? 1 : 0, front.Management.Count);
                if (beyond > 0)
                {
                    AssertPlaceIsFree(bench);
                    return;
                }

                Ends(bench);
                Ends(bench);
                Assert.Equal("/waits 0", Assert.Single(front.Ended).BodyText);
            },
            Most);
    }

    // Its exchange may be writing at this moment, on any thread.
    [Fact]
    public void An_answer_to_a_management_record_is_sent_while_nobody_else_can_send_FastCGI_4_1()
    {
        var gate = new TaskCompletionSource();
        Millrace.Exchanges.Exchange? its = null;
        bool? isHeld = null;
        FastCgiBench.Run(
            async (request, response) =>
            {
                its = new PlainCall(request, response).Exchange;
                await gate.Task;
            },
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, Wire.Request("/"));
                Task another = Task.CompletedTask;
                bench.Simulation.World.InSend = () =>
                {
                    bench.Simulation.World.InSend = null;
                    another = Task.Run(() => its!.Sending.Hold().Dispose());
                    isHeld = !another.Wait(100);
                };
                bench.Send(front, Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MAX_CONNS", ""))));
                Assert.Single(front.Management);
                Assert.True(isHeld);
                another.Wait();
                gate.SetResult();
                bench.Settle();
            });
    }

    // The socket has taken a part of a record, and has a little room again that nothing tells of.
    [Fact]
    public void An_answer_to_a_management_record_waits_for_the_end_of_the_record_that_has_begun_FastCGI_3_3()
    {
        var gate = new TaskCompletionSource();
        FastCgiBench.Run(
            async (request, response) =>
            {
                response.Write(Plan.Bytes("part", 0, 3_000));
                _ = response.FlushAsync().AsTask();
                await gate.Task;
            },
            bench =>
            {
                bench.Simulation.World.SendCapacityMax = 1_000;
                FrontEnd front = bench.Connect();
                bench.Reads = false;
                bench.Send(front, Wire.Request("/"));
                Assert.Equal(1_000, front.Socket.SentByServer);
                _ = front.Read(100);
                bench.Send(front, Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MAX_CONNS", ""))));
                bench.Reads = true;
                bench.Settle();
                Assert.Single(front.Management);
                gate.SetResult();
                bench.Settle();
                Assert.Equal(Plan.Bytes("part", 0, 3_000), Assert.Single(front.Ended).Body);
            });
    }
}
