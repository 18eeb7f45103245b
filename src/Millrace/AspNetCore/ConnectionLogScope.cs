// The scope ConnectionId that log messages of a request have on Kestrel, around hosting's own (RequestId, RequestPath).
// Scopes live in the execution context. It is made once for a connection, where logging is on at all and some logger takes
// scopes, and put in place before each of its requests; the driver puts its own back after each.

using System.Collections;
using Microsoft.Extensions.Logging;
using Millrace.Exchanges;

namespace Millrace.AspNetCore;

internal sealed class ConnectionLogScope : IReadOnlyList<KeyValuePair<string, object?>>
{
    // What a connection has whose requests run without a scope.
    private static readonly object s_none = new();

    private readonly string _connectionId;

    private ConnectionLogScope(string connectionId) => _connectionId = connectionId;

    /// <summary>Puts the calling thread into the scope of this connection.</summary>
    public static void Enter(ResponseChannel connection, ILogger logger)
    {
        object context = connection.LogContext ??= Make(connection, logger);
        if (!ReferenceEquals(context, s_none))
        {
            ExecutionContext.Restore((ExecutionContext)context);
        }
    }

    // The scope is not closed: it lasts as long as the connection, and is garbage with it.
    private static object Make(ResponseChannel connection, ILogger logger)
    {
        if (!logger.IsEnabled(LogLevel.Critical) || ExecutionContext.Capture() is not { } before)
        {
            return s_none;
        }

        _ = logger.BeginScope(new ConnectionLogScope(connection.Id));
        ExecutionContext? within = ExecutionContext.Capture();
        return within is null || ReferenceEquals(within, before) ? s_none : within;
    }

    public int Count => 1;

    public KeyValuePair<string, object?> this[int index] => index == 0 ? new("ConnectionId", _connectionId) : throw new ArgumentOutOfRangeException(nameof(index));

    public IEnumerator<KeyValuePair<string, object?>> GetEnumerator()
    {
        yield return this[0];
    }

    IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

    public override string ToString() => "ConnectionId:" + _connectionId;
}
