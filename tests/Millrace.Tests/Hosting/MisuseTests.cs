// What an application does with a request that is over, or from threads it has left behind, reaches neither another
// request nor another connection, and ends neither a loop nor the process.

using System.Buffers;
using System.Globalization;
using System.IO.Pipelines;
using System.Net.Http;
using System.Text;
using System.Text.Json;
using System.Threading.Tasks.Sources;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Millrace.Exchanges;
using Millrace.Platform;

namespace Millrace.Tests.Hosting;

public sealed class MisuseTests
{
    private static CancellationToken Ended => TestContext.Current.CancellationToken;

    [Fact]
    public async Task A_thread_that_writes_on_while_its_handler_ends_spoils_no_other_response()
    {
        await using HostedApp app = await Start(static web =>
        {
            web.MapGet("/race", static context =>
            {
                Stream body = context.Response.Body;
                byte[] part = new byte[64];
                _ = Task.Run(async () =>
                {
                    for (int i = 0; i < 10_000; i++)
                    {
                        await body.WriteAsync(part);
                    }
                });
                Thread.SpinWait(2_000);
                return Task.CompletedTask;
            });
            web.MapGet("/good/{id}", static (string id) => "good " + id);
        });
        using HttpClient client = Client(app);
        Task[] racers = [.. Enumerable.Range(0, 2).Select(_ => Task.Run(
            async () =>
            {
                for (int i = 0; i < 150; i++)
                {
                    try
                    {
                        byte[] whole = await client.GetByteArrayAsync("/race", Ended);
                        Assert.Equal(0, whole.Length % 64);
                    }
                    catch (HttpRequestException)
                    {
                        // cut: the peer must see that the response is not whole
                    }
                }
            },
            Ended))];
        for (int i = 0; i < 600; i++)
        {
            Assert.Equal($"good {i}", await client.GetStringAsync(string.Create(CultureInfo.InvariantCulture, $"/good/{i}"), Ended));
        }

        await Task.WhenAll(racers);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Advancing_beyond_what_GetMemory_gave_is_refused(bool started)
    {
        await using HostedApp app = await Start(web =>
        {
            web.MapGet("/over", async context =>
            {
                if (started)
                {
                    await context.Response.StartAsync();
                }

                PipeWriter writer = context.Response.BodyWriter;
                Memory<byte> given = writer.GetMemory(16);
                Assert.Throws<ArgumentOutOfRangeException>(() => writer.Advance(given.Length + 1));
                "wh"u8.CopyTo(given.Span);
                writer.Advance(2);
                Assert.Throws<ArgumentOutOfRangeException>(() => writer.Advance(given.Length - 1));
                writer.Advance(0);
                await context.Response.WriteAsync("ole");
                Assert.Throws<ArgumentOutOfRangeException>(() => writer.Advance(1));
            });
        });
        using HttpClient client = Client(app);
        for (int i = 0; i < 3; i++)
        {
            Assert.Equal("whole", await client.GetStringAsync("/over", Ended));
        }
    }

    [Theory]
    [InlineData(ApplicationProtocol.Http, false)]
    [InlineData(ApplicationProtocol.Http, true)]
    [InlineData(ApplicationProtocol.FastCgi, false)]
    [InlineData(ApplicationProtocol.FastCgi, true)]
    public async Task Asking_for_more_memory_than_there_can_be_is_refused_and_harms_nothing(ApplicationProtocol protocol, bool started)
    {
        var refused = new List<Exception?>();
        await using UnixApp app = await UnixApp.StartAsync(protocol, web =>
        {
            web.MapGet("/much", async context =>
            {
                if (started)
                {
                    await context.Response.StartAsync();
                }

                PipeWriter writer = context.Response.BodyWriter;
                AskForTooMuch(writer);
                "one "u8.CopyTo(writer.GetSpan(4));
                AskForTooMuch(writer);
                writer.Advance(4);
                writer.Write("two "u8);
                AskForTooMuch(writer);
                await writer.FlushAsync();
                AskForTooMuch(writer);
                await context.Response.WriteAsync("three");
            });
        });
        for (int i = 0; i < 3; i++)
        {
            Assert.Equal("one two three", (await app.Get("/much")).Text);
        }

        Assert.Equal(3 * 4 * 8, refused.Count);
        Assert.All(refused, static error => Assert.Equal("sizeHint", Assert.IsType<ArgumentOutOfRangeException>(error).ParamName));

        void AskForTooMuch(PipeWriter writer)
        {
            foreach (int size in (int[])[int.MaxValue, int.MaxValue - 5, Array.MaxLength, -1])
            {
                refused.Add(Record.Exception(() => writer.GetMemory(size)));
                refused.Add(Record.Exception(() => writer.GetSpan(size)));
            }
        }
    }

    // A handler that fills the same span again and again, flushing in between.
    [Theory]
    [InlineData(DispatchMode.Workers, 1, 0)]
    [InlineData(DispatchMode.Workers, 5_000, 0)]
    [InlineData(DispatchMode.Workers, 1, 60_000)]
    [InlineData(DispatchMode.Inline, 1, 60_000)]
    public async Task A_span_that_is_used_behind_its_flush_is_room_in_no_other_response(DispatchMode dispatch, int before, int behind)
    {
        var lentAgain = new List<bool>();
        await using HostedApp app = await HostedApp.StartAsync(web => web.MapGet("/span", context =>
        {
            context.Response.StartAsync(Ended).Wait(Ended);
            PipeWriter writer = context.Response.BodyWriter;
            writer.Write(new byte[before]);
            Span<byte> kept = writer.GetSpan(16);
            writer.Advance(1);
            writer.Write(new byte[behind]);
            writer.FlushAsync(Ended).AsTask().Wait(Ended);
            foreach (int size in (int[])[OutputBuffer.SmallSize, OutputBuffer.FullSize])
            {
                List<byte[]> rented = [.. Enumerable.Range(0, 300).Select(_ => BufferPool.Rent(size))];
                foreach (byte[] other in rented)
                {
                    lentAgain.Add(kept.Overlaps(other));
                }

                rented.ForEach(BufferPool.Return);
            }

            return Task.CompletedTask;
        }), options: options => (options.Loops, options.Dispatch) = (1, dispatch), address: "http://127.0.0.1:0");
        using HttpClient client = Client(app);
        for (int i = 0; i < 3; i++)
        {
            Assert.Equal(before + 1 + behind, (await client.GetByteArrayAsync("/span", Ended)).Length);
        }

        Assert.NotEmpty(lentAgain);
        Assert.DoesNotContain(true, lentAgain);
    }

    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    public async Task An_array_that_is_written_into_after_it_has_gone_back_to_its_pool_is_nobodys_body(ApplicationProtocol protocol)
    {
        int[] sizes = [1024, 4096, 16 * 1024];
        byte[][] kept = [];
        await using UnixApp app = await UnixApp.StartAsync(
            protocol,
            web =>
            {
                web.MapGet("/mistake", () =>
                {
                    kept = [.. sizes.Select(ArrayPool<byte>.Shared.Rent)];
                    Array.ForEach(kept, static array => ArrayPool<byte>.Shared.Return(array));
                    return "made";
                });
                web.MapPost("/", async (HttpContext context) =>
                {
                    await Task.Yield();
                    Array.ForEach(kept, static array => array.AsSpan().Fill((byte)'X'));
                    await context.Request.Body.CopyToAsync(context.Response.Body);
                });
            },
            static builder => (builder.Configuration["Millrace:Loops"], builder.Configuration["Millrace:Dispatch"]) = ("1", "Inline"));
        foreach (int size in sizes)
        {
            Assert.Equal("made", (await app.Get("/mistake")).Text);
            Assert.Equal(new string('.', size), (await app.Post("/", Encoding.ASCII.GetBytes(new string('.', size)))).Text);
        }
    }

    [Fact]
    public async Task Memory_taken_before_the_head_is_written_still_counts_after_it()
    {
        await using HostedApp app = await Start(static web => web.MapGet("/json", static async context =>
        {
            await using var json = new Utf8JsonWriter(context.Response.BodyWriter);
            json.WriteStartObject();
            await context.Response.StartAsync();
            json.WriteString("a", "b");
            json.WriteEndObject();
            await json.FlushAsync();
        }));
        using HttpClient client = Client(app);
        for (int i = 0; i < 3; i++)
        {
            Assert.Equal("{\"a\":\"b\"}", await client.GetStringAsync("/json", Ended));
        }
    }

    [Fact]
    public async Task Memory_is_not_given_once_the_response_is_complete()
    {
        await using HostedApp app = await Start(static web => web.MapGet("/late", static async context =>
        {
            await context.Response.WriteAsync("done");
            await context.Response.CompleteAsync();
            Assert.Throws<InvalidOperationException>(() => context.Response.BodyWriter.GetMemory());
            await Assert.ThrowsAsync<InvalidOperationException>(() => context.Response.WriteAsync("more"));
        }));
        using HttpClient client = Client(app);
        for (int i = 0; i < 3; i++)
        {
            Assert.Equal("done", await client.GetStringAsync("/late", Ended));
        }
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_kept_writer_stream_or_abort_reaches_no_other_request(bool leavesItsTurn)
    {
        var attempts = new List<Exception?>();
        var over = new TaskCompletionSource();
        await using HostedApp app = await Start(web =>
        {
            web.MapGet("/keep", async context =>
            {
                PipeWriter writer = context.Response.BodyWriter;
                Stream stream = context.Response.Body;
                IHttpRequestLifetimeFeature lifetime = context.Features.GetRequiredFeature<IHttpRequestLifetimeFeature>();
                if (leavesItsTurn)
                {
                    await Task.Yield();
                }

                writer.Write("hi"u8);
                ThreadPool.UnsafeQueueUserWorkItem(
                    async _ =>
                    {
                        await Task.Delay(100);
                        foreach (Func<Task> act in new Func<Task>[] { async () => await writer.WriteAsync("SECRET"u8.ToArray()), async () => await stream.WriteAsync("SECRET"u8.ToArray()) })
                        {
                            try
                            {
                                await act();
                                attempts.Add(null);
                            }
                            catch (Exception error)
                            {
                                attempts.Add(error);
                            }
                        }

                        if (leavesItsTurn)
                        {
                            lifetime.Abort();
                        }

                        over.SetResult();
                    },
                    null);
            });
            web.MapGet("/other", static async context =>
            {
                Thread.Sleep(250);      // in its driver's turn while the other's thread comes
                await context.Response.WriteAsync("mine");
            });
        });
        using HttpClient client = Client(app);
        Assert.Equal("hi", await client.GetStringAsync("/keep", Ended));
        string[] others = await Task.WhenAll(Enumerable.Range(0, 8).Select(_ => client.GetStringAsync("/other", Ended)));
        Assert.All(others, static text => Assert.Equal("mine", text));
        await over.Task.WaitAsync(TimeSpan.FromSeconds(10), Ended);
        Assert.Equal(2, attempts.Count);
        Assert.All(attempts, static error => Assert.IsType<ObjectDisposedException>(error));
        Assert.Equal("mine", await client.GetStringAsync("/other", Ended));
    }

    [Theory]
    [InlineData("/write")]
    [InlineData("/file")]
    public async Task What_was_begun_and_not_awaited_does_not_end_as_a_whole_response(string target)
    {
        string file = Path.GetTempFileName();
        await File.WriteAllBytesAsync(file, new byte[30_000_000], Ended);
        await using HostedApp app = await Start(web =>
        {
            web.MapGet("/write", static context =>
            {
                _ = context.Response.Body.WriteAsync(new byte[30_000_000]).AsTask();
                return Task.CompletedTask;
            });
            web.MapGet("/file", context =>
            {
                _ = context.Response.SendFileAsync(file);
                return Task.CompletedTask;
            });
            web.MapGet("/next", static () => "next");
        });
        using HttpClient client = Client(app);
        await Assert.ThrowsAnyAsync<Exception>(async () =>
        {
            using HttpResponseMessage response = await client.GetAsync(target, HttpCompletionOption.ResponseHeadersRead, Ended);
            await Task.Delay(300, Ended);      // nobody reads: the socket is full when the handler ends
            byte[] body = await response.Content.ReadAsByteArrayAsync(Ended);
            Assert.Equal(30_000_000, body.Length);
            throw new OperationCanceledException("all of it had room: a whole response is right as well");
        });
        Assert.Equal("next", await client.GetStringAsync("/next", Ended));
        File.Delete(file);
    }

    [Fact]
    public async Task Callbacks_and_loggers_that_throw_end_nothing_but_themselves()
    {
        var registered = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var cancelled = new TaskCompletionSource();
        await using HostedApp app = await Start(
            web =>
            {
                web.MapGet("/callback", async context =>
                {
                    context.RequestAborted.Register(static () => throw new InvalidTimeZoneException("thrown by a callback"));
                    context.RequestAborted.Register(() => cancelled.TrySetResult());
                    registered.SetResult();
                    await cancelled.Task;
                });
                web.MapGet("/fails", static string () => throw new InvalidTimeZoneException("thrown by a handler"));
                web.MapGet("/good", static () => "good");
            },
            static builder => builder.Services.AddSingleton<ILoggerProvider, ThrowingLogger>());
        using HttpClient client = Client(app);
        using (var patience = CancellationTokenSource.CreateLinkedTokenSource(Ended))
        {
            Task<string> asking = client.GetStringAsync("/callback", patience.Token);
            await registered.Task.WaitAsync(TimeSpan.FromSeconds(20), Ended);
            await patience.CancelAsync();
            await Assert.ThrowsAnyAsync<OperationCanceledException>(() => asking);
        }

        await cancelled.Task.WaitAsync(TimeSpan.FromSeconds(10), Ended);
        for (int i = 0; i < 5; i++)
        {
            using HttpResponseMessage failed = await client.GetAsync("/fails", Ended);
            Assert.Equal(500, (int)failed.StatusCode);
            Assert.Equal("good", await client.GetStringAsync("/good", Ended));
        }
    }

    // As on Kestrel.
    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    public async Task A_read_whose_token_is_cancelled_takes_nothing_of_the_body(ApplicationProtocol protocol)
    {
        await using UnixApp app = await UnixApp.StartAsync(protocol, static web => web.Map("/", static async context =>
        {
            var cancelled = new CancellationToken(canceled: true);
            await Assert.ThrowsAnyAsync<OperationCanceledException>(async () => Assert.Equal(0, await context.Request.Body.ReadAsync(new byte[8], cancelled)));
            await Assert.ThrowsAnyAsync<OperationCanceledException>(async () => await context.Request.BodyReader.ReadAsync(cancelled));
            await context.Request.Body.CopyToAsync(context.Response.Body);
        }));
        Assert.Equal("whole", (await app.Post("/", "whole"u8.ToArray())).Text);
        Assert.Equal((200, ""), Of(await app.Get("/")));
    }

    // As on Kestrel; there, however, nothing can be read behind it.
    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    public async Task Cancelling_the_pending_read_ends_the_next_read_of_the_stream_too(ApplicationProtocol protocol)
    {
        await using UnixApp app = await UnixApp.StartAsync(protocol, static web => web.MapPost("/", static async context =>
        {
            context.Request.BodyReader.CancelPendingRead();
            await Assert.ThrowsAnyAsync<OperationCanceledException>(async () => Assert.Equal(0, await context.Request.Body.ReadAsync(new byte[8])));
            await context.Request.Body.CopyToAsync(context.Response.Body);
        }));
        Assert.Equal("whole", (await app.Post("/", "whole"u8.ToArray())).Text);
    }

    // As on Kestrel: a request without a body has one reader after the other for nothing.
    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    public async Task Where_there_is_no_body_nothing_that_is_done_to_its_reader_counts(ApplicationProtocol protocol)
    {
        await using UnixApp app = await UnixApp.StartAsync(protocol, static web => web.MapGet("/", static async context =>
        {
            PipeReader reader = context.Request.BodyReader;
            using (var text = new StreamReader(reader.AsStream()))
            {
                Assert.Equal("", await text.ReadToEndAsync());
            }

            Assert.Equal(0, await context.Request.Body.ReadAsync(new byte[8]));
            reader.Complete(new InvalidOperationException("of no consequence"));
            Assert.True((await reader.ReadAsync()).IsCompleted);
            var size = context.Features.GetRequiredFeature<IHttpMaxRequestBodySizeFeature>();
            Assert.False(size.IsReadOnly);
            size.MaxRequestBodySize = null;
            await context.Response.WriteAsync("fine");
        }));
        Assert.Equal((200, "fine"), Of(await app.Get("/")));
    }

    private static (int Status, string Text) Of(UnixAnswer answer) => (answer.Status, answer.Text);

    [Fact]
    public async Task Completing_a_response_that_is_too_short_is_refused_and_cuts_it_unless_the_rest_is_written()
    {
        await using HostedApp app = await Start(web =>
        {
            web.MapGet("/short", async context =>
            {
                context.Response.ContentLength = 10;
                await context.Response.WriteAsync("abc");
                await Assert.ThrowsAsync<InvalidOperationException>(() => context.Response.CompleteAsync());
                Assert.Throws<InvalidOperationException>(() => context.Response.BodyWriter.Complete());
                if (context.Request.Query.ContainsKey("rest"))
                {
                    await context.Response.WriteAsync("defghij");
                    await context.Response.CompleteAsync();
                }
            });
            web.MapGet("/good", static () => "good");
        });
        using HttpClient client = Client(app);
        await Assert.ThrowsAnyAsync<HttpRequestException>(() => client.GetStringAsync("/short", Ended));
        Assert.Equal("abcdefghij", await client.GetStringAsync("/short?rest", Ended));
        Assert.Equal("good", await client.GetStringAsync("/good", Ended));
    }

    [Fact]
    public async Task An_OnStarting_callback_that_waits_and_writes_does_not_wait_for_itself()
    {
        await using HostedApp app = await Start(static web => web.MapGet("/starting", static async context =>
        {
            context.Response.OnStarting(async () =>
            {
                await Task.Delay(10);
                await context.Response.WriteAsync("first ");
            });
            await context.Response.WriteAsync("second");
        }));
        using HttpClient client = Client(app);
        Assert.Equal("first second", await client.GetStringAsync("/starting", Ended));
    }

    [Fact]
    public async Task Completing_twice_behind_a_slow_client_completes_once()
    {
        var outcomes = new TaskCompletionSource<Exception?[]>(TaskCreationOptions.RunContinuationsAsynchronously);
        using var begun = new SemaphoreSlim(0);
        await using HostedApp app = await Start(web => web.MapGet("/twice", async context =>
        {
            Task write = context.Response.Body.WriteAsync(new byte[20_000_000]).AsTask();
            Task[] both = [context.Response.CompleteAsync(), context.Response.CompleteAsync()];
            begun.Release();
            var failed = new List<Exception?>();
            foreach (Task task in (Task[])[write, .. both])
            {
                failed.Add(await Record.ExceptionAsync(() => task));
            }

            outcomes.SetResult([.. failed]);
        }));
        using HttpClient client = Client(app);
        using HttpResponseMessage response = await client.GetAsync("/twice", HttpCompletionOption.ResponseHeadersRead, Ended);
        Assert.True(await begun.WaitAsync(TimeSpan.FromSeconds(20), Ended));
        Assert.Equal(20_000_000, (await response.Content.ReadAsByteArrayAsync(Ended)).Length);
        Assert.All(await outcomes.Task.WaitAsync(TimeSpan.FromSeconds(20), Ended), Assert.Null);
    }

    // As two threads leave them that change them at once.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Half_a_head_is_not_left_on_a_connection_that_goes_on(bool leavesItsTurn)
    {
        await using HostedApp app = await Start(web =>
        {
            web.MapGet("/half", async context =>
            {
                if (leavesItsTurn)
                {
                    await Task.Yield();
                }

                object table = typeof(HeaderView).GetField("<table>P", System.Reflection.BindingFlags.NonPublic | System.Reflection.BindingFlags.Instance)!.GetValue(context.Response.Headers)!;
                Count((HeaderTable)table) = -1;
                await Assert.ThrowsAnyAsync<Exception>(() => context.Response.WriteAsync("a"));
                await Record.ExceptionAsync(() => context.Response.WriteAsync("b"));
            });
            web.MapGet("/good", static () => "good");
        });
        using HttpClient client = Client(app);
        await Assert.ThrowsAsync<HttpRequestException>(() => client.GetStringAsync("/half", Ended));
        Assert.Equal("good", await client.GetStringAsync("/good", Ended));
    }

    [System.Runtime.CompilerServices.UnsafeAccessor(System.Runtime.CompilerServices.UnsafeAccessorKind.Field, Name = "_count")]
    private static extern ref int Count(HeaderTable table);

    [Fact]
    public async Task An_exception_whose_own_message_fails_ends_its_request_as_any_other()
    {
        using var completed = new SemaphoreSlim(0);
        await using HostedApp app = await Start(web => web.MapGet("/bad/{kind}", async (HttpContext context, string kind) =>
        {
            context.Response.OnCompleted(() => Task.FromResult(completed.Release()));
            if (kind == "later")
            {
                await Task.Yield();
            }

            throw new Unspeakable();
        }));
        using HttpClient client = Client(app);
        foreach (string kind in (string[])["now", "later"])
        {
            using HttpResponseMessage response = await client.GetAsync("/bad/" + kind, Ended);
            Assert.Equal(400, (int)response.StatusCode);
            Assert.True(await completed.WaitAsync(TimeSpan.FromSeconds(20), Ended));
        }
    }

    private sealed class Unspeakable() : BadHttpRequestException("", StatusCodes.Status400BadRequest)
    {
        public override string Message => throw new InvalidTimeZoneException("thrown by a message");
    }

    [Fact]
    public async Task A_source_that_goes_on_twice_ends_its_own_request_once()
    {
        await using MillraceServer server = await MillraceServer.StartAsync(
            "http://127.0.0.1:0",
            static (request, response) =>
            {
                response.WriteText(request.Path);
                return new ValueTask(new Twice(), 0);
            },
            new MillraceOptions { Loops = 1 });
        using var client = new HttpClient { BaseAddress = new Uri(server.Addresses[0]), Timeout = TimeSpan.FromSeconds(20) };
        await Task.WhenAll(Enumerable.Range(0, 4).Select(async i =>
        {
            for (int j = 0; j < 300; j++)
            {
                string path = string.Create(CultureInfo.InvariantCulture, $"/{i}/{j}");
                Assert.Equal(path, await client.GetStringAsync(path, Ended));
            }
        }));
    }

    // Each of two threads tells its awaiter.
    private sealed class Twice : IValueTaskSource
    {
        private int _told;

        public ValueTaskSourceStatus GetStatus(short token) => Volatile.Read(ref _told) == 0 ? ValueTaskSourceStatus.Pending : ValueTaskSourceStatus.Succeeded;

        public void GetResult(short token)
        {
        }

        public void OnCompleted(Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags)
        {
            for (int i = 0; i < 2; i++)
            {
                ThreadPool.UnsafeQueueUserWorkItem(
                    _ =>
                    {
                        Interlocked.Increment(ref _told);
                        SpinWait.SpinUntil(() => Volatile.Read(ref _told) == 2, 50);
                        try
                        {
                            continuation(state);
                        }
                        catch (Exception)
                        {
                            // what it is told is its own affair
                        }
                    },
                    null);
            }
        }
    }

    private static Task<HostedApp> Start(Action<WebApplication> map, Action<WebApplicationBuilder>? configure = null) =>
        HostedApp.StartAsync(map, configure, static options => options.Loops = 1, "http://127.0.0.1:0");

    private static HttpClient Client(HostedApp app) => new() { BaseAddress = new Uri(app.Address), Timeout = TimeSpan.FromSeconds(20) };

    private sealed class ThrowingLogger : ILoggerProvider, ILogger
    {
        public ILogger CreateLogger(string categoryName) => categoryName.StartsWith("Millrace", StringComparison.Ordinal) ? this : Microsoft.Extensions.Logging.Abstractions.NullLogger.Instance;

        public void Dispose()
        {
        }

        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => true;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
        {
            if (logLevel >= LogLevel.Error)
            {
                throw new InvalidTimeZoneException("thrown by a logger");
            }
        }
    }
}
