// What a request that waits keeps of the server's memory: its head, and what it has written and not sent. The buffers that it was received
// and begun in serve others meanwhile, whoever is looking at them.

using System.Text;
using Microsoft.AspNetCore.Http;
using Millrace.Exchanges;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class WaitingMemoryTests(Way way) : SharedTests(way)
{
    private const int HeadMax = 1024;
    private const int InputSize = 32 * 1024;
    private const int Others = 3;

    private readonly TaskCompletionSource _gate = new();
    private Exchange? _waiting;
    private Func<Task> _pause = static () => Task.CompletedTask;

    // Others are answered in the buffers that the one that waits has begun in.
    private async ValueTask Handle(Call call, Func<Call, ValueTask> begin)
    {
        if (call.Path != "/waits")
        {
            call.WriteText(new string('x', 500));
            return;
        }

        _waiting = call.Exchange;
        await begin(call);
        await _gate.Task;
        string mark = call.Headers.Single(static field => field.Key.Equals("X-Mark", StringComparison.OrdinalIgnoreCase)).Value.ToString();
        await call.WriteAsync(Encoding.ASCII.GetBytes($"{call.Method} {call.Target} {mark}"));
    }

    private static byte[] Ask(Caller caller) => caller.Request("/waits?for=long", fields: ("X-Mark", "its own"));

    private static void AskOthers(SharedBench bench)
    {
        for (int i = 0; i < Others; i++)
        {
            Assert.Equal(new string('x', 500), bench.Get($"/{new string('y', 300)}", ("X-Mark", "another's")).BodyText);
        }
    }

    private void Waits(Func<Call, ValueTask> begin, int heldMax, string written = "", Action<MillraceOptions>? options = null) => Run(
        call => Handle(call, begin),
        bench =>
        {
            _pause = bench.Simulation.Pause;
            Caller caller = bench.Connect();
            bench.Send(caller, Ask(caller));
            AskOthers(bench);
            Assert.InRange(_waiting!.BytesHeld, 1, heldMax);
            _gate.SetResult();
            bench.Settle();
            Assert.Equal($"{written}GET /waits?for=long its own", Assert.Single(caller.Answers).BodyText);
            bench.StillServes(caller);
        },
        options);

    [Fact]
    public void One_that_has_written_nothing_keeps_its_head_alone() => Waits(static _ => default, HeadMax);

    [Fact]
    public void One_that_a_worker_runs_keeps_its_head_alone() => Waits(static _ => default, HeadMax, options: static options => options.Dispatch = DispatchMode.Workers);

    [Fact]
    public void One_that_has_flushed_what_it_wrote_keeps_its_head_alone() => Waits(
        static async call =>
        {
            await call.WriteAsync("begun "u8.ToArray());
            await call.FlushAsync();
        },
        HeadMax,
        "begun ");

    [Fact]
    public void One_that_has_flushed_more_than_once_keeps_its_head_alone() => Waits(
        async call =>
        {
            await _pause();
            foreach (int size in (int[])[10, 5_000, 100_000, 10])
            {
                await call.WriteAsync(Encoding.ASCII.GetBytes(new string('z', size)));
                await call.FlushAsync();
            }
        },
        HeadMax,
        new string('z', 105_020));

    [Fact]
    public void One_that_has_written_and_not_flushed_keeps_what_it_has_written() => Waits(
        async call =>
        {
            await call.WriteAsync("begun "u8.ToArray());
            await call.FlushAsync();
            call.Write("and not sent "u8);
            await _pause();
            call.Write("yet "u8);
        },
        HeadMax + OutputBuffer.FullSize + 256,      // in the synchronous part it may still have a span of it, and some that it was lent
        "begun and not sent yet ");

    [Fact]
    public void One_that_has_waited_for_its_turn_keeps_its_head_alone()
    {
        var first = new TaskCompletionSource();
        Run(
            call => call.Path == "/first" ? new ValueTask(first.Task) : Handle(call, static _ => default),
            bench =>
            {
                Caller ahead = bench.Connect();
                bench.Send(ahead, ahead.Request("/first"));
                Caller caller = bench.Connect();
                bench.Send(caller, Ask(caller));
                Assert.Null(_waiting);
                first.SetResult();
                bench.Settle();
                Assert.InRange(_waiting!.BytesHeld, 1, HeadMax);
                _gate.SetResult();
                bench.Settle();
                Assert.Equal("GET /waits?for=long its own", Assert.Single(caller.Answers).BodyText);
            },
            static options => options.MaxConcurrentRequests = 1);
    }

    [Fact]
    public void One_whose_peer_was_slow_keeps_its_head_alone_once_all_has_left()
    {
        const int Size = 30_000;
        byte[] body = Plan.Bytes("slow", 0, Size);
        Run(
            call => Handle(call, async call =>
            {
                await call.WriteAsync(body);
                await call.FlushAsync();
            }),
            bench =>
            {
                bench.Simulation.World.SendCapacityMax = 8 * 1024;
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, Ask(caller));
                Assert.InRange(_waiting!.BytesHeld, Size / 2, InputSize + OutputBuffer.FullSize + HeadMax);
                bench.Reads = true;
                bench.Settle();
                Assert.InRange(_waiting.BytesHeld, 1, HeadMax);
                _gate.SetResult();
                bench.Settle();
                Assert.StartsWith(Encoding.Latin1.GetString(body), Encoding.Latin1.GetString(Assert.Single(caller.Answers).Body), StringComparison.Ordinal);
            });
    }

    // The buffer is its own until it ends: somebody has begun to look at it before there was a copy.
    [Fact]
    public void One_whose_head_is_being_looked_at_when_it_begins_to_wait_keeps_the_buffer()
    {
        using var looks = new ManualResetEventSlim();
        using var looked = new ManualResetEventSlim();
        string seen = "";
        Thread? looker = null;
        Run(
            call => Handle(call, call =>
            {
                Exchange exchange = call.Exchange;
                looker = new Thread(() =>
                {
                    using ExchangeUse use = exchange.Use(exchange.Ticket);
                    ReadOnlySpan<byte> target = exchange.Head[exchange.Head.Target];
                    looks.Set();
                    looked.Wait();
                    seen = Encoding.ASCII.GetString(target);
                });
                looker.Start();
                looks.Wait();
                return default;
            }),
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, Ask(caller));
                AskOthers(bench);
                Assert.InRange(_waiting!.BytesHeld, InputSize, InputSize + HeadMax);
                looked.Set();
                looker!.Join();
                Assert.Equal("/waits?for=long", seen);
                _gate.SetResult();
                bench.Settle();
                Assert.Equal("GET /waits?for=long its own", Assert.Single(caller.Answers).BodyText);
            });
    }
}

public sealed class FastCgiWaitingTests() : WaitingMemoryTests(Way.FastCgiToPlain);

public sealed class HttpWaitingTests() : WaitingMemoryTests(Way.HttpToPlain);

public sealed class FastCgiHostedWaitingTests() : WaitingMemoryTests(Way.FastCgiToHosted);

public sealed class HttpHostedWaitingTests() : WaitingMemoryTests(Way.HttpToHosted)
{
    // In the synchronous part a span is a part of what will be sent: it stays where it is.
    [Fact]
    public void One_that_has_a_span_when_it_begins_to_wait_sends_what_it_wrote_into_it()
    {
        var gate = new TaskCompletionSource();
        Run(
            async call =>
            {
                if (call.Path != "/waits")
                {
                    call.WriteText(new string('x', 500));
                    return;
                }

                HttpContext context = ((HostedCall)call).Context;
                await context.Response.StartAsync();
                "written"u8.CopyTo(context.Response.BodyWriter.GetSpan(7));
                await gate.Task;
                context.Response.BodyWriter.Advance(7);
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/waits"));
                Assert.Equal(new string('x', 500), bench.Get("/other").BodyText);
                gate.SetResult();
                bench.Settle();
                Assert.Equal("written", Assert.Single(caller.Answers).BodyText);
            });
    }
}
