// Handlers that have been told that their time is over (RequestTimeout), and end as if nothing were: what serializers and file results of the framework
// make of a cancelled token. What they leave off does not pass for whole; what they make of it themselves is their answer.

namespace Millrace.Tests.Behaviour.Shared;

public abstract class RequestTimeoutTests(Way way) : SharedTests(way)
{
    private void Overtimes(Func<Call, ValueTask> handler, Action<Caller> check, string method = "GET") => Run(
        handler,
        bench =>
        {
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Request("/", method));
            bench.Pass(TimeSpan.FromSeconds(6));
            check(caller);
            Assert.Equal(1, bench.Refused("request-timeout"));
        },
        static options => options.RequestTimeout = TimeSpan.FromSeconds(5));

    private static void Is504(Caller caller) =>
        Assert.Equal((504, "0", ""), (Assert.Single(caller.Answers).Status, caller.Answers[0].Field("Content-Length"), caller.Answers[0].BodyText));

    private static void IsBrokenOff(Caller caller)
    {
        Assert.Empty(caller.Answers);
        Assert.True(caller.IsAtEnd);
    }

    [Theory]
    [InlineData("")]
    [InlineData("type")]
    [InlineData("length")]
    [InlineData("part")]
    public void An_answer_that_has_not_begun_when_its_handler_ends_in_silence_is_504_RequestTimeout(string what) => Overtimes(
        async call =>
        {
            switch (what)
            {
                case "type":
                    call.AddHeader("Content-Type", "application/json");
                    break;
                case "length":
                    call.Length = 5;
                    break;
                case "part":
                    call.WriteText("part");
                    break;
            }

            await Bench.Cancelled(call.Aborted);
        },
        Is504);

    [Fact]
    public void An_answer_of_unknown_length_that_has_begun_when_its_handler_ends_in_silence_is_broken_off_RequestTimeout() => Overtimes(
        static async call =>
        {
            call.WriteText("part");
            await call.FlushAsync();
            await Bench.Cancelled(call.Aborted);
        },
        IsBrokenOff);

    // What was written behind the time limit is not all either.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_write_that_was_refused_is_missing_RequestTimeout(bool begins) => Overtimes(
        async call =>
        {
            call.WriteText("part");
            await (begins ? call.FlushAsync() : default);
            await Bench.Cancelled(call.Aborted);
            call.WriteText("more");
            try
            {
                await call.Body.WriteAsync("lost"u8.ToArray(), call.Aborted);
            }
            catch (OperationCanceledException)
            {
                // as the framework does
            }
        },
        caller => (begins ? (Action<Caller>)IsBrokenOff : Is504)(caller));

    // Its writer has not been told by then, and writes nothing once it has been: what goes on is the server.
    [Fact]
    public void What_a_slow_reader_takes_when_the_time_is_over_was_written_before_RequestTimeout() => Run(
        static async call =>
        {
            CancellationToken told = call.Aborted;
            while (!told.IsCancellationRequested)
            {
                await call.Body.WriteAsync(new byte[200_000]);
            }
        },
        static bench =>
        {
            bench.Simulation.World.SendCapacityMax = 64 * 1024;
            bench.Reads = false;
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Request("/"));
            bench.Pass(TimeSpan.FromSeconds(6));
            bench.Reads = true;
            bench.Settle();
            bench.Pass(TimeSpan.FromSeconds(1));
            IsBrokenOff(caller);
            Assert.Equal(1, bench.Refused("request-timeout"));
        },
        static options => options.RequestTimeout = TimeSpan.FromSeconds(5));

    [Theory]
    [InlineData(503, "late")]
    [InlineData(504, "")]
    [InlineData(200, "")]
    [InlineData(200, "late")]
    public void What_a_handler_answers_once_it_has_been_told_is_its_answer_RequestTimeout(int status, string body) => Overtimes(
        async call =>
        {
            call.AddHeader("Content-Type", "text/plain");
            await Bench.Cancelled(call.Aborted);
            call.Status = status;
            if (body.Length > 0)
            {
                call.WriteText(body);
            }
        },
        caller => Assert.Equal((status, body), (Assert.Single(caller.Answers).Status, caller.Answers[0].BodyText)));

    [Fact]
    public void What_is_written_behind_a_write_that_was_refused_is_the_answer_RequestTimeout() => Overtimes(
        static async call =>
        {
            await Bench.Cancelled(call.Aborted);
            await Assert.ThrowsAnyAsync<OperationCanceledException>(async () => await call.Body.WriteAsync("lost"u8.ToArray(), call.Aborted));
            call.WriteText("whole");
        },
        static caller => Assert.Equal((200, "whole"), (Assert.Single(caller.Answers).Status, caller.Answers[0].BodyText)));

    [Theory]
    [InlineData("announced", 200, "whole")]
    [InlineData("announced and sent", 200, "whole")]
    [InlineData("unwatched", 200, "whole")]
    [InlineData("no body", 204, "")]
    [InlineData("status", 302, "")]
    public void What_is_whole_when_the_time_is_over_is_answered_RequestTimeout(string what, int status, string body)
    {
        var pause = new TaskCompletionSource();
        Run(
            async call =>
            {
                CancellationToken told = what == "unwatched" ? default : call.Aborted;
                call.Status = status;
                if (what.StartsWith("announced", StringComparison.Ordinal))
                {
                    call.Length = body.Length;
                }

                if (body.Length > 0)
                {
                    call.WriteText(body);
                    await (what == "announced" ? default : call.FlushAsync());
                }

                await pause.Task;
                Assert.Equal(what != "unwatched", told.IsCancellationRequested);
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/"));
                bench.Pass(TimeSpan.FromSeconds(6));
                pause.SetResult();
                bench.Settle();
                Assert.Equal((status, body), (Assert.Single(caller.Answers).Status, caller.Answers[0].BodyText));
                Assert.Equal(1, bench.Refused("request-timeout"));
            },
            static options => options.RequestTimeout = TimeSpan.FromSeconds(5));
    }

    // A peer that has finished sending has its handler told as well, but nobody's time is over: the answer is what the handler makes of it.
    [Fact]
    public void A_handler_that_ends_because_its_peer_has_finished_sending_has_answered()
    {
        Run(
            static async call =>
            {
                call.WriteText("all");
                await call.FlushAsync();
                await Bench.Cancelled(call.Aborted);
            },
            static bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/"));
                caller.Socket.ClientFinish();
                bench.Settle();
                Assert.Equal("all", Assert.Single(caller.Answers).BodyText);
            },
            static options => options.RequestTimeout = TimeSpan.FromSeconds(5));
    }

    // What is said of one request is not said of the next on its connection.
    [Fact]
    public void The_next_request_has_its_own_time_RequestTimeout() => Run(
        static async call =>
        {
            if (call.Path == "/late")
            {
                await Bench.Cancelled(call.Aborted);
                call.Status = 503;
                return;
            }

            call.WriteText("part");
            await Bench.Cancelled(call.Aborted);
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            foreach (string target in (string[])["/late", "/silent"])
            {
                bench.Send(caller, caller.Request(target));
                bench.Pass(TimeSpan.FromSeconds(6));
            }

            Assert.Equal([503, 504], caller.Answers.Select(static answer => answer.Status));
        },
        static options => options.RequestTimeout = TimeSpan.FromSeconds(5));
}

public sealed class FastCgiRequestTimeoutTests() : RequestTimeoutTests(Way.FastCgiToPlain);

public sealed class HttpRequestTimeoutTests() : RequestTimeoutTests(Way.HttpToPlain);

public sealed class FastCgiHostedRequestTimeoutTests() : RequestTimeoutTests(Way.FastCgiToHosted);

public sealed class HttpHostedRequestTimeoutTests() : RequestTimeoutTests(Way.HttpToHosted);
