// What belongs to whom, over either protocol: buffers, answers and deadlines of a request whose handler outlives its turn,
// waits in the queue or follows another on the same connection; and that nothing of it is left for the next.

using System.Text;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class OwnershipTests(Way way) : SharedTests(way)
{
    [Fact]
    public void A_pipelined_request_that_goes_on_alone_keeps_its_own_head()
    {
        var gates = new List<TaskCompletionSource>();
        Run(
            async call =>
            {
                var gate = new TaskCompletionSource();
                gates.Add(gate);
                await gate.Task;
                await Call.Echo(call);
            },
            bench =>
            {
                Caller[] callers = [.. Enumerable.Range(0, 4).Select(_ => bench.Connect())];
                for (int i = 0; i < callers.Length; i++)
                {
                    (string, string) own = ("X-Own", new string((char)('a' + i), 500));
                    bench.Send(callers[i], [.. callers[i].Request($"/first{i}"), .. callers[i].Request($"/second{i}", fields: own)]);
                }

                for (int round = 0; round < 2; round++)
                {
                    TaskCompletionSource[] now = [.. gates];
                    gates.Clear();
                    Array.ForEach(now, static gate => gate.SetResult());
                    bench.Settle();
                }

                for (int i = 0; i < callers.Length; i++)
                {
                    Assert.Equal([$"GET /first{i}", $"GET /second{i}"], callers[i].Answers.Select(static answer => answer.BodyText.Split('\n')[0]));
                    Assert.Contains($"X-Own: {new string((char)('a' + i), 500)}\n", callers[i].Answers[1].BodyText, StringComparison.Ordinal);
                }
            });
    }

    [Fact]
    public void A_head_that_came_in_pieces_is_the_requests_own()
    {
        var gates = new List<TaskCompletionSource>();
        Run(
            async call =>
            {
                var gate = new TaskCompletionSource();
                gates.Add(gate);
                await gate.Task;
                await Call.Echo(call);
            },
            bench =>
            {
                Caller[] callers = [.. Enumerable.Range(0, 4).Select(_ => bench.Connect())];
                byte[][] requests = [.. callers.Select(static (caller, i) => caller.Request($"/pieces{i}", fields: ("X-Own", new string((char)('a' + i), 500))))];
                for (int at = 0; at < requests[0].Length; at += 60)
                {
                    for (int i = 0; i < callers.Length; i++)
                    {
                        bench.Send(callers[i], requests[i][at..Math.Min(at + 60, requests[i].Length)]);
                    }
                }

                gates.ForEach(static gate => gate.SetResult());
                bench.Settle();
                for (int i = 0; i < callers.Length; i++)
                {
                    string text = Assert.Single(callers[i].Answers).BodyText;
                    Assert.StartsWith($"GET /pieces{i}\n", text, StringComparison.Ordinal);
                    Assert.Contains($"X-Own: {new string((char)('a' + i), 500)}\n", text, StringComparison.Ordinal);
                }
            });
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_request_that_waited_for_its_turn_is_answered_although_it_then_ends_at_once(bool keep)
    {
        var gate = new TaskCompletionSource();
        Run(
            async call =>
            {
                if (call.Path == "/long")
                {
                    await gate.Task;
                }

                call.WriteText(call.Path);
            },
            bench =>
            {
                Caller first = bench.Connect();
                bench.Send(first, first.Request("/long"));
                Caller queued = bench.Connect();
                bench.Send(queued, queued.Request("/queued", keep: keep));
                Assert.Empty(queued.Answers);
                gate.SetResult();
                bench.Settle();
                Assert.Equal("/long", Assert.Single(first.Answers).BodyText);
                Assert.Equal("/queued", Assert.Single(queued.Answers).BodyText);
                Assert.Equal(!keep, queued.IsAtEnd);
            },
            static options => options.MaxConcurrentRequests = 1);
    }

    [Fact]
    public void A_request_that_leaves_while_it_waits_for_its_turn_is_forgotten()
    {
        var gate = new TaskCompletionSource();
        Run(
            async call =>
            {
                if (call.Path == "/long")
                {
                    await gate.Task;
                }
            },
            bench =>
            {
                Caller first = bench.Connect();
                bench.Send(first, first.Request("/long"));
                Caller leaves = bench.Connect();
                bench.Send(leaves, leaves.Request("/leaves"));
                leaves.Socket.ClientReset();
                bench.Settle();
                gate.SetResult();
                bench.Settle();
                Assert.Equal(200, Assert.Single(first.Answers).Status);
                bench.StillServes(first);
                bench.OthersAreServed();
            },
            static options => options.MaxConcurrentRequests = 1);
    }

    [Fact]
    public void A_connection_whose_request_ran_long_is_still_closed_when_idle_IdleTimeout()
    {
        var gate = new TaskCompletionSource();
        Run(
            async call => await gate.Task,
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/long"));
                bench.Pass(TimeSpan.FromSeconds(200));
                Assert.Equal(1, bench.Connections);
                gate.SetResult();
                bench.Settle();
                Assert.Equal(200, Assert.Single(caller.Answers).Status);
                bench.Pass(TimeSpan.FromSeconds(128));
                Assert.Equal(1, bench.Connections);
                bench.Pass(TimeSpan.FromSeconds(4));
                Assert.Equal(0, bench.Connections);
            });
    }

    [Fact]
    public void Nothing_of_a_request_is_left_for_the_next() => Run(
        static async call =>
        {
            if (call.Path == "/loud")
            {
                call.Status = 418;
                call.AddHeader("X-Loud", "yes");
                call.AddHeader("Set-Cookie", "secret=1");
                call.Length = 9;
            }

            string read = "";
            if (call.Path != "/deaf")
            {
                byte[] buffer = new byte[100];
                read = Encoding.ASCII.GetString(buffer, 0, await call.ReadAsync(buffer));
            }

            call.WriteText(call.Path == "/loud" ? "loud body" : $"[{call.Query}][{read}][{string.Join(',', call.Headers.Select(static field => field.Key).Where(static name => name.StartsWith('X')))}]");
            if (call.Path == "/throws")
            {
                throw new InvalidOperationException();
            }
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            foreach (string before in (string[])["/loud?query", "/deaf?query", "/throws?query"])
            {
                _ = bench.Ask(caller, caller.Request(before, "POST", "a body"u8.ToArray(), fields: [("X-Own", "1"), ("X-Other", "2")]));
                Answer quiet = bench.Get(caller, "/quiet");
                Assert.Equal((200, "[][][]", "6"), (quiet.Status, quiet.BodyText, quiet.Field("Content-Length")));
                Assert.DoesNotContain("Loud", quiet.Head, StringComparison.Ordinal);
                Assert.DoesNotContain("Cookie", quiet.Head, StringComparison.Ordinal);
            }
        });

    // What it waits on would give it bytes of the next one's body.
    [Fact]
    public void What_a_read_still_waits_on_when_its_request_ends_serves_no_other()
    {
        var waitedOn = new List<object>();
        var others = new List<object>();
        Run(
            call =>
            {
                (call.Path == "/reads" ? waitedOn : others).Add(call.Exchange);
                if (call.Path == "/reads")
                {
                    _ = call.ReadAsync(new byte[10]).AsTask();
                }

                return default;
            },
            bench =>
            {
                Caller other = bench.Connect();
                for (int i = 0; i < 3; i++)
                {
                    bench.StillServes(other);
                    Caller caller = bench.Connect();
                    bench.Send(caller, caller.Head("/reads", "POST", 100));
                    for (int j = 0; j < 3; j++)
                    {
                        bench.StillServes(other);
                    }

                    caller.Socket.ClientClose();
                    bench.Settle();
                }

                Assert.Equal((3, 12), (waitedOn.Count, others.Count));
                for (int i = 0; i < waitedOn.Count; i++)
                {
                    Assert.DoesNotContain(waitedOn[i], others.Skip((i * 4) + 1));
                }
            });
    }

    // Where the time of a request goes is asked of each anew.
    [Fact]
    public void Time_that_one_request_has_waited_for_its_peer_is_not_the_next_one_s()
    {
        var slow = new List<object>();
        var others = new List<(object Exchange, long BlockedMs)>();
        Run(
            async call =>
            {
                if (call.Path == "/slow")
                {
                    slow.Add(call.Exchange);
                    await call.WriteAsync(new byte[1_000_000]);
                    Assert.InRange(call.Exchange.BlockedMs, 1_000, 10_000);
                }
                else
                {
                    others.Add((call.Exchange, call.Exchange.BlockedMs));
                }
            },
            bench =>
            {
                Caller other = bench.Connect();
                for (int i = 0; i < 5; i++)
                {
                    Caller caller = bench.Connect();
                    bench.Reads = false;
                    bench.Send(caller, caller.Request("/slow"));
                    bench.Pass(TimeSpan.FromSeconds(2));
                    bench.Reads = true;
                    bench.Settle();
                    Assert.Single(caller.Answers);
                    bench.StillServes(other);
                }

                Assert.Contains(others, one => slow.Contains(one.Exchange));
                Assert.All(others, static one => Assert.Equal(0, one.BlockedMs));
            });
    }

    // What another thread leaves half done in the fields stops the head in its middle: that is no response, and no other may follow it.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_head_of_which_only_a_part_could_be_written_ends_its_connection(bool writes)
    {
        SharedBench? current = null;
        Run(
            call =>
            {
                call.Length = writes ? "a body".Length : 0;
                call.AddHeader("X-First", "1");
                if (writes)
                {
                    call.WriteText("a body");
                }

                Count(current!.Simulation.Handler.Current!.Answer.Headers)++;     // counted, and not there yet
                return default;
            },
            bench =>
            {
                current = bench;
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/"));
                Assert.Equal([], caller.Answers.Select(static answer => answer.Head));
                bench.Pass(TimeSpan.FromSeconds(3));
                Assert.True(caller.IsAtEnd);
                Assert.Equal(0, bench.Connections);
            });
    }

    [System.Runtime.CompilerServices.UnsafeAccessor(System.Runtime.CompilerServices.UnsafeAccessorKind.Field, Name = "_count")]
    private static extern ref int Count(Millrace.Exchanges.HeaderTable table);

    // Its loop has not heard of the end yet, and holds what the socket did not take.
    [Fact]
    public void From_the_end_of_its_handler_on_nobody_acts_for_a_request()
    {
        var gate = new TaskCompletionSource();
        Call? kept = null;
        Run(
            async call =>
            {
                kept = call;
                await gate.Task;
                call.Write(new byte[700_000]);
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/"));
                gate.SetResult();
                Assert.ThrowsAny<ObjectDisposedException>(() => kept!.Status);
                bench.Reads = true;
                bench.Settle();
                Assert.Equal(700_000, Assert.Single(caller.Answers).Body.Length);
            });
    }
}

public sealed class FastCgiOwnershipTests() : OwnershipTests(Way.FastCgiToPlain);

public sealed class HttpOwnershipTests() : OwnershipTests(Way.HttpToPlain);

public sealed class FastCgiHostedOwnershipTests() : OwnershipTests(Way.FastCgiToHosted);

public sealed class HttpHostedOwnershipTests() : OwnershipTests(Way.HttpToHosted);
