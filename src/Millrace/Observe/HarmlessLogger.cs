// A logger is code of the application's and may throw. A request, a loop or the process must not end by that.

using Microsoft.Extensions.Logging;

namespace Millrace.Observe;

internal sealed class HarmlessLogger(ILogger logger) : ILogger
{
    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => logger.BeginScope(state);

    public bool IsEnabled(LogLevel logLevel)
    {
        try
        {
            return logger.IsEnabled(logLevel);
        }
        catch (Exception)
        {
            return false;
        }
    }

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        try
        {
            logger.Log(logLevel, eventId, state, exception, formatter);
        }
        catch (Exception)
        {
            // There is nobody left to tell.
        }
    }
}
