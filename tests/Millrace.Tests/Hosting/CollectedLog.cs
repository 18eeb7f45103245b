// Log lines of a test, from information on.

using System.Collections.Concurrent;
using Microsoft.Extensions.Logging;

namespace Millrace.Tests.Hosting;

internal sealed class CollectedLog : ILoggerProvider
{
    public ConcurrentQueue<string> Lines { get; } = new();

    public ILogger CreateLogger(string categoryName) => new Category(categoryName, Lines);

    public void Dispose()
    {
    }

    private sealed class Category(string name, ConcurrentQueue<string> lines) : ILogger
    {
        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => logLevel >= LogLevel.Information;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
            lines.Enqueue($"{name}: {formatter(state, exception)}");
    }
}
