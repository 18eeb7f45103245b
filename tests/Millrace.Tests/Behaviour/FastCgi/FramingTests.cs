// Hostile bytes below the level of requests: records that are wrong, strange or cut anywhere. FastCGI 1.0 §3.3.

using System.Text;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

public sealed class FramingTests
{
    [Theory]
    [InlineData(0)]
    [InlineData(2)]
    [InlineData(255)]
    public void Hostile_01_Another_version_ends_the_connection_and_no_other_FastCGI_3_3(byte version) => FastCgiBench.Run(bench =>
    {
        FrontEnd other = bench.Connect();
        FrontEnd front = bench.Connect();
        bench.Send(front, Wire.Record(Wire.Begin, 1, new byte[8], version: version));
        Assert.True(front.IsAtEnd);
        Assert.Equal(0, front.BytesRead);
        Assert.Equal(1, bench.Refused("fastcgi-version"));
        bench.StillServes(other);
        bench.OthersAreServed();
    });

    [Fact]
    public void Hostile_01_A_handler_that_reads_its_body_is_told_that_the_framing_is_lost_FastCGI_3_3()
    {
        Exception? told = null;
        FastCgiBench.Run(
            async (request, _) =>
            {
                byte[] buffer = new byte[100];
                told = await Record.ExceptionAsync(async () =>
                {
                    while (await request.ReadAsync(buffer) > 0)
                    {
                    }
                });
            },
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/", "POST"))), .. Wire.Record(Wire.Stdin, 1, new byte[10])]);
                Assert.Equal(1, bench.Simulation.Handler.Running);
                bench.Send(front, Wire.Record(Wire.Stdin, 1, new byte[10], version: 2));
                Assert.Equal(0, bench.Simulation.Handler.Running);
                Assert.Contains("FastCGI protocol", Assert.IsType<IOException>(told).Message, StringComparison.Ordinal);
            });
    }

    [Fact]
    public void Hostile_02_Records_may_be_cut_anywhere_FastCGI_3_3() =>
        FastCgiBench.HoweverCut(Wire.Request("/cut?a=b", "POST", Encoding.ASCII.GetBytes("a body of some length")), static (bench, front) =>
        {
            ReceivedResponse response = Assert.Single(front.Ended);
            Assert.Equal(200, response.Status);
            Assert.StartsWith("POST /cut?a=b\npath /cut\nquery ?a=b\n", response.BodyText, StringComparison.Ordinal);
            Assert.Contains("\nbody 21 ", response.BodyText, StringComparison.Ordinal);
            bench.StillServes(front);
        });

    [Fact]
    public void Hostile_03_The_longest_content_and_the_longest_padding_are_taken_FastCGI_3_3() => FastCgiBench.Run(bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/", "POST"))), .. Wire.Record(Wire.Stdin, 1, new byte[65_535], padding: 255)]);
        Assert.Contains("\nbody 65535 ", bench.Ask(front, Wire.Record(Wire.Stdin, 1, [], padding: 255)).BodyText, StringComparison.Ordinal);
        bench.StillServes(front);
    });

    [Fact]
    public void Hostile_04_Records_without_content_may_have_padding_FastCGI_3_3() =>
        FastCgiBench.HoweverCut(
            [
                .. Wire.BeginRequest(), .. Wire.Record(Wire.Params, 1, Wire.Pairs(Wire.Get("/")), padding: 7),
                .. Wire.Record(Wire.Params, 1, [], padding: 255), .. Wire.Record(Wire.Stdin, 1, [], padding: 9),
            ],
            static (bench, front) =>
            {
                Assert.Equal(200, Assert.Single(front.Ended).Status);
                bench.StillServes(front);
            });

    [Fact]
    public void Hostile_05_Reserved_and_padding_bytes_mean_nothing_FastCGI_3_3() =>
        FastCgiBench.HoweverCut(
            [
                .. Wire.Record(Wire.Begin, 1, [0, 1, 1, 9, 9, 9, 9, 9], reserved: 77), .. Wire.Record(Wire.Params, 1, Wire.Pairs(Wire.Get("/")), padding: 30, reserved: 255, paddingByte: 1),
                .. Wire.Record(Wire.Params, 1, [], padding: 3, paddingByte: 4), .. Wire.Record(Wire.Stdin, 1, [], reserved: 1),
            ],
            static (bench, front) =>
            {
                Assert.Equal(200, Assert.Single(front.Ended).Status);
                bench.StillServes(front);
            });

    [Theory]
    [InlineData("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")]
    [InlineData("\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001")]
    [InlineData("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")]
    [InlineData("\u0000")]
    public void Hostile_06_Other_protocols_are_shut_out_at_their_first_byte(string bytes) =>
        FastCgiBench.HoweverCut(Encoding.Latin1.GetBytes(bytes), static (bench, front) =>
        {
            Assert.True(front.IsAtEnd);
            Assert.Equal(0, front.BytesRead);
            bench.OthersAreServed();
        });

    // ---- BEGIN_REQUEST and ids, §5.1 ----

    [Theory]
    [InlineData(0)]
    [InlineData(7)]
    [InlineData(9)]
    [InlineData(65_535)]
    public void Hostile_08_BEGIN_of_another_length_ends_the_connection_FastCGI_5_1(int length) => FastCgiBench.Run(bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, Wire.Record(Wire.Begin, 1, new byte[length]));
        Assert.True(front.IsAtEnd);
        Assert.Equal(1, bench.Refused("fastcgi-begin-length"));
        bench.OthersAreServed();
    });

    [Fact]
    public void Hostile_09_BEGIN_with_id_0_ends_the_connection_FastCGI_3_3() => FastCgiBench.Run(static bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, Wire.BeginRequest(id: 0));
        Assert.True(front.IsAtEnd);
        Assert.Equal(1, bench.Refused("fastcgi-begin-id"));
        bench.OthersAreServed();
    });

    [Fact]
    public void Hostile_10_BEGIN_for_a_request_that_is_still_arriving_ends_the_connection() => FastCgiBench.Run(static bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, [.. Wire.BeginRequest(), .. Wire.BeginRequest()]);
        Assert.True(front.IsAtEnd);
        Assert.Equal(1, bench.Refused("fastcgi-begun-twice"));
        bench.OthersAreServed();
    });

    [Theory]
    [InlineData("fastcgi-begun-twice")]
    [InlineData("fastcgi-begin-length")]
    [InlineData("fastcgi-begin-id")]
    [InlineData("fastcgi-version")]
    public void Nothing_is_read_behind_a_record_that_cannot_be_while_a_handler_runs(string refusal)
    {
        byte[] record = refusal switch
        {
            "fastcgi-begun-twice" => Wire.BeginRequest(),
            "fastcgi-begin-length" => Wire.Record(Wire.Begin, 1, new byte[7]),
            "fastcgi-begin-id" => Wire.BeginRequest(id: 0),
            _ => Wire.Record(Wire.Begin, 1, new byte[8], version: 2),
        };
        var gate = new TaskCompletionSource();
        FastCgiBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/waits")
                {
                    await gate.Task;
                }

                await PlainCall.Echo(request, response);
            },
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/waits", "POST")))]);
                Assert.Equal(1, bench.Simulation.Handler.Running);
                bench.Send(front, [.. record, .. record, .. Wire.BeginRequest(id: 2), .. Wire.Record(Wire.Abort, 1, [])]);
                Assert.True(front.IsAtEnd);
                Assert.Equal((1, 1), (bench.Refused(refusal), bench.RefusedInAll));
                gate.SetResult();
                bench.Settle();
                Assert.Equal((0, 1), (bench.Simulation.Handler.Running, bench.RefusedInAll));
                bench.OthersAreServed();
            });
    }

    [Fact]
    public void Hostile_11_BEGIN_of_another_id_is_refused_and_the_first_goes_on_FastCGI_5_5()
    {
        byte[] pairs = Wire.Pairs(Wire.Get("/first"));
        FastCgiBench.HoweverCut(
            [
                .. Wire.BeginRequest(), .. Wire.Record(Wire.Params, 1, pairs.AsSpan(0, 20)), .. Wire.BeginRequest(id: 2), .. Wire.Record(Wire.Params, 2, [1, 2, 3]),
                .. Wire.Record(Wire.Params, 1, pairs.AsSpan(20)), .. Wire.Record(Wire.Params, 1, []), .. Wire.Record(Wire.Stdin, 2, []), .. Wire.Record(Wire.Stdin, 1, []),
            ],
            static (bench, front) =>
            {
                Assert.Equal(2, front.Ended.Count);
                Assert.Equal((2, 1), (front.Ended[0].Id, front.Ended[0].ProtocolStatus));
                Assert.Equal((1, 0, 200), (front.Ended[1].Id, front.Ended[1].ProtocolStatus, front.Ended[1].Status));
                Assert.Equal(1, bench.Refused("multiplexed"));
                bench.StillServes(front);
            });
    }

    [Fact]
    public void Hostile_12_Every_id_is_taken_and_echoed_FastCGI_3_3() => FastCgiBench.Run(static bench =>
    {
        FrontEnd front = bench.Connect();
        foreach (int id in (int[])[65_535, 1, 3, 5, 7, 255, 256, 32_768, 65_534])
        {
            Assert.Equal(id, bench.Ask(front, Wire.Request("/id", id: id)).Id);
        }
    });

    [Fact]
    public void Hostile_13_Too_many_requests_are_OVERLOADED_and_a_second_id_is_CANT_MPX_CONN_FastCGI_5_5()
    {
        var gate = new TaskCompletionSource();
        FastCgiBench.Run(
            async (request, response) => await gate.Task,
            bench =>
            {
                FrontEnd running = bench.Connect();
                bench.Send(running, Wire.Request("/runs"));
                FrontEnd refused = bench.Connect();
                Assert.Equal(2, bench.Ask(refused, Wire.Request("/too-many")).ProtocolStatus);
                Assert.Equal(1, bench.Refused("too-many-requests"));
                Assert.Equal(1, bench.Ask(running, Wire.BeginRequest(id: 2)).ProtocolStatus);
                Assert.Equal(1, bench.Refused("multiplexed"));
                gate.SetResult();
                bench.Settle();
                Assert.Equal(200, running.Ended[^1].Status);
                Assert.Equal(200, bench.Ask(refused, Wire.Request("/again")).Status);
            },
            new MillraceOptions { Loops = 1, MaxConcurrentRequests = 1, RequestQueueLimit = 0 });
    }

    [Fact]
    public void Hostile_14_Requests_that_begin_and_never_end_cost_little_and_are_closed_in_time() => FastCgiBench.Run(
        static bench =>
        {
            const int Count = 3_000;
            for (int i = 0; i < Count; i++)
            {
                SimulatedSocket socket = bench.Simulation.World.Connect(bench.Simulation.Listener);
                socket.ClientSend(Wire.BeginRequest());
                socket.Deliver(100);
            }

            bench.Settle();
            Assert.Equal(Count, bench.Connections);
            bench.OthersAreServed();
            FrontEnd front = bench.Connect();
            bench.Send(front, [.. Enumerable.Range(1, 10_000).SelectMany(static id => Wire.BeginRequest(id))]);
            Assert.Equal(9_999, front.Ended.Count);
            Assert.All(front.Ended, static ended => Assert.Equal(1, ended.ProtocolStatus));
            bench.Pass(TimeSpan.FromSeconds(31));
            Assert.Equal(1, bench.Connections);
            Assert.Equal(Count + 1, bench.Refused("head-timeout"));
        });

    [Theory]
    [InlineData(0)]
    [InlineData(2)]
    [InlineData(3)]
    [InlineData(99)]
    public void Hostile_15_Other_roles_are_UNKNOWN_ROLE_FastCGI_5_5(int role) => FastCgiBench.Run(bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, [.. Wire.BeginRequest(role: role), .. Wire.Record(Wire.Params, 1, Wire.Pairs(Wire.Get("/"))), .. Wire.Record(Wire.Params, 1, []), .. Wire.Record(Wire.Stdin, 1, [])]);
        Assert.Equal(3, Assert.Single(front.Ended).ProtocolStatus);
        Assert.Equal(1, bench.Refused("unknown-role"));
        bench.StillServes(front);
        FrontEnd closing = bench.Connect();
        bench.Send(closing, Wire.BeginRequest(role: role, keep: false));
        Assert.Equal(3, Assert.Single(closing.Ended).ProtocolStatus);
        Assert.True(closing.IsAtEnd);
    });

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Hostile_15_Another_role_behind_a_request_that_runs_is_refused_behind_its_end_FastCGI_5_5(bool keep)
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
                FrontEnd front = bench.Connect();
                bench.Send(front, Wire.Request("/first"));
                bench.Send(front, [.. Wire.BeginRequest(role: 2, keep: keep), .. Wire.Record(Wire.Params, 1, Wire.Pairs(Wire.Get("/"))), .. Wire.Record(Wire.Params, 1, []), .. Wire.Record(Wire.Stdin, 1, [])]);
                Assert.Empty(front.Ended);
                gate.SetResult();
                bench.Settle();
                Assert.Equal([0, 3], front.Ended.Select(static response => response.ProtocolStatus));
                Assert.Equal(200, front.Ended[0].Status);
                Assert.Equal((1, 0), (bench.Refused("unknown-role"), bench.Refused("multiplexed")));
                Assert.Equal(!keep, front.IsAtEnd);
                if (keep)
                {
                    bench.StillServes(front);
                }
            });
    }

    [Fact]
    public void Hostile_16_Reserved_flag_bits_mean_nothing_FastCGI_5_1() => FastCgiBench.Run(static bench =>
    {
        byte[] rest = Wire.Request("/flags")[16..];
        FrontEnd front = bench.Connect();
        Assert.Equal(200, bench.Ask(front, [.. Wire.BeginRequest(extraFlags: 0xFE), .. rest]).Status);
        bench.StillServes(front);
        Assert.Equal(200, bench.Ask(front, [.. Wire.BeginRequest(keep: false, extraFlags: 0xFE), .. rest]).Status);
        Assert.True(front.IsAtEnd);
    });
}
