// An application that throws wherever it can: each time its own request fails in the way that is promised, and the requests beside
// it and behind it are answered. Real sockets, both protocols.

using System.Collections.Concurrent;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Logging;
using Millrace.Tests.Hosting;

namespace Millrace.Tests.Faults;

public sealed class HandlerExceptionTests
{
    private const int InternalError = 11;

    public static TheoryData<string, int> Kinds => new()
    {
        { "synchronous", 500 },
        { "asynchronous", 500 },
        { "starting", 500 },
        { "starting-asynchronous", 500 },
        { "completed", 200 },
        { "dispose", 200 },
        { "no-task", 500 },
        { "cancelled-without-reason", 500 },
        { "half-written-memory", 500 },
        { "writer-completed-with-error", 0 },
        { "after-flush", 0 },
        { "after-abort", 0 },
        { "abort-callback", 0 },
        { "in-finally", 500 },
        { "header-after-start", 0 },
    };

    [Theory]
    [MemberData(nameof(Kinds))]
    public Task Over_FastCGI_an_exception_costs_its_own_request_only(string kind, int status) => Fails("fastcgi", kind, status);

    [Theory]
    [MemberData(nameof(Kinds))]
    public Task Over_HTTP_an_exception_costs_its_own_request_only(string kind, int status) => Fails("http", kind, status);

    private static async Task Fails(string scheme, string kind, int status)
    {
        var log = new KeptLog();
        await using HostedApp app = await HostedApp.StartAsync(Map, builder => builder.Logging.AddProvider(log), address: scheme + "://127.0.0.1:0");
        using HttpClient client = new(new SocketsHttpHandler { UseProxy = false }) { BaseAddress = scheme == "http" ? new Uri(app.Address) : null, Timeout = TimeSpan.FromSeconds(20) };
        Assert.Equal((200, "well"), await Ask("/well"));
        for (int i = 0; i < 3; i++)
        {
            (int got, string text) = await Ask("/" + kind);
            Assert.Equal(status, got);
            Assert.True(got != 500 || text.Length == 0, "a visitor was shown " + text);
            Assert.Equal((200, "well"), await Ask("/well"));
        }

        Assert.DoesNotContain(InternalError, log.Events);

        async Task<(int Status, string Text)> Ask(string path)
        {
            try
            {
                if (scheme == "fastcgi")
                {
                    var response = app.Get(path);
                    return response.End is not null ? (response.Status, response.Text) : (0, "");
                }

                using HttpResponseMessage answer = await client.GetAsync(path);
                return ((int)answer.StatusCode, await answer.Content.ReadAsStringAsync());
            }
            catch (Exception error) when (error is HttpRequestException or System.Net.Sockets.SocketException)
            {
                return (0, "");      // broken off
            }
        }
    }

    private static void Map(WebApplication app)
    {
        app.MapGet("/well", static () => "well");
        app.Map("/synchronous", static (HttpContext _) => { throw Planned(); });
        app.Map("/asynchronous", static async (HttpContext _) =>
        {
            await Task.Yield();
            throw Planned();
        });
        app.Map("/starting", static (HttpContext context) =>
        {
            context.Response.OnStarting(static () => throw Planned());
            return context.Response.WriteAsync("text");
        });
        app.Map("/starting-asynchronous", static (HttpContext context) =>
        {
            context.Response.OnStarting(static async () =>
            {
                await Task.Yield();
                throw Planned();
            });
            return context.Response.WriteAsync("text");
        });
        app.Map("/completed", static (HttpContext context) =>
        {
            context.Response.OnCompleted(static () => throw Planned());
            return context.Response.WriteAsync("text");
        });
        app.Map("/dispose", static (HttpContext context) =>
        {
            context.Response.RegisterForDispose(new Reluctant());
            return context.Response.WriteAsync("text");
        });
        app.Map("/no-task", (RequestDelegate)(static (HttpContext _) => null!));
        app.Map("/cancelled-without-reason", static (HttpContext _) => { throw new OperationCanceledException(); });
        app.Map("/half-written-memory", static (HttpContext context) =>
        {
            context.Response.BodyWriter.GetMemory(100).Span.Fill((byte)'x');
            throw Planned();
        });
        app.Map("/writer-completed-with-error", static async (HttpContext context) =>
        {
            await context.Response.WriteAsync("half");
            await context.Response.BodyWriter.FlushAsync();
            await context.Response.BodyWriter.CompleteAsync(Planned());
            throw Planned();
        });
        app.Map("/after-flush", static async (HttpContext context) =>
        {
            await context.Response.WriteAsync("half");
            await context.Response.Body.FlushAsync();
            throw Planned();
        });
        app.Map("/after-abort", static (HttpContext context) =>
        {
            context.Abort();
            throw Planned();
        });
        app.Map("/abort-callback", static async (HttpContext context) =>
        {
            var told = new TaskCompletionSource();
            context.RequestAborted.Register(told.SetResult);
            context.RequestAborted.Register(static () => throw Planned());
            context.Abort();
            await told.Task;
        });
        app.Map("/in-finally", static (HttpContext context) =>
        {
            try
            {
                throw Planned();
            }
            finally
            {
                _ = context.Request.Headers["X"].ToString().Substring(1);
            }
        });
        app.Map("/header-after-start", static async (HttpContext context) =>
        {
            await context.Response.StartAsync();
            await context.Response.Body.FlushAsync();
            context.Response.Headers["X-Late"] = "1";
        });
    }

    private static InvalidTimeZoneException Planned() => new("thrown by the application, as it is to be");

    private sealed class Reluctant : IDisposable
    {
        public void Dispose() => throw Planned();
    }

    private sealed class KeptLog : ILoggerProvider, ILogger
    {
        public ConcurrentQueue<int> Events { get; } = new();

        public ILogger CreateLogger(string categoryName) => this;

        public void Dispose()
        {
        }

        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => logLevel >= LogLevel.Error;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) => Events.Enqueue(eventId.Id);
    }
}
