// A response that is complete, and has left, while its handler goes on: it stays whole, whatever becomes of the handler.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class CompletedTests(Way way) : SharedTests(way)
{
    private const int Size = 700_000;

    // Nothing of it is missing: whatever came behind it would be taken for the answer to the next request on the connection, which may be somebody else's.
    [Theory]
    [InlineData("one piece")]
    [InlineData("pieces")]
    [InlineData("longer than the socket takes")]
    public void An_answer_that_has_left_whole_is_not_broken_off_by_an_abort_and_the_next_request_is_answered(string how)
    {
        var pause = new TaskCompletionSource();
        var aborted = new TaskCompletionSource();
        CancellationToken token = default;
        Run(
            async call =>
            {
                if (call.Path == "/first")
                {
                    token = call.Aborted;
                    await WriteAsync(call, how);
                    await ((HostedCall)call).Context.Response.CompleteAsync();
                    await pause.Task;
                    call.Abort();
                    await aborted.Task;
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/first"));
                Assert.Equal(BodyOf(how), Assert.Single(caller.Answers).Body);
                bench.Send(caller, caller.Request("/second"));
                pause.SetResult();
                bench.Settle();
                Assert.True(token.IsCancellationRequested);
                Assert.Single(caller.Answers);
                aborted.SetResult();
                bench.Settle();
                Assert.Equal(2, caller.Answers.Count);
                Assert.False(caller.IsAtEnd);
                bench.StillServes(caller);
            });
    }

    [Theory]
    [InlineData("one piece")]
    [InlineData("pieces")]
    [InlineData("longer than the socket takes")]
    public void An_answer_that_has_left_whole_stays_so_when_its_handler_outlives_the_drain_DrainTimeout(string how)
    {
        var never = new TaskCompletionSource();
        Run(
            async call =>
            {
                await WriteAsync(call, how);
                await ((HostedCall)call).Context.Response.CompleteAsync();
                await never.Task;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/first"));
                Assert.Equal(BodyOf(how), Assert.Single(caller.Answers).Body);
                bench.Drain();
                bench.Cut();
                Assert.True(caller.IsAtEnd);
                Assert.False(caller.Socket.WasReset);
                Assert.Single(caller.Answers);
                Assert.Null(caller.Begun);
                Assert.Equal(0, caller.Socket.Unread);
                never.SetResult();
                bench.Settle();
            });
    }

    // nginx would try its next POST on a connection that looks idle.
    [Fact]
    public void In_a_drain_the_connection_ends_with_a_response_that_ends_before_its_handler_Unix()
    {
        var going = new TaskCompletionSource();
        RunOverUnix(
            async call =>
            {
                await WriteAsync(call, "pieces");
                await ((HostedCall)call).Context.Response.CompleteAsync();
                await going.Task;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Drain();
                bench.Send(caller, caller.Request("/first"));
                Assert.Equal(BodyOf("pieces"), Assert.Single(caller.Answers).Body);
                Assert.True(caller.IsAtEnd || caller.Answers[0].Field("Connection") == "close");
                going.SetResult();
                bench.Settle();
                Assert.Single(caller.Answers);
            });
    }

    private protected static async Task WriteAsync(Call call, string how)
    {
        foreach (byte[] part in how == "pieces" ? BodyOf(how).Chunk(1_000) : [BodyOf(how)])
        {
            await call.WriteAsync(part);
            await call.FlushAsync();
        }
    }

    private protected static byte[] BodyOf(string how) => Plan.Bytes("whole", 0, how == "longer than the socket takes" ? Size : 3_000);
}

public sealed class FastCgiCompletedTests() : CompletedTests(Way.FastCgiToHosted)
{
    // Section 3.3 knows one version. Where records end is not known any more, but the answer has been there before.
    [Theory]
    [InlineData(new byte[] { 9, 9, 9, 9, 9, 9, 9, 9 })]
    public void An_answer_that_has_left_whole_stays_so_when_what_follows_it_is_no_record(byte[] noRecord)
    {
        var going = new TaskCompletionSource();
        Run(
            async call =>
            {
                await WriteAsync(call, "pieces");
                await ((HostedCall)call).Context.Response.CompleteAsync();
                await going.Task;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/first"));
                Assert.Equal(BodyOf("pieces"), Assert.Single(caller.Answers).Body);
                bench.Send(caller, noRecord);
                Assert.True(caller.IsAtEnd);
                Assert.False(caller.Socket.WasReset);
                Assert.False(((FrontEnd)caller.End).IsBrokenOff);
                going.SetResult();
                bench.Settle();
                Assert.Single(caller.Answers);
                Assert.Equal(0, caller.Socket.Unread);
                bench.StillServes(bench.Connect());
            });
    }
}

public sealed class HttpCompletedTests() : CompletedTests(Way.HttpToHosted);
