// Log messages of libraries as lines of this process's output, which the daemon keeps and prints. What visitors can cause again and again is said once in a second.

using Microsoft.Extensions.Logging;
using Millrace.Command.Routing;

namespace Millrace.Command.Pools;

internal sealed class SaidLog(Action<string> say) : ILoggerProvider
{
    /// <summary>A category of which nobody can cause a flood.</summary>
    public const string Calm = "Millrace.Connector";

    private readonly CalmLog _calm = new(say);

    public ILogger CreateLogger(string categoryName) => new Said(this, categoryName == Calm);

    public void Dispose()
    {
    }

    private void Say(bool isCalm, EventId id, string sentence)
    {
        if (isCalm)
        {
            _calm.Say(id.Name ?? "", sentence);
            return;
        }
        say(sentence);
    }

    private sealed class Said(SaidLog log, bool isCalm) : ILogger
    {
        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => logLevel is >= LogLevel.Information and < LogLevel.None;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
        {
            if (IsEnabled(logLevel))
            {
                log.Say(isCalm, eventId, exception is null ? formatter(state, exception) : $"{formatter(state, exception)} {exception.Message}");
            }
        }
    }
}
