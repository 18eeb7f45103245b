// Log lines of a test, from information on.

using System.Collections.Concurrent;
using Microsoft.Extensions.Logging;

namespace Millrace.Tests.Hosting;

internal sealed class CollectedLog : ILoggerProvider
{
    public ConcurrentQueue<string> Lines { get; } = new();

    /// <summary>The exceptions that came with them.</summary>
    public ConcurrentQueue<Exception> Errors { get; } = new();

    /// <summary>The first line that holds <paramref name="text"/>, once it is there: some are written by a thread of their own.</summary>
    public async Task<string> WaitForAsync(string text)
    {
        for (int i = 0; i < 1_000; i++)
        {
            if (Lines.FirstOrDefault(line => line.Contains(text, StringComparison.Ordinal)) is { } line)
            {
                return line;
            }
            await Task.Delay(10);
        }
        throw new TimeoutException($"\"{text}\" was not logged; what was: {string.Join('\n', Lines)}");
    }

    public ILogger CreateLogger(string categoryName) => new Category(categoryName, this);

    public void Dispose()
    {
    }

    private sealed class Category(string name, CollectedLog log) : ILogger
    {
        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => logLevel >= LogLevel.Information;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
        {
            if (exception is not null)
            {
                log.Errors.Enqueue(exception);
            }
            log.Lines.Enqueue($"{name}: {formatter(state, exception)}");
        }
    }
}
