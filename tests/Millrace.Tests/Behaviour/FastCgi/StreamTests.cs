// Hostile sequences of records: streams out of order, unknown ids and types, management records. FastCGI 1.0 §3.3, §4, §5.

using System.Text;
using Millrace.Exchanges;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

public sealed class StreamTests
{
    private static byte[] Head(string target, params (string, string)[] more) =>
        [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get(target, "POST", more)))];

    [Fact]
    public void Hostile_17_Records_for_unknown_ids_are_passed_over_FastCGI_3_3() =>
        FastCgiBench.HoweverCut(
            [
                .. Wire.Record(Wire.Params, 7, [1, 1, 65, 65]), .. Wire.Record(Wire.Stdin, 7, [1]), .. Wire.Record(Wire.Data, 7, [1]), .. Wire.Record(Wire.Abort, 7, []),
                .. Wire.Request("/known"),
            ],
            static (bench, front) =>
            {
                Assert.Equal(200, Assert.Single(front.Ended).Status);
                Assert.Empty(front.Management);
                bench.StillServes(front);
            });

    [Fact]
    public void Hostile_18_PARAMS_after_their_end_are_passed_over_FastCGI_5_2() =>
        FastCgiBench.HoweverCut(
            [.. Head("/late"), .. Wire.Record(Wire.Params, 1, Wire.Pairs(("HTTP_TARDY", "1"))), .. Wire.Record(Wire.Params, 1, []), .. Wire.Record(Wire.Stdin, 1, [1, 2]), .. Wire.Record(Wire.Stdin, 1, [])],
            static (bench, front) =>
            {
                ReceivedResponse response = Assert.Single(front.Ended);
                Assert.Contains("\nbody 2 ", response.BodyText, StringComparison.Ordinal);
                Assert.DoesNotContain("Tardy", response.BodyText, StringComparison.OrdinalIgnoreCase);
                bench.StillServes(front);
            });

    [Fact]
    public void Hostile_19_STDIN_before_the_end_of_PARAMS_ends_the_connection_FastCGI_5_3() => FastCgiBench.Run(static bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, [.. Wire.BeginRequest(), .. Wire.Record(Wire.Params, 1, Wire.Pairs(Wire.Get("/"))), .. Wire.Record(Wire.Stdin, 1, [1])]);
        Assert.True(front.IsAtEnd);
        Assert.Equal(1, bench.Refused("fastcgi-stdin-too-early"));
        bench.OthersAreServed();
    });

    [Fact]
    public void Hostile_20_STDIN_after_its_end_is_passed_over_FastCGI_3_3() =>
        FastCgiBench.HoweverCut(
            [.. Head("/twice"), .. Wire.Record(Wire.Stdin, 1, [1]), .. Wire.Record(Wire.Stdin, 1, []), .. Wire.Record(Wire.Stdin, 1, [2, 3]), .. Wire.Record(Wire.Stdin, 1, [])],
            static (bench, front) =>
            {
                Assert.Contains("\nbody 1 1\n", Assert.Single(front.Ended).BodyText, StringComparison.Ordinal);
                bench.StillServes(front);
            });

    [Fact]
    public void Hostile_21_A_million_records_of_one_byte_are_one_body() => FastCgiBench.Run(static bench =>
    {
        const int Count = 1_000_000;
        byte[] records = new byte[Count * 9];
        byte[] one = Wire.Record(Wire.Stdin, 1, [7]);
        for (int i = 0; i < Count; i++)
        {
            one.CopyTo(records, i * 9);
        }

        FrontEnd front = bench.Connect();
        front.Send(Head("/small"));
        front.Send(records);
        Assert.Contains("\nbody 1000000 ", bench.Ask(front, Wire.Record(Wire.Stdin, 1, [])).BodyText, StringComparison.Ordinal);
        bench.StillServes(front);
    });

    [Fact]
    public void Hostile_22_A_body_that_looks_like_records_is_a_body()
    {
        byte[] smuggled = [.. Wire.Record(Wire.Stdin, 1, []), .. Wire.Request("/smuggled")];
        FastCgiBench.HoweverCut([.. Head("/outer"), .. Wire.Stream(Wire.Stdin, 1, smuggled, recordMax: 11)], (bench, front) =>
        {
            ReceivedResponse response = Assert.Single(front.Ended);
            Assert.StartsWith("POST /outer\n", response.BodyText, StringComparison.Ordinal);
            Assert.Contains($"\nbody {smuggled.Length} ", response.BodyText, StringComparison.Ordinal);
            Assert.Equal(1, bench.Simulation.Handler.Started);
            bench.StillServes(front);
        });
    }

    [Fact]
    public void Hostile_23_DATA_means_nothing_to_a_responder_FastCGI_6_2() =>
        FastCgiBench.HoweverCut([.. Head("/data"), .. Wire.Record(Wire.Data, 1, [1, 2, 3]), .. Wire.Record(Wire.Data, 1, []), .. Wire.Record(Wire.Stdin, 1, [9]), .. Wire.Record(Wire.Stdin, 1, [])],
            static (bench, front) =>
            {
                Assert.Contains("\nbody 1 9\n", Assert.Single(front.Ended).BodyText, StringComparison.Ordinal);
                bench.StillServes(front);
            });

    [Fact]
    public void Hostile_24_Unknown_types_are_answered_with_id_0_and_passed_over_otherwise_FastCGI_4_2() => FastCgiBench.Run(static bench =>
    {
        FrontEnd front = bench.Connect();
        int[] types = [0, .. Enumerable.Range(12, 244)];
        bench.Send(front, [.. types.SelectMany(static type => Wire.Record((byte)type, 0, [1, 2, 3], padding: 5))]);
        Assert.Equal(types.Select(static type => (byte)type), front.Management.Select(static record => record.Content[0]));
        Assert.All(front.Management, static record => Assert.Equal((Wire.UnknownType, 8), (record.Type, record.Content.Length)));
        Assert.All(front.Management, static record => Assert.All(record.Content[1..], static b => Assert.Equal(0, b)));
        Assert.Equal(types.Length, bench.Refused("unknown-type"));
        front.Management.Clear();
        Assert.Equal(200, bench.Ask(front, [.. Head("/types"), .. types.SelectMany(static type => Wire.Record((byte)type, 1, [1])), .. Wire.Record(Wire.Stdin, 1, [])]).Status);
        Assert.Empty(front.Management);
        bench.StillServes(front);
    });

    [Fact]
    public void Hostile_25_Types_that_only_a_server_sends_are_passed_over() => FastCgiBench.Run(static bench =>
    {
        byte[] types = [Wire.End, Wire.Stdout, Wire.Stderr, Wire.GetValuesResult, Wire.UnknownType];
        FrontEnd front = bench.Connect();
        bench.Send(front, [.. types.SelectMany(static type => Wire.Record(type, 0, new byte[8])), .. types.SelectMany(static type => Wire.Record(type, 1, new byte[8]))]);
        Assert.Equal(200, bench.Ask(front, [.. Head("/types"), .. types.SelectMany(static type => Wire.Record(type, 1, new byte[8])), .. Wire.Record(Wire.Stdin, 1, [])]).Status);
        bench.StillServes(front);
    });

    // ---- GET_VALUES, §4.1 ----

    private static readonly (string, string)[] s_allNames = [("FCGI_MAX_CONNS", ""), ("FCGI_MAX_REQS", ""), ("FCGI_MPXS_CONNS", "")];

    [Fact]
    public void Hostile_26_GET_VALUES_says_what_is_enforced_FastCGI_4_1() =>
        FastCgiBench.HoweverCut(Wire.Record(Wire.GetValues, 0, Wire.Pairs([.. s_allNames, ("UNKNOWN", "x")]), padding: 3), static (bench, front) =>
        {
            ReceivedRecord answer = Assert.Single(front.Management);
            Assert.Equal(Wire.GetValuesResult, answer.Type);
            Assert.Equal(Wire.Pairs(("FCGI_MAX_CONNS", "65536"), ("FCGI_MAX_REQS", "65536"), ("FCGI_MPXS_CONNS", "0")), answer.Content);
            bench.StillServes(front);
        });

    [Fact]
    public void Hostile_26_GET_VALUES_answers_a_name_once_and_leaves_out_what_it_does_not_know_FastCGI_4_1() => FastCgiBench.Run(static bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, Wire.Record(Wire.GetValues, 0, [.. Enumerable.Repeat(Wire.Pair("FCGI_MPXS_CONNS", "7"), 1_000).SelectMany(static pair => pair)]));
        bench.Send(front, Wire.Record(Wire.GetValues, 0, Wire.Pairs(("UNKNOWN", ""))));
        bench.Send(front, Wire.Record(Wire.GetValues, 0, [15, 0, 70]));
        bench.Send(front, Wire.Record(Wire.GetValues, 0, new byte[65_535]));
        Assert.Equal(4, front.Management.Count);
        Assert.Equal(Wire.Pairs(("FCGI_MPXS_CONNS", "0")), front.Management[0].Content);
        Assert.All(front.Management[1..], static record => Assert.Empty(record.Content));
        bench.StillServes(front);
    });

    [Fact]
    public void Hostile_26_GET_VALUES_in_the_middle_of_a_request_leaves_it_alone_FastCGI_4_1() =>
        FastCgiBench.HoweverCut(
            [
                .. Wire.BeginRequest(), .. Wire.Record(Wire.GetValues, 0, Wire.Pairs(s_allNames)), .. Wire.Record(Wire.GetValues, 1, Wire.Pairs(s_allNames)),
                .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/", "POST"))), .. Wire.Record(Wire.Stdin, 1, [5]), .. Wire.Record(Wire.GetValues, 0, Wire.Pairs(s_allNames)), .. Wire.Record(Wire.Stdin, 1, []),
            ],
            static (bench, front) =>
            {
                Assert.Equal(2, front.Management.Count);
                Assert.Contains("\nbody 1 5\n", Assert.Single(front.Ended).BodyText, StringComparison.Ordinal);
                bench.StillServes(front);
            });

    [Fact]
    public void Hostile_26_GET_VALUES_without_reading_the_answers_stops_the_reading() => FastCgiBench.Run(static bench =>
    {
        FrontEnd front = bench.Connect();
        front.Send([.. Enumerable.Repeat(Wire.Record(Wire.GetValues, 0, Wire.Pairs(s_allNames)), 40_000).SelectMany(static record => record)]);
        bench.Reads = false;
        bench.Settle();
        Assert.True(front.Socket.InFlight > 0, "the server should have stopped reading");
        Assert.True(front.Socket.Unread <= bench.Simulation.World.SendCapacityMax);
        bench.Reads = true;
        bench.Settle();
        Assert.Equal(40_000, front.Management.Count);
        bench.StillServes(front);
    });

    // The answer waits until a file has been sent; then the response may have room in the socket, and the answer none.
    [Fact]
    public void Hostile_26_GET_VALUES_is_answered_wherever_the_room_behind_a_file_ends()
    {
        const int File = 77;
        const int Size = 26_000;
        FastCgiBench? current = null;
        FastCgiBench.Run(
            async (request, response) => await current!.Simulation.Handler.Current!.SendSimulatedFileAsync(File, Size),
            bench =>
            {
                current = bench;
                bench.Simulation.World.Files[File] = new byte[Size];
                bench.Simulation.World.SendCapacityMax = 18_000;
                for (int room = 8_000; room < 8_300; room++)
                {
                    bench.Reads = true;
                    FrontEnd front = bench.Connect();
                    bench.Reads = false;
                    bench.Send(front, Wire.Request("/"));
                    bench.Send(front, Wire.Record(Wire.GetValues, 0, Wire.Pairs(s_allNames)));
                    _ = front.Read(room);
                    bench.Settle();
                    bench.Reads = true;
                    bench.Settle();
                    Assert.Equal((room, 1), (room, front.Management.Count));
                    Assert.Equal(Size, Assert.Single(front.Ended).Body.Length);
                    front.Socket.ClientClose();
                    bench.Settle();
                    bench.Forget(front);
                }
            });
    }

    // A flush that waits ends with a record: the answer to GET_VALUES goes before what is left, into the room that the peer has made.
    [Fact]
    public void Hostile_26_GET_VALUES_gives_a_peer_that_takes_nothing_more_no_more_than_its_time_SendTimeout() => FastCgiBench.Run(
        static async (request, response) =>
        {
            for (int i = 0; i < 100; i++)
            {
                await response.WriteAsync(new byte[992]);
                await response.FlushAsync();
            }
        },
        static bench =>
        {
            bench.Simulation.World.SendCapacityMax = 10_000;
            FrontEnd front = bench.Connect();
            bench.Reads = false;
            bench.Send(front, Wire.Request("/"));
            bench.Pass(TimeSpan.FromSeconds(1));
            AsksAndIsCutInItsTime(bench, front);
        });

    // The next record finds no room at all: nothing is torn, and the answer to GET_VALUES goes whole into what the peer has taken.
    [Fact]
    public void Hostile_26_GET_VALUES_between_two_records_of_a_response_ends_nobodys_time_SendTimeout()
    {
        var fills = new TaskCompletionSource();
        FastCgiBench.Run(
            async (request, response) =>
            {
                await response.WriteAsync(new byte[1]);
                await response.FlushAsync();
                await fills.Task;
                for (int i = 0; i < 100; i++)
                {
                    await response.WriteAsync(new byte[992]);
                    await response.FlushAsync();
                }
            },
            bench =>
            {
                bench.Simulation.World.SendCapacityMax = 10_000;
                FrontEnd front = bench.Connect();
                bench.Send(front, Wire.Request("/"));
                bench.Pass(TimeSpan.FromSeconds(1));
                bench.Reads = false;
                fills.SetResult();
                bench.Pass(TimeSpan.FromSeconds(1));
                AsksAndIsCutInItsTime(bench, front);
            });
    }

    private static void AsksAndIsCutInItsTime(FastCgiBench bench, FrontEnd front)
    {
        _ = front.Read(600);
        bench.Send(front, Wire.Record(Wire.GetValues, 0, Wire.Pairs(s_allNames)));
        bench.Pass(TimeSpan.FromSeconds(50));
        Assert.Equal((1, 0), (bench.Connections, bench.RefusedInAll));
        bench.Pass(TimeSpan.FromSeconds(15));
        Assert.Equal((0, 1), (bench.Connections, bench.Refused("send-timeout")));
    }

    // What the handler has written and not flushed stays where it is, however the answer finds room.
    [Fact]
    public void Hostile_26_GET_VALUES_is_answered_at_once_beside_a_handler_that_is_silent()
    {
        const int Capacity = 8_000;
        byte[] deferred = [.. Enumerable.Repeat((byte)'a', 20_000)];
        byte[] awaited = [.. Enumerable.Repeat((byte)'b', 1_000)];
        byte[] unflushed = [.. Enumerable.Repeat((byte)'c', 25_000)];
        TaskCompletionSource[] gates = [];
        FastCgiBench.Run(
            async (request, response) =>
            {
                response.Write(deferred);
                await response.FlushAsync();
                await gates[0].Task;
                response.Write(awaited);
                await response.FlushAsync();
                response.Write(unflushed);
                await gates[1].Task;
            },
            bench =>
            {
                bench.Simulation.World.SendCapacityMax = Capacity;
                long flushed = 0;
                for (int room = -1; room < 100; room++)
                {
                    gates = [new(), new()];
                    bench.Reads = true;
                    FrontEnd front = bench.Connect();
                    bench.Reads = false;
                    bench.Send(front, Wire.Request("/"));
                    gates[0].SetResult();
                    bench.Settle();
                    if (room < 0)
                    {
                        bench.Reads = true;
                        bench.Settle();
                        flushed = front.Socket.SentByServer;
                    }
                    else
                    {
                        while (flushed - front.Socket.SentByServer > Capacity)
                        {
                            _ = front.Read();
                            bench.Settle();
                        }

                        // Then so much room is left when the last of what was flushed has been sent.
                        int left = (int)(flushed - front.Socket.SentByServer);
                        _ = front.Read(front.Socket.Unread + left - Capacity + room);
                        bench.Settle();
                        Assert.Equal((flushed, Capacity - room), (front.Socket.SentByServer, front.Socket.Unread));
                        bench.Send(front, Wire.Record(Wire.GetValues, 0, Wire.Pairs(s_allNames)));
                        bench.Reads = true;
                        bench.Settle();
                        Assert.Equal((room, 1), (room, front.Management.Count));
                    }

                    gates[1].SetResult();
                    bench.Settle();
                    Assert.Equal([.. deferred, .. awaited, .. unflushed], Assert.Single(front.Ended).Body);
                    front.Socket.ClientClose();
                    bench.Settle();
                    bench.Forget(front);
                }
            });
    }

    [Fact]
    public void Hostile_26_GET_VALUES_in_a_flood_beside_a_running_request_ends_the_connection()
    {
        var never = new TaskCompletionSource();
        FastCgiBench.Run(
            async (request, response) =>
            {
                using CancellationTokenRegistration registration = request.Aborted.UnsafeRegister(_ => never.TrySetResult(), null);
                await never.Task;
            },
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Reads = false;
                bench.Send(front, [.. Wire.Request("/runs"), .. Enumerable.Repeat(Wire.Record(Wire.GetValues, 0, Wire.Pairs(s_allNames)), 40_000).SelectMany(static record => record)]);
                Assert.True(bench.Refused("control-flood") > 0);
                bench.Reads = true;
                bench.Settle();
                Assert.True(front.IsAtEnd);
            });
    }

    // The record that is one too many comes just when the answers to those before it are to be sent.
    [Fact]
    public void Nothing_is_sent_on_a_connection_that_has_just_been_closed_MaxDiscardBytes() => FastCgiBench.Run(
        static bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, [.. Enumerable.Repeat(Wire.Record(99, 0, []), AnswersInOneSend + 1).SelectMany(static record => record)]);
            Assert.Equal(1, bench.Refused("discard-limit"));
            Assert.True(front.IsAtEnd);
            bench.OthersAreServed();
        },
        new MillraceOptions { Loops = 1, MaxDiscardBytes = AnswersInOneSend * 8 });

    private const int AnswersInOneSend = 32 * 1024 / 16;
}
