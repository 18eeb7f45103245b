// The log of a simulated server. The server contains its own faults and goes on; here each of them ends the simulation.

using Microsoft.Extensions.Logging;

namespace Millrace.Tests.Simulation;

internal sealed class WatchedLog(Action<string> violated) : ILogger
{
    private const int ContinuationFailed = 3;
    private const int InternalError = 11;

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    public bool IsEnabled(LogLevel logLevel) => logLevel >= LogLevel.Error;

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        bool isPlanned = exception is AggregateException { InnerException: InvalidTimeZoneException };      // a callback that is to throw
        if (eventId.Id == InternalError || (eventId.Id == ContinuationFailed && !isPlanned))
        {
            violated($"the server logged \"{formatter(state, exception)}\": {exception}");
        }
    }
}
