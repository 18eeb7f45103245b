// Names of connections and requests, and the scope that log messages have: as on Kestrel, unique over restarts, and free
// where nobody takes scopes.

using System.Collections.Concurrent;
using System.Diagnostics;
using System.Globalization;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Logging;
using Millrace.Tests.Allocation;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class ConnectionScopeTests
{
    private const string Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUV";

    [Fact]
    public async Task A_connection_is_named_as_on_Kestrel_and_no_process_gives_a_name_again()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/", static (HttpContext context) => $"{context.Connection.Id} {context.TraceIdentifier}"));
        string[] first = app.Get("/").Text.Split(' ');
        string[] second = app.Get("/").Text.Split(' ');
        Assert.NotEqual(first[0], second[0]);
        Assert.Matches($"^{first[0]}:[0-9A-F]{{8}}$", first[1]);
        Assert.All([first[0], second[0]], static id =>
        {
            // What it counts from is the time at which this process began: a later one begins beyond all that this one counts to.
            long number = id.Aggregate(0L, static (sum, digit) => (sum * 32) + Digits.IndexOf(digit, StringComparison.Ordinal));
            Assert.Equal(13, id.Length);
            Assert.InRange(number, Process.GetCurrentProcess().StartTime.ToUniversalTime().AddSeconds(-5).Ticks, DateTime.UtcNow.Ticks);
        });
    }

    [Theory]
    [InlineData("fastcgi")]
    [InlineData("http")]
    public async Task A_request_is_named_as_on_Kestrel_by_its_connection_and_its_number_on_it(string scheme)
    {
        using var folder = new SocketFolder();
        await using HostedApp app = await HostedApp.StartAsync(
            static app => app.MapGet("/{asks}", static (HttpContext context, bool asks) => asks ? $"{context.Connection.Id} {context.TraceIdentifier}" : ""),
            address: folder.NewAddress(scheme));
        for (int connection = 0; connection < 2; connection++)
        {
            using KeptConnection kept = KeptConnection.Open(app.Address, "/true");
            for (int i = 1; i <= 20; i++)
            {
                string[] names = kept.Ask().Text.Split(' ');
                Assert.Equal(names[0] + ":" + i.ToString("X8", CultureInfo.InvariantCulture), names[1]);
            }
        }
    }

    [Fact]
    public async Task Log_messages_of_a_request_have_the_scope_ConnectionId_around_those_of_hosting()
    {
        using var log = new ScopedLog();
        await using HostedApp app = await HostedApp.StartAsync(
            static app => app.MapGet("/{kind}", static async (HttpContext context, string kind, ILogger<ConnectionScopeTests> logger) =>
            {
                if (kind == "later")
                {
                    await Task.Delay(1);
                }

                logger.LogInformation("within");
                return context.Connection.Id;
            }),
            builder => builder.Logging.AddProvider(log));
        using FastCgiPeer peer = app.Connect();
        using FastCgiPeer other = app.Connect();
        foreach (FastCgiPeer each in (FastCgiPeer[])[peer, other, peer])
        {
            foreach (string kind in (string[])["/now", "/later"])
            {
                log.Lines.Clear();
                string id = each.Exchange(new FastCgiRequest(kind)).Text;
                Assert.True(ProcessState.Becomes(() => log.Lines.Any(static line => line.StartsWith("Request finished", StringComparison.Ordinal))));
                Assert.All(
                    log.Lines.Where(static line => line.StartsWith("Request ", StringComparison.Ordinal) || line.StartsWith("within", StringComparison.Ordinal)),
                    line => Assert.Contains($" => ConnectionId:{id} => RequestPath:{kind}", line, StringComparison.Ordinal));
            }
        }
    }

    [Fact]
    public async Task Without_loggers_that_take_scopes_a_request_runs_in_the_context_of_its_thread()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.Run(static context =>
            context.Response.WriteAsync(ReferenceEquals(ExecutionContext.Capture(), Default()) ? "its own" : "another")));
        Assert.Equal("its own", app.Get("/").Text);
    }

    private static ExecutionContext? Default()
    {
        ExecutionContext? context = null;
        var thread = new Thread(() => context = ExecutionContext.Capture());
        thread.UnsafeStart();
        thread.Join();
        return context;
    }

    /// <summary>Lines with the scopes they were written in, the outermost first.</summary>
    private sealed class ScopedLog : ILoggerProvider, ILogger, ISupportExternalScope
    {
        private IExternalScopeProvider _scopes = new LoggerExternalScopeProvider();

        public ConcurrentQueue<string> Lines { get; } = new();

        public void SetScopeProvider(IExternalScopeProvider scopeProvider) => _scopes = scopeProvider;

        public ILogger CreateLogger(string categoryName) => this;

        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => _scopes.Push(state);

        public bool IsEnabled(LogLevel logLevel) => logLevel >= LogLevel.Information;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
        {
            string line = formatter(state, exception);
            _scopes.ForEachScope(
                static (scope, lines) => lines.Add(scope is IEnumerable<KeyValuePair<string, object?>> pairs
                    ? string.Join(' ', pairs.OrderByDescending(static pair => pair.Key).Select(static pair => $"{pair.Key}:{pair.Value}"))
                    : scope?.ToString() ?? ""),
                new Collected(text => line += " => " + text));
            Lines.Enqueue(line);
        }

        public void Dispose()
        {
        }

        private readonly record struct Collected(Action<string> Add);
    }
}
