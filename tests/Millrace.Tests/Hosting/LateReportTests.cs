// A failure that the application reports while its response is ending. A thread that nobody awaits does so when it finds the response complete (`catch (Exception error) { writer.Complete(error); }`);
// here a logger does, which hears of the end from within.

using System.Collections.Concurrent;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace Millrace.Tests.Hosting;

public sealed class LateReportTests
{
    private static CancellationToken Ended => TestContext.Current.CancellationToken;

    [Theory]
    [InlineData(ApplicationProtocol.FastCgi, "writer")]
    [InlineData(ApplicationProtocol.FastCgi, "reader")]
    [InlineData(ApplicationProtocol.Http, "writer")]
    [InlineData(ApplicationProtocol.Http, "reader")]
    public async Task A_failure_that_is_reported_while_the_response_ends_leaves_no_request_without_its_answer(ApplicationProtocol protocol, string by)
    {
        var context = new ConcurrentQueue<HttpContext>();
        using var disposed = new SemaphoreSlim(0);
        await using UnixApp app = await UnixApp.StartAsync(
            protocol,
            web =>
            {
                web.MapPost("/", async (HttpContext its, Scoped scoped) =>
                {
                    scoped.Disposed = disposed;
                    context.Enqueue(its);
                    await Task.Yield();
                    its.Response.ContentLength = 19;
                });
                web.MapGet("/next", () => "next");
            },
            builder =>
            {
                builder.Services.AddScoped<Scoped>();
                builder.Logging.AddProvider(new Reporter(() =>
                {
                    if (context.TryDequeue(out HttpContext? its))
                    {
                        Report(its, by);
                    }
                }));
            });

        Assert.Equal(500, (await app.Post("/", [1, 2, 3])).Status);
        Assert.True(context.IsEmpty);
        Assert.True(await disposed.WaitAsync(TimeSpan.FromSeconds(20), Ended));
        Assert.Equal("next", (await app.Get("/next")).Text);
    }

    private static void Report(HttpContext context, string by)
    {
        var error = new InvalidTimeZoneException("reported");
        if (by == "writer")
        {
            context.Response.BodyWriter.Complete(error);
        }
        else
        {
            context.Request.BodyReader.Complete(error);
        }
    }

    private sealed class Scoped : IDisposable
    {
        public SemaphoreSlim? Disposed { get; set; }

        public void Dispose() => Disposed?.Release();
    }

    private sealed class Reporter(Action report) : ILoggerProvider, ILogger
    {
        public ILogger CreateLogger(string categoryName) => categoryName.StartsWith("Millrace", StringComparison.Ordinal) ? this : NullLogger.Instance;

        public void Dispose()
        {
        }

        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => true;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
        {
            if (eventId.Id == 1)
            {
                report();
            }
        }
    }
}
