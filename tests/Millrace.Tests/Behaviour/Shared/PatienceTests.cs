// Writes that wait for a peer that does not read, and are given up: by the token that they were called with, or with their request.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class PatienceTests(Way way) : SharedTests(way)
{
    private const int Size = 1_000_000;

    private static byte[] Large => Plan.Bytes("large", 0, Size);

    [Theory]
    [InlineData("write")]
    [InlineData("flush")]
    [InlineData("behind another")]
    public void A_write_that_waits_ends_with_its_token_and_the_connection_with_it(string how)
    {
        using var patience = new CancellationTokenSource();
        Exception? thrown = null;
        CancellationToken aborted = default;
        Run(
            async call =>
            {
                if (call.Path != "/")
                {
                    return;
                }

                aborted = call.Aborted;
                Task first = how == "behind another" ? call.WriteAsync(Large).AsTask() : Task.CompletedTask;
                if (how == "flush")
                {
                    call.Write(Large);
                }

                thrown = await Record.ExceptionAsync(() => how == "flush" ? call.Body.FlushAsync(patience.Token) : call.Body.WriteAsync(Large, patience.Token).AsTask());
                await first;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/"));
                bench.Pass(TimeSpan.FromSeconds(2));
                Assert.Null(thrown);
                patience.Cancel();
                bench.Settle();
                Assert.Equal(patience.Token, Assert.IsType<OperationCanceledException>(thrown).CancellationToken);
                Assert.True(aborted.IsCancellationRequested);
                bench.Reads = true;
                bench.Settle();
                Assert.Empty(caller.Answers);
                Assert.True(caller.IsAtEnd);
                bench.OthersAreServed();
            });
    }

    // The peer has finished nothing: its token has fired for the time limit.
    [Fact]
    public void A_write_that_waits_with_the_requests_own_token_ends_with_its_time_RequestTimeout()
    {
        Exception? thrown = null;
        Run(
            async call =>
            {
                if (call.Path == "/")
                {
                    thrown = await Record.ExceptionAsync(() => call.Body.WriteAsync(Large, call.Aborted).AsTask());
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/"));
                bench.Pass(TimeSpan.FromSeconds(4));
                Assert.Null(thrown);
                bench.Pass(TimeSpan.FromSeconds(2));
                Assert.IsType<OperationCanceledException>(thrown);
                bench.Reads = true;
                bench.OthersAreServed();
            },
            static options => options.RequestTimeout = TimeSpan.FromSeconds(5));
    }

    // The peer is given time to see that the response is broken off; who writes it has nothing to wait for.
    [Fact]
    public void A_write_that_waits_ends_at_once_when_its_request_is_aborted()
    {
        Action? abort = null;
        bool hasEnded = false;
        Run(
            async call =>
            {
                if (call.Path == "/")
                {
                    abort = call.Abort;
                    await call.WriteAsync(Large);
                    hasEnded = true;
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/"));
                bench.Pass(TimeSpan.FromSeconds(2));
                Assert.False(hasEnded);
                abort!();
                bench.Settle();
                Assert.True(hasEnded);
                bench.Reads = true;
                bench.OthersAreServed();
            });
    }

    [Fact]
    public void A_token_that_is_cancelled_when_the_write_has_ended_does_nothing() => Run(
        static async call =>
        {
            using var patience = new CancellationTokenSource();
            await call.Body.WriteAsync(Large, patience.Token);
            await patience.CancelAsync();
            await call.WriteAsync("end"u8.ToArray());
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Reads = false;
            bench.Send(caller, caller.Request("/"));
            bench.Reads = true;
            bench.Settle();
            Assert.Equal([.. Large, .. "end"u8], Assert.Single(caller.Answers).Body);
            bench.StillServes(caller);
        });
}

public sealed class FastCgiPatienceTests() : PatienceTests(Way.FastCgiToPlain);

public sealed class HttpPatienceTests() : PatienceTests(Way.HttpToPlain);

public sealed class FastCgiHostedPatienceTests() : PatienceTests(Way.FastCgiToHosted);

public sealed class HttpHostedPatienceTests() : PatienceTests(Way.HttpToHosted);
