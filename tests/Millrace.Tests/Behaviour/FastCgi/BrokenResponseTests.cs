// Responses that fail after their first byte over FastCGI: every byte that was sent arrives, and nothing of what follows can be
// taken for the end of the response. FastCGI 1.0 §3.3, §5.5. What web servers make of it is in Millrace.Interop.

using Millrace.Exchanges;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

public sealed class BrokenResponseTests
{
    private const string Tcp = "fastcgi://127.0.0.1:9000";
    private const string Unix = "fastcgi://unix:/run/simulated.sock";

    private static void Run(int size, Action<FastCgiBench, FrontEnd> test, string address, MillraceOptions? options = null) => FastCgiBench.Run(
        async (request, response) =>
        {
            await response.WriteAsync(Plan.Bytes("part", 0, size));
            await response.FlushAsync();
            throw new InvalidOperationException();
        },
        bench => test(bench, bench.Connect()),
        options,
        address);

    private static void AssertBroken(FrontEnd front, int size, string address)
    {
        Assert.Empty(front.Ended);
        Assert.True(front.IsAtEnd);
        Assert.Equal((address == Tcp, address == Unix), (front.Socket.WasReset, front.IsBrokenOff));
        ReceivedResponse open = Assert.Single(front.Open).Value;
        Assert.Equal(Plan.Bytes("part", 0, size), open.Body.ToArray());
        Assert.False(open.StdoutEnded);
        Assert.Contains("unhandled", open.ErrorText, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(0, Tcp)]
    [InlineData(1_000, Tcp)]
    [InlineData(100_000, Tcp)]
    [InlineData(0, Unix)]
    [InlineData(1_000, Unix)]
    [InlineData(100_000, Unix)]
    public void A_response_that_fails_has_no_end_and_is_broken_off_when_the_front_server_has_the_rest_FastCGI_5_5(int size, string address) => Run(
        size,
        (bench, front) =>
        {
            bench.Send(front, Wire.Request("/"));
            Assert.False(front.IsAtEnd || front.IsBrokenOff);
            bench.Pass(TimeSpan.FromMilliseconds(200));
            AssertBroken(front, size, address);
        },
        address);

    // Apache answers 503, and nginx nothing, where a response is broken off of which they have the head alone. HAProxy has sent the next request, somebody else's,
    // where it has all the bytes of a Content-Length.
    [Theory]
    [InlineData("HEAD", 200, -1, Tcp)]
    [InlineData("HEAD", 200, -1, Unix)]
    [InlineData("HEAD", 200, 1_000, Unix)]
    [InlineData("GET", 204, -1, Tcp)]
    [InlineData("GET", 204, -1, Unix)]
    [InlineData("GET", 205, -1, Unix)]
    [InlineData("GET", 304, -1, Unix)]
    [InlineData("GET", 200, 0, Tcp)]
    [InlineData("GET", 200, 1_000, Tcp)]
    [InlineData("GET", 200, 100_000, Unix)]
    public void A_response_that_is_whole_ends_although_its_handler_fails_FastCGI_5_5(string method, int status, int length, string address) => FastCgiBench.Run(
        async (request, response) =>
        {
            if (request.Path == "/still")
            {
                response.WriteText("GET /still");
                return;
            }

            response.StatusCode = status;
            response.ContentLength = length < 0 ? null : length;
            await response.WriteAsync(Plan.Bytes("part", 0, Math.Max(0, length)));
            await response.FlushAsync();
            throw new InvalidOperationException();
        },
        bench =>
        {
            FrontEnd front = bench.Connect();
            ReceivedResponse whole = bench.Ask(front, Wire.Request("/", method));
            Assert.Equal((status, 1u), (whole.Status, whole.AppStatus));
            Assert.Equal(Plan.Bytes("part", 0, method == "HEAD" ? 0 : Math.Max(0, length)), whole.Body.ToArray());
            Assert.Contains("unhandled", whole.ErrorText, StringComparison.Ordinal);
            bench.Pass(TimeSpan.FromMilliseconds(200));
            bench.StillServes(front);
        },
        address: address);

    [Theory]
    [InlineData(Tcp)]
    [InlineData(Unix)]
    public void A_front_server_that_reads_slowly_gets_all_of_what_was_sent_before_the_break_FastCGI_5_5(string address) => Run(
        1_000_000,
        (bench, front) =>
        {
            bench.Reads = false;
            bench.Send(front, Wire.Request("/"));
            for (int i = 0; i < 100 && !front.IsAtEnd; i++)
            {
                _ = front.Read(20_000);
                bench.Pass(TimeSpan.FromSeconds(5));
            }

            AssertBroken(front, 1_000_000, address);
            bench.Reads = true;
        },
        address,
        Bench.Options(static options => options.SendTimeout = TimeSpan.FromSeconds(40)));

    // Over a Unix socket its record is filled up, since what shows the break is a record; and nothing else goes into the body, the error least of all.
    [Theory]
    [InlineData(200_000, 120_000, Tcp)]
    [InlineData(16 * 1024, 8_000, Tcp)]
    [InlineData(16 * 1024, 0, Tcp)]
    [InlineData(200_000, 120_000, Unix)]
    [InlineData(16 * 1024, 8_000, Unix)]
    [InlineData(16 * 1024, 0, Unix)]
    [InlineData(16 * 1024, -1, Tcp)]
    [InlineData(16 * 1024, -1, Unix)]
    public void A_file_that_ends_early_or_cannot_be_read_breaks_the_response_off_behind_its_last_byte_FastCGI_3_3(int size, int there, string address)
    {
        const int File = 77;
        FastCgiBench? current = null;
        Exception? seen = null;
        FastCgiBench.Run(
            async (request, response) =>
            {
                Exchange exchange = current!.Simulation.Handler.Current!;
                seen = await Record.ExceptionAsync(() => exchange.SendSimulatedFileAsync(File, size));
                Assert.Throws<InvalidOperationException>(() => response.Write("behind"u8));
                await response.FlushAsync();
                throw seen!;
            },
            bench =>
            {
                current = bench;
                bench.Simulation.World.Files[File] = there < 0 ? null : Plan.Bytes("part", 0, there);
                FrontEnd front = bench.Connect();
                bench.Send(front, Wire.Request("/"));
                Assert.IsType<IOException>(seen);
                Assert.False(front.IsAtEnd);
                bench.Pass(TimeSpan.FromMilliseconds(200));
                Assert.True(front.IsAtEnd);
                Assert.Empty(front.Ended);
                Assert.Equal((address == Tcp, address == Unix), (front.Socket.WasReset, front.IsBrokenOff));
                Assert.Equal(0, bench.Connections);
                ReceivedResponse open = Assert.Single(front.Open).Value;
                int arrived = Math.Min(open.Body.Length, Math.Max(0, there));
                Assert.Equal(Math.Max(0, there), arrived + front.OpenContent);
                Assert.Equal(Plan.Bytes("part", 0, arrived), open.Body[..arrived].ToArray());
                Assert.Equal(-1, open.Body[arrived..].IndexOfAnyExcept((byte)0));
                Assert.Equal("", open.ErrorText);
            },
            address: address);
    }

    // The file waits for its peer, and the write for the file. Whether the handler waits for the write or has ended before it.
    [Theory]
    [InlineData(true, Tcp)]
    [InlineData(false, Tcp)]
    [InlineData(true, Unix)]
    [InlineData(false, Unix)]
    public void A_write_that_follows_a_file_that_ends_early_is_not_taken_for_its_bytes_FastCGI_3_3(bool awaits, string address)
    {
        const int File = 77;
        FastCgiBench? current = null;
        (Exception? File, Exception? Behind) seen = default;
        FastCgiBench.Run(
            async (request, response) =>
            {
                Exchange exchange = current!.Simulation.Handler.Current!;
                Task file = exchange.SendSimulatedFileAsync(File, 2_000_000);
                Task behind = response.WriteAsync("behind"u8.ToArray()).AsTask();
                Assert.False(behind.IsCompleted);
                Task noted = Note(behind);
                seen.File = await Record.ExceptionAsync(() => file);
                if (awaits)
                {
                    await noted;
                }

                throw seen.File!;
            },
            bench =>
            {
                current = bench;
                bench.Simulation.World.Files[File] = Plan.Bytes("part", 0, 1_900_000);
                bench.Reads = false;
                FrontEnd front = bench.Connect();
                bench.Send(front, Wire.Request("/"));
                for (int i = 0; i < 100 && !front.IsAtEnd; i++)
                {
                    _ = front.Read(50_000);
                    bench.Pass(TimeSpan.FromMilliseconds(50));
                }

                bench.Reads = true;
                Assert.IsType<IOException>(seen.File);
                Assert.IsType<InvalidOperationException>(seen.Behind);
                Assert.Equal((address == Tcp, address == Unix), (front.Socket.WasReset, front.IsBrokenOff));
                ReceivedResponse open = Assert.Single(front.Open).Value;
                int arrived = Math.Min(open.Body.Length, 1_900_000);
                Assert.Equal(1_900_000, arrived + front.OpenContent);
                Assert.Equal(Plan.Bytes("part", 0, arrived), open.Body[..arrived].ToArray());
                Assert.Equal(-1, open.Body[arrived..].IndexOfAnyExcept((byte)0));
                Assert.Empty(front.Ended);
            },
            address: address);

        async Task Note(Task behind) => seen.Behind = await Record.ExceptionAsync(() => behind);
    }

    // To nginx the mere end of the connection is the end of a response without a length.
    [Theory]
    [InlineData(Tcp)]
    [InlineData(Unix)]
    public void A_response_that_the_end_of_the_drain_cuts_ends_within_a_record_DrainTimeout(string address) => FastCgiBench.Run(
        static async (request, response) =>
        {
            response.WriteText("part");
            await response.FlushAsync();
            await Bench.Cancelled(request.Aborted);
        },
        static bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, Wire.Request("/"));
            bench.Drain();
            bench.Cut();
            Assert.True(front.IsAtEnd && front.IsBrokenOff);
            Assert.Equal("part", Assert.Single(front.Open).Value.BodyText);
        },
        address: address);

    // ---- a front server that waits no longer for the response, before anything has shown that it failed ----

    // HAProxy, whose client has gone: it says nothing, or ABORT_REQUEST, and the connection is the next client's.
    [Theory]
    [InlineData("next", "async", Tcp)]
    [InlineData("next", "async", Unix)]
    [InlineData("next", "inline", Tcp)]
    [InlineData("next", "inline", Unix)]
    [InlineData("ABORT next", "async", Tcp)]
    [InlineData("ABORT next", "async", Unix)]
    [InlineData("ABORT next", "inline", Unix)]
    [InlineData("ABORT", "async", Tcp)]
    [InlineData("ABORT", "async", Unix)]
    [InlineData("ABORT", "inline", Unix)]
    [InlineData("open next", "async", Tcp)]
    [InlineData("open next", "async", Unix)]
    [InlineData("open next", "inline", Unix)]
    [InlineData("open ABORT next", "async", Unix)]
    [InlineData("open more next", "async", Unix)]
    public void A_request_that_failed_midway_ends_when_the_front_server_gives_it_up_and_the_next_is_served_FastCGI_5_4(string what, string how, string address)
    {
        // The client has gone before all of its body was sent, or what is left of that comes as well.
        byte[] failing = what.Contains("open", StringComparison.Ordinal)
            ? [.. Wire.Request("/" + how, "POST", [], withLength: false)[..^8], .. Wire.Record(Wire.Stdin, 1, "part"u8.ToArray())]
            : Wire.Request("/" + how);
        byte[] follows =
        [
            .. what.Contains("more", StringComparison.Ordinal) ? Wire.Stream(Wire.Stdin, 1, "and more"u8.ToArray()) : [],
            .. what.Contains("ABORT", StringComparison.Ordinal) ? Wire.Record(Wire.Abort, 1, []) : [],
            .. what.Contains("next", StringComparison.Ordinal) ? Wire.Request("/still", id: 3) : [],
        ];
        for (int cut = 0; cut <= follows.Length; cut++)
        {
            Fails(address, (bench, fail) =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MPXS_CONNS", ""))));
                if (cut % 7 == 3)
                {
                    bench.Send(front, [.. failing, .. follows.AsSpan(0, cut)]);     // all in one read
                }
                else
                {
                    bench.Send(front, failing);
                    fail();
                    bench.Pass(TimeSpan.FromMilliseconds(10));
                    bench.Send(front, follows.AsSpan(0, cut));
                }

                bench.Send(front, follows.AsSpan(cut));
                fail();
                bench.Pass(TimeSpan.FromMilliseconds(500));
                Assert.Equal((1, 0), (front.Ended[0].Id, front.Ended[0].ProtocolStatus));
                Assert.Equal(what.Contains("next", StringComparison.Ordinal) ? ["GET /still"] : [], front.Ended.Skip(1).Select(static ended => ended.BodyText));
                bench.StillServes(front, id: 5);
                Assert.Equal(0, bench.Refused("multiplexed"));
                bench.Pass(TimeSpan.FromSeconds(100));
                bench.StillServes(front);
            });
        }
    }

    [Fact]
    public void GET_VALUES_that_a_failure_cuts_in_two_is_no_part_of_the_next_one_FastCGI_4_1() => Fails(Unix, static (bench, fail) =>
    {
        byte[] cut = Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MAX_CONNS", "")));
        byte[] asked = Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MAX_REQS", "")));
        FrontEnd front = bench.Connect();
        bench.Send(front, Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MPXS_CONNS", ""))));
        bench.Send(front, [.. Wire.Request("/async"), .. cut[..^3]]);
        fail();
        bench.Pass(TimeSpan.FromMilliseconds(10));
        bench.Send(front, [.. cut[^3..], .. Wire.Record(Wire.Abort, 1, [])]);
        bench.Send(front, asked.AsSpan(0, asked.Length - 3));
        bench.Send(front, asked.AsSpan(asked.Length - 3));
        Assert.Equal(Wire.Pairs(("FCGI_MAX_REQS", "65536")), front.Management[^1].Content);
        bench.StillServes(front);
    });

    // Whoever multiplexes, or may, still waits for the first; what goes on with bytes that are none, or has closed, has nothing to go on with.
    [Theory]
    [InlineData("another")]
    [InlineData("same")]
    [InlineData("counts another")]
    [InlineData("asks same")]
    [InlineData("asks garbage another")]
    [InlineData("asks faulty another")]
    [InlineData("asks same abort")]
    [InlineData("asks filter")]
    [InlineData("asks late another")]
    [InlineData("asks closing another")]
    [InlineData("asks closing abort")]
    [InlineData("asks drain another")]
    public void A_response_that_failed_is_broken_off_while_anybody_may_wait_for_it_FastCGI_5_5(string what)
    {
        Fails(Unix, (bench, fail) =>
        {
            FrontEnd front = bench.Connect();
            foreach (string word in what.Split(' '))
            {
                switch (word)
                {
                    case "asks" or "counts":
                        bench.Send(front, Wire.Record(Wire.GetValues, 0, Wire.Pairs((word == "asks" ? "FCGI_MPXS_CONNS" : "FCGI_MAX_CONNS", ""))));
                        break;
                    case "late":
                        Begin(keep: true);
                        bench.Pass(TimeSpan.FromMilliseconds(200));
                        break;
                    case "drain":
                        Begin(keep: true);
                        bench.Drain();
                        break;
                    case "closing":
                        Begin(keep: false);
                        break;
                    case "garbage":
                        Begin(keep: true);
                        bench.Send(front, new byte[8]);
                        break;
                    case "faulty":
                        Begin(keep: true);
                        bench.Send(front, Wire.Record(Wire.Begin, 3, new byte[4]));
                        break;
                    case "abort":
                        bench.Send(front, Wire.Record(Wire.Abort, 1, []));
                        break;
                    case "filter":
                        Begin(keep: true);
                        bench.Send(front, Wire.BeginRequest(id: 3, role: 3));
                        break;
                    default:
                        Begin(keep: true);
                        bench.Send(front, Wire.Request("/still", id: word == "same" ? 1 : 3));
                        break;
                }
            }

            bench.Pass(TimeSpan.FromMilliseconds(500));
            Assert.True(front.IsBrokenOff || what.Contains("closing", StringComparison.Ordinal));
            Assert.True(front.IsAtEnd);
            Assert.Empty(front.Ended);
            Assert.Equal(1_000, front.Open[1].Body.Length);

            void Begin(bool keep)
            {
                if (front.Open.Count == 0)
                {
                    bench.Send(front, Wire.Request("/async", keep: keep));
                    fail();
                }
            }
        });
    }

    // Over TCP a part of a record shows the break, and the connection ends: AbortTests.
    [Fact]
    public void A_file_left_half_sent_over_a_Unix_socket_by_a_request_that_was_given_up_is_filled_up_and_the_next_one_is_answered_FastCGI_5_4()
    {
        const int File = 77, Size = 60_000, Capacity = 10_000;
        FastCgiBench? current = null;
        FastCgiBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/next")
                {
                    response.WriteText("GET /next");
                    return;
                }

                _ = current!.Simulation.Handler.Current!.SendSimulatedFileAsync(File, Size);
                await Bench.Cancelled(request.Aborted);
            },
            bench =>
            {
                current = bench;
                bench.Simulation.World.Files[File] = Plan.Bytes("file", 0, Size);
                bench.Simulation.World.SendCapacityMax = Capacity;
                FrontEnd front = bench.Connect();
                bench.Reads = false;
                bench.Send(front, Wire.Request("/"));
                bench.Send(front, [.. Wire.Record(Wire.Abort, 1, []), .. Wire.Request("/next", id: 3)]);
                bench.Reads = true;
                bench.Pass(TimeSpan.FromMilliseconds(200));

                Assert.Equal([1, 3], front.Ended.Select(static end => end.Id));
                byte[] body = front.Ended[0].Body.ToArray();
                int sent = body.AsSpan().CommonPrefixLength(Plan.Bytes("file", 0, Size));
                Assert.InRange(sent, 1, Size - 1);
                Assert.Equal(body.Length, body.AsSpan(sent).Count((byte)0) + sent);
                Assert.Equal("GET /next", front.Ended[1].BodyText);
                Assert.False(front.IsAtEnd);
            },
            address: Unix);
    }

    private static void Fails(string address, Action<FastCgiBench, Action> test)
    {
        var failing = new TaskCompletionSource();
        FastCgiBench? current = null;
        FastCgiBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/still")
                {
                    response.WriteText("GET /still");
                    return;
                }

                await response.WriteAsync(Plan.Bytes("part", 0, 1_000));
                await response.FlushAsync();
                if (request.Path == "/async")
                {
                    await failing.Task;
                }

                throw new InvalidOperationException();
            },
            bench =>
            {
                current = bench;
                test(bench, Fail);
            },
            address: address);

        void Fail()
        {
            _ = failing.TrySetResult();
            current!.Settle();
        }
    }
}
