// Peers that have finished sending and still listen: what is short is refused, what is whole is answered, and what its handler
// gives up is not answered at all. Nobody ever sees 499, which is no status of HTTP but the name hosting has for a request
// that its client has given up. RFC 9112 §8, §9.6, RFC 9110 §15.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class HalfCloseTests(Way way) : SharedTests(way)
{
    public enum GivesUp
    {
        ByCancellation,
        ByIOException,
        ByStatus499,
    }

    private static async ValueTask GiveUp(Call call, GivesUp how)
    {
        call.AddHeader("X-Half", "made");
        call.WriteText("half of an answer");
        await Bench.Cancelled(call.Aborted);
        switch (how)
        {
            case GivesUp.ByCancellation:
                throw new OperationCanceledException(call.Aborted);
            case GivesUp.ByIOException:
                throw new IOException("The client has gone.");
            default:
                call.Status = 499;      // as the exception handler of ASP.NET Core does
                break;
        }
    }

    private static void IsUnanswered(SharedBench bench, Caller caller)
    {
        bench.Pass(TimeSpan.FromMilliseconds(200));     // over FastCGI nothing at all is told from a response that is not whole
        Assert.Empty(caller.Answers);
        Assert.Null(caller.Begun);
        Assert.Equal((true, 0), (caller.IsAtEnd, bench.Connections));
    }

    [Theory]
    [InlineData(1_000L)]
    [InlineData(null)]
    public void A_body_that_is_cut_short_is_400_where_the_peer_still_listens_RFC9112_8(long? length) => Run(bench =>
    {
        Caller caller = bench.Connect();
        bench.Send(caller, [.. caller.Head("/", "POST", length), .. caller.Part(new byte[100])]);
        caller.Socket.ClientFinish();
        bench.Settle();
        Assert.Equal(400, Assert.Single(caller.Answers).Status);
        Assert.Equal((true, 0), (caller.IsAtEnd, bench.Connections));
        bench.OthersAreServed();
    });

    [Theory]
    [InlineData(1_000L)]
    [InlineData(null)]
    public void A_body_that_is_cut_short_in_the_same_segment_is_400_RFC9112_8(long? length) => Run(bench =>
    {
        Caller caller = bench.Connect();
        caller.Socket.ClientSend([.. caller.Head("/", "POST", length), .. caller.Part(new byte[100])]);
        caller.Socket.ClientFinish();
        bench.Settle();
        Assert.Equal(400, Assert.Single(caller.Answers).Status);
        Assert.Equal((true, 0), (caller.IsAtEnd, bench.Connections));
    });

    [Theory]
    [InlineData(GivesUp.ByCancellation)]
    [InlineData(GivesUp.ByIOException)]
    [InlineData(GivesUp.ByStatus499)]
    public void A_body_that_is_cut_short_is_400_however_its_handler_gives_up_RFC9112_8(GivesUp how) => Run(
        call => GiveUp(call, how),
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Send(caller, [.. caller.Head("/", "POST", 1_000), .. caller.Part(new byte[100])]);
            caller.Socket.ClientFinish();
            bench.Settle();
            Answer answer = Assert.Single(caller.Answers);
            Assert.Equal((400, "0", null), (answer.Status, answer.Field("Content-Length"), answer.Field("X-Half")));
            Assert.Equal((true, 0), (caller.IsAtEnd, bench.Connections));
        });

    [Theory]
    [InlineData(GivesUp.ByCancellation)]
    [InlineData(GivesUp.ByIOException)]
    [InlineData(GivesUp.ByStatus499)]
    public void A_whole_request_that_its_handler_gives_up_is_not_answered_RFC9110_15(GivesUp how) => Run(
        call => GiveUp(call, how),
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Request("/"));
            caller.Socket.ClientFinish();
            bench.Settle();
            IsUnanswered(bench, caller);
            Assert.False(caller.Socket.WasReset);
        });

    [Theory]
    [InlineData(GivesUp.ByCancellation)]
    [InlineData(GivesUp.ByIOException)]
    [InlineData(GivesUp.ByStatus499)]
    public void A_peer_that_is_gone_is_not_answered_RFC9110_15(GivesUp how) => Run(
        call => GiveUp(call, how),
        static bench =>
        {
            Caller[] callers = [bench.Connect(), bench.Connect()];
            Array.ForEach(callers, caller => bench.Send(caller, caller.Request("/")));
            callers[0].Socket.ClientReset();
            callers[1].Socket.ClientClose();
            bench.Settle();
            Assert.All(callers, static caller => Assert.Empty(caller.Answers));
            Assert.Equal(0, bench.Connections);
        });

    // The peer still waits: it is told that the time was too short, whoever of the application has caught the exception first.
    [Theory]
    [InlineData(GivesUp.ByCancellation)]
    [InlineData(GivesUp.ByIOException)]
    [InlineData(GivesUp.ByStatus499)]
    public void A_request_that_takes_too_long_is_504_however_its_handler_gives_up_RequestTimeout(GivesUp how) => Run(
        call => GiveUp(call, how),
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Request("/forever"));
            bench.Pass(TimeSpan.FromSeconds(6));
            Assert.Equal((504, "0"), (Assert.Single(caller.Answers).Status, caller.Answers[0].Field("Content-Length")));
        },
        static options => options.RequestTimeout = TimeSpan.FromSeconds(5));

    // Its peer was the first to end it: what the handler does about that is no matter of time, however long it takes.
    [Fact]
    public void A_request_that_its_peer_gave_up_before_its_time_was_over_is_not_answered_RequestTimeout()
    {
        var gate = new TaskCompletionSource();
        Run(
            async call =>
            {
                await Bench.Cancelled(call.Aborted);
                await gate.Task;
                throw new OperationCanceledException(call.Aborted);
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/"));
                caller.Socket.ClientFinish();
                bench.Pass(TimeSpan.FromSeconds(6));
                gate.SetResult();
                bench.Settle();
                IsUnanswered(bench, caller);
                Assert.Equal(0, bench.Simulation.Services.OffLoop.Refusals.Sum(static pair => pair.Value));
            },
            static options => options.RequestTimeout = TimeSpan.FromSeconds(5));
    }

    // 499 is an application's to use where nobody has given up.
    [Fact]
    public void An_applications_own_499_is_sent_to_who_waits_for_it() => Answers(
        static call => call.Status = 499,
        static (bench, caller) => Assert.Equal(499, Assert.Single(caller.Answers).Status));

    // An answer that has begun is broken off as ever: its head has left.
    [Fact]
    public void An_answer_that_has_begun_is_broken_off_RFC9112_8() => Run(
        static async call =>
        {
            await call.WriteAsync("begun"u8.ToArray());
            await call.FlushAsync();
            await Bench.Cancelled(call.Aborted);
            throw new OperationCanceledException();
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Request("/"));
            Assert.NotNull(caller.Begun);
            caller.Socket.ClientFinish();
            bench.Pass(TimeSpan.FromMilliseconds(200));
            Assert.Empty(caller.Answers);
            Assert.Equal((true, 0), (caller.IsAtEnd, bench.Connections));
        });

    public enum SendsBy
    {
        Write,
        WriteBehindAnother,
        Flush,
        File,
    }

    private const int File = 79;
    private const int Size = 1_000_000;

    private static byte[] Large => Plan.Bytes("large", 0, Size);

    // Whatever waits for the peer comes with the request's own token, as from the framework.
    private static async ValueTask SendLarge(Call call, SendsBy how, CancellationToken aborted)
    {
        switch (how)
        {
            case SendsBy.File:
                await call.Exchange.SendSimulatedFileAsync(File, Size, aborted);
                break;
            case SendsBy.Flush:
                call.Write(Large);
                await call.Body.FlushAsync(aborted);
                break;
            default:
                Task first = how == SendsBy.WriteBehindAnother ? call.WriteAsync("first"u8.ToArray()).AsTask() : Task.CompletedTask;
                await call.Body.WriteAsync(Large, aborted);
                await first;
                break;
        }
    }

    public static TheoryData<SendsBy, string> LargeAnswers
    {
        get
        {
            var all = new TheoryData<SendsBy, string>();
            foreach (SendsBy how in Enum.GetValues<SendsBy>())
            {
                all.Add(how, "with its request");
                all.Add(how, "behind its request");
                all.Add(how, "while its answer waits");
            }

            return all;
        }
    }

    // The token has fired: it ends nothing of an answer that the peer may still read, however long that takes.
    [Theory]
    [MemberData(nameof(LargeAnswers))]
    public void An_answer_that_waits_with_the_requests_own_token_is_whole_for_a_peer_that_finishes_sending_RFC9112_9_6(SendsBy how, string when)
    {
        var pause = new TaskCompletionSource();
        CancellationToken aborted = default;
        Exception? thrown = null;
        Run(
            async call =>
            {
                if (call.Path != "/")
                {
                    return;
                }

                aborted = call.Aborted;
                await pause.Task;
                thrown = await Record.ExceptionAsync(() => SendLarge(call, how, aborted).AsTask());
            },
            bench =>
            {
                bench.Simulation.World.Files[File] = Large;
                Caller caller = bench.Connect();
                bench.Reads = false;
                caller.Socket.ClientSend(caller.Request("/"));
                Act("with its request");
                bench.Settle();
                Act("behind its request");
                pause.SetResult();
                bench.Pass(TimeSpan.FromSeconds(1));
                Act("while its answer waits");
                bench.Pass(TimeSpan.FromSeconds(1));
                Assert.Null(thrown);
                bench.Reads = true;
                bench.Settle();
                Assert.Null(thrown);
                byte[] first = how == SendsBy.WriteBehindAnother ? "first"u8.ToArray() : [];
                Assert.Equal([.. first, .. Large], Assert.Single(caller.Answers).Body);
                Assert.True(aborted.IsCancellationRequested);
                Assert.Equal((true, 0), (caller.IsAtEnd, bench.Connections));

                void Act(string now)
                {
                    if (now == when)
                    {
                        caller.Socket.ClientFinish();
                        bench.Settle();
                    }
                }
            });
    }

    // It waits as any other does: a peer that turns out to be gone ends it, and so does the application, by Abort or by a token of its own.
    [Theory]
    [InlineData(SendsBy.Write, "reset")]
    [InlineData(SendsBy.Flush, "reset")]
    [InlineData(SendsBy.File, "reset")]
    [InlineData(SendsBy.Write, "abort")]
    [InlineData(SendsBy.File, "abort")]
    [InlineData(SendsBy.Write, "own token")]
    [InlineData(SendsBy.File, "own token")]
    [InlineData(SendsBy.Write, "silence")]
    public void What_waits_for_a_peer_that_has_finished_sending_ends_with_it(SendsBy how, string end)
    {
        using var own = new CancellationTokenSource();
        Action? abort = null;
        bool hasEnded = false;
        Run(
            async call =>
            {
                if (call.Path == "/")
                {
                    abort = call.Abort;
                    CancellationToken token = end == "own token" ? own.Token : call.Aborted;
                    _ = await Record.ExceptionAsync(() => SendLarge(call, how, token).AsTask());
                    hasEnded = true;
                }
            },
            bench =>
            {
                bench.Simulation.World.Files[File] = Large;
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/"));
                caller.Socket.ClientFinish();
                bench.Settle();
                Assert.False(hasEnded);
                switch (end)
                {
                    case "reset":
                        caller.Socket.ClientReset();
                        break;
                    case "abort":
                        abort!();
                        break;
                    case "own token":
                        own.Cancel();
                        break;
                    default:
                        bench.Pass(TimeSpan.FromMinutes(2));       // SendTimeout
                        break;
                }

                bench.Settle();
                Assert.True(hasEnded);
                bench.Reads = true;
                bench.Settle();
                Assert.Empty(caller.Answers);
                bench.OthersAreServed();
            });
    }
}

public sealed class FastCgiHalfCloseTests() : HalfCloseTests(Way.FastCgiToPlain);

public sealed class HttpHalfCloseTests() : HalfCloseTests(Way.HttpToPlain);

public sealed class FastCgiHostedHalfCloseTests() : HalfCloseTests(Way.FastCgiToHosted);

public sealed class HttpHostedHalfCloseTests() : HalfCloseTests(Way.HttpToHosted);
