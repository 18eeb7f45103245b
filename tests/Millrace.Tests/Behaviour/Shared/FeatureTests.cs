// What an ASP.NET Core application sets and asks for through features, where it is the server that must keep to it.

using System.IO.Pipelines;
using System.Text;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Server.Kestrel.Core.Features;
using Millrace.AspNetCore;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class FeatureTests(Way way) : SharedTests(way)
{
    private static HttpContext ContextOf(Call call) => ((HostedCall)call).Context;

    // What only one protocol can offer: an application that finds a feature takes it for something that works.
    [Fact]
    public void Features_of_the_other_protocol_are_not_there() => Run(
        call =>
        {
            IFeatureCollection features = ContextOf(call).Features;
            Type[] ofHttp =
            [
                typeof(IHttpUpgradeFeature), typeof(IHttpRequestTrailersFeature), typeof(IConnectionIdFeature), typeof(IConnectionEndPointFeature), typeof(IConnectionLifetimeFeature),
                typeof(IConnectionLifetimeNotificationFeature), typeof(IConnectionItemsFeature), typeof(IPersistentStateFeature),
                typeof(IHttpMinRequestBodyDataRateFeature), typeof(IHttpMinResponseDataRateFeature), typeof(IConnectionCompleteFeature),
            ];
            call.WriteText(string.Join(' ', ofHttp.Append(typeof(IFastCgiFeature)).Where(type => features[type] is not null).Select(static type => type.Name)));
            return default;
        },
        bench => Assert.Equal(
            IsHttp
                ? "IHttpUpgradeFeature IHttpRequestTrailersFeature IConnectionIdFeature IConnectionEndPointFeature IConnectionLifetimeFeature IConnectionLifetimeNotificationFeature IConnectionItemsFeature IPersistentStateFeature IHttpMinRequestBodyDataRateFeature IHttpMinResponseDataRateFeature IConnectionCompleteFeature"
                : "IFastCgiFeature",
            bench.Get("/").BodyText));

    // A socket that is used beside the loop would take bytes of other requests (aspnetcore.md).
    [Fact]
    public void There_is_no_way_to_the_socket_itself_IConnectionSocketFeature() => Run(
        static call =>
        {
            IFeatureCollection features = ContextOf(call).Features;
            call.WriteText($"{features.Get<IConnectionSocketFeature>() is null} {features.Get<IConnectionTransportFeature>() is null}");
            return default;
        },
        static bench => Assert.Equal("True True", bench.Get("/").BodyText));

    // As a compressing body does: what it had in hand comes behind the limit, and looks like the end of all there is.
    [Theory]
    [InlineData(false, false)]
    [InlineData(true, false)]
    [InlineData(false, true)]
    public void What_another_body_had_in_hand_is_not_the_rest_IHttpResponseBodyFeature_RequestTimeout(bool begins, bool setsStatus) => Run(
        async call =>
        {
            IFeatureCollection features = ContextOf(call).Features;
            IHttpResponseBodyFeature own = features.GetRequiredFeature<IHttpResponseBodyFeature>();
            features.Set<IHttpResponseBodyFeature>(new StreamResponseBodyFeature(new MemoryStream()));
            await (begins ? own.StartAsync() : Task.CompletedTask);
            await Bench.Cancelled(call.Aborted);
            if (setsStatus)
            {
                call.Status = 503;
            }

            await own.Stream.WriteAsync("half"u8.ToArray());
            features.Set(own);
        },
        bench =>
        {
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Request("/"));
            bench.Pass(TimeSpan.FromSeconds(6));
            if (setsStatus)
            {
                Assert.Equal((503, "half"), (Assert.Single(caller.Answers).Status, caller.Answers[0].BodyText));
                return;
            }

            Assert.Empty(caller.Answers);
            Assert.True(caller.IsAtEnd);
        },
        static options => options.RequestTimeout = TimeSpan.FromSeconds(5));

    [Fact]
    public void What_is_taken_away_of_the_target_does_not_come_back_IHttpRequestFeature() => Run(
        static call =>
        {
            var request = ContextOf(call).Features.GetRequiredFeature<IHttpRequestFeature>();
            (request.Path, request.QueryString, request.RawTarget) = (null!, null!, null!);
            call.WriteText($"{request.Path}|{request.QueryString}|{request.RawTarget}|");
            return default;
        },
        static bench => Assert.Equal("|||", bench.Get("/page?token=secret").BodyText));

    [Fact]
    public void The_limit_of_a_body_is_none_or_a_number_of_bytes_IHttpMaxRequestBodySizeFeature() => Run(
        static async call =>
        {
            var limit = ContextOf(call).Features.GetRequiredFeature<IHttpMaxRequestBodySizeFeature>();
            Assert.Throws<ArgumentOutOfRangeException>(() => limit.MaxRequestBodySize = -1);
            limit.MaxRequestBodySize = null;
            limit.MaxRequestBodySize = 0;
            limit.MaxRequestBodySize = 4;
            call.WriteText($"{await call.ReadAsync(new byte[10])}");
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            Assert.Equal("4", bench.Ask(caller, caller.Request("/", "POST", "four"u8.ToArray())).BodyText);
        });

    // Decompression behind buffering, for example.
    [Fact]
    public void A_body_that_is_replaced_is_what_its_reader_reads_each_time_IRequestBodyPipeFeature() => Run(
        static async call =>
        {
            HttpRequest request = ContextOf(call).Request;
            var text = new StringBuilder();
            Stream own = request.Body;
            foreach (string body in (string[])["first", "second"])
            {
                request.Body = new MemoryStream(Encoding.ASCII.GetBytes(body));
                text.Append(await Read(request.BodyReader)).Append(' ');
            }

            request.Body = own;
            call.WriteText(text.Append(await Read(request.BodyReader)).ToString());
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            Assert.Equal("first second own", bench.Ask(caller, caller.Request("/", "POST", "own"u8.ToArray())).BodyText);
        });

    // Whoever has it may look at it for ever.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void What_the_reader_of_a_body_has_shown_stays_what_it_is_IRequestBodyPipeFeature(bool tries)
    {
        var shown = new List<(string Text, System.Buffers.ReadOnlySequence<byte> Buffer)>();
        Run(
            async call =>
            {
                PipeReader reader = ContextOf(call).Request.BodyReader;
                if (!tries || !reader.TryRead(out ReadResult result))
                {
                    result = await reader.ReadAsync();
                }

                shown.Add((Encoding.ASCII.GetString(result.Buffer), result.Buffer));
            },
            bench =>
            {
                Caller caller = bench.Connect();
                for (int i = 0; i < 5; i++)
                {
                    _ = bench.Ask(caller, caller.Request("/", "POST", Encoding.ASCII.GetBytes($"body {i}")));
                }

                Assert.Equal(["body 0", "body 1", "body 2", "body 3", "body 4"], shown.Select(static one => one.Text));
                Assert.All(shown, static one => Assert.Equal(one.Text, Encoding.ASCII.GetString(one.Buffer)));
            });
    }

    // A buffer that was given back too early; and somebody has ended the read before that is seen.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_read_whose_memory_goes_away_while_it_waits_keeps_nobody_from_the_end_of_its_request(bool isEnded)
    {
        Exception? failure = null;
        var memory = new GoingMemory(new byte[16]);
        Run(
            async call =>
            {
                HttpRequest request = ContextOf(call).Request;
                if (request.Path == "/")
                {
                    Task read = request.Body.ReadAsync(memory.Memory).AsTask();
                    memory.IsGone = true;
                    memory.Looked = () => _ = isEnded ? Record.Exception(() => request.BodyReader.AdvanceTo(default)) : null;
                    failure = await Record.ExceptionAsync(() => read);
                }

                call.WriteText("whole");
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Head("/", "POST", length: 5));
                bench.Settle();
                Assert.Null(failure);
                Assert.Equal("whole", bench.Ask(caller, [.. caller.Part("12345"u8.ToArray()), .. caller.EndOfBody()]).BodyText);
                bench.OthersAreServed();
            });
        Assert.IsType<ObjectDisposedException>(failure);
    }

    // Also on the thread of the next request's handler, which asks for its own without being counted.
    [Fact]
    public void What_is_kept_of_a_request_says_nothing_in_the_turn_of_the_next()
    {
        IHttpRequestFeature? kept = null;
        var refused = new List<Exception?>();
        Run(
            call =>
            {
                refused.Add(kept is null ? null : Record.Exception(() => kept.Method));
                kept = ContextOf(call).Features.GetRequiredFeature<IHttpRequestFeature>();
                call.WriteText(kept.Method);
                return default;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                for (int i = 0; i < 4; i++)
                {
                    Assert.Equal("GET", bench.Get(caller, "/").BodyText);
                }

                Assert.Equal(4, refused.Count);
                Assert.All(refused.Skip(1), static error => Assert.IsType<ObjectDisposedException>(error));
            });
    }

    private static async Task<string> Read(PipeReader reader)
    {
        ReadResult result = await reader.ReadAtLeastAsync(100);
        string text = Encoding.ASCII.GetString(result.Buffer);
        reader.AdvanceTo(result.Buffer.End);
        return text;
    }

    // ---- callbacks ----

    [Fact]
    public void Callbacks_of_OnStarting_that_have_not_run_when_the_handler_fails_do_not_run()
    {
        var starting = new TaskCompletionSource();
        bool ran = false;
        Run(
            call =>
            {
                HttpResponse response = ContextOf(call).Response;
                response.OnStarting(() =>
                {
                    ran = true;
                    return Task.CompletedTask;
                });
                response.OnStarting(() => starting.Task);
                _ = response.StartAsync();
                throw new InvalidDataException("thrown on purpose");
            },
            bench =>
            {
                Assert.Equal(500, bench.Get("/").Status);
                starting.SetResult();
                bench.Settle();
                Assert.False(ran);
            });
    }

    [Fact]
    public void One_callback_of_OnCompleted_that_fails_keeps_no_other_from_running()
    {
        var ran = new List<string>();
        Run(
            call =>
            {
                foreach (string name in (string[])["first", "second", "third"])
                {
                    ContextOf(call).Response.OnCompleted(() =>
                    {
                        ran.Add(name);
                        return name == "third" ? throw new InvalidDataException("thrown on purpose") : Task.FromException(new InvalidDataException("thrown on purpose"));
                    });
                }

                return default;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                Assert.Equal(200, bench.Get(caller, "/").Status);
                Assert.Equal(["third", "second", "first"], ran);
                bench.StillServes(caller);
            });
    }

    // What its callback has failed with has been answered by then.
    [Fact]
    public void Completing_in_OnCompleted_what_OnStarting_has_failed_is_no_error()
    {
        Task? completed = null;
        Run(
            call =>
            {
                HttpResponse response = ContextOf(call).Response;
                response.OnStarting(static () => throw new InvalidDataException("thrown on purpose"));
                response.OnCompleted(() => completed = response.CompleteAsync());
                return default;
            },
            bench =>
            {
                Assert.Equal(500, bench.Get("/").Status);
                Assert.True(completed!.IsCompletedSuccessfully, completed.Exception?.ToString());
            });
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_context_that_cannot_be_disposed_of_takes_nothing_of_the_response_and_its_connection(bool later)
    {
        var pause = new TaskCompletionSource();
        Run(
            async call =>
            {
                if (call.Path == "/first")
                {
                    ContextOf(call).Items[HandlerFaces.AtDisposal] = (Action)(static () => throw new InvalidDataException("thrown on purpose"));
                    await (later ? pause.Task : Task.CompletedTask);
                }

                call.WriteText("whole");
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/first"));
                pause.SetResult();
                bench.Settle();
                Assert.Equal("whole", Assert.Single(caller.Answers).BodyText);
                bench.StillServes(caller);
            });
    }
}

public sealed class FastCgiFeatureTests() : FeatureTests(Way.FastCgiToHosted);

public sealed class HttpFeatureTests() : FeatureTests(Way.HttpToHosted)
{
    [Fact]
    public void An_application_may_ask_for_the_end_of_its_connection_IConnectionLifetimeNotificationFeature() => Run(
        static call =>
        {
            ((HostedCall)call).Context.Features.GetRequiredFeature<IConnectionLifetimeNotificationFeature>().RequestClose();
            return default;
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            Assert.Equal("close", bench.Get(caller, "/").Field("Connection"));
            bench.Pass(TimeSpan.FromSeconds(5));
            Assert.True(caller.IsAtEnd);
        });

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void An_application_may_ask_for_it_when_its_response_has_begun_too(bool later)
    {
        var pause = new TaskCompletionSource();
        Run(
            async call =>
            {
                await call.WriteAsync("whole"u8.ToArray());
                await (later ? pause.Task : Task.CompletedTask);
                ((HostedCall)call).Context.Features.GetRequiredFeature<IConnectionLifetimeNotificationFeature>().RequestClose();
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/"));
                pause.SetResult();
                bench.Settle();
                bench.Send(caller, caller.Request("/not-told"));     // its client cannot know
                bench.Pass(TimeSpan.FromSeconds(5));
                Assert.Equal("whole", Assert.Single(caller.Answers).BodyText);
                Assert.Equal((true, false), (caller.IsAtEnd, caller.Socket.WasReset));
            });
    }
}
