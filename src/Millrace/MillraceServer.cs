// The plain server: a delegate over Request and Response behind one or more addresses.

using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Millrace.Exchanges;
using Millrace.Handlers;
using Millrace.Listeners;
using Millrace.Observe;
using Millrace.Platform;

namespace Millrace;

/// <summary>A server for plain handlers.</summary>
/// <example>
/// <code>
/// await using var server = await MillraceServer.StartAsync("fastcgi://unix:/run/hello.sock",
///     static (request, response) => response.WriteText("Hello, World!"));
/// </code>
/// </example>
public sealed class MillraceServer : IAsyncDisposable
{
    private readonly Engine _engine;
    private readonly IdleSignals? _signals;

    private MillraceServer(Engine engine, IdleSignals? signals) => (_engine, _signals) = (engine, signals);

    /// <summary>What the server listens on, with the ports it was given where 0 was asked for.</summary>
    public IReadOnlyList<string> Addresses => [.. _engine.Addresses.Select(static address => address.Url)];

    internal Engine Engine => _engine;

    /// <summary>Starts a server whose handler ends when it returns. It may block: its event loop is then handed to another thread.</summary>
    /// <param name="addresses">One or more addresses, separated by semicolons, such as <c>fastcgi://127.0.0.1:9000</c> or
    /// <c>fastcgi://unix:/run/app.sock?mode=660&amp;group=www-data</c>; port 0 takes a free one.</param>
    /// <param name="handler">Called once for each request, on several threads at a time.</param>
    /// <param name="options">Limits and timeouts; the defaults when null.</param>
    /// <param name="logger">Where messages go; nowhere when null.</param>
    /// <returns>The running server; dispose of it to drain and stop.</returns>
    /// <exception cref="PlatformNotSupportedException">This is not Linux on x64 or arm64.</exception>
    /// <exception cref="FormatException">An address is not understood.</exception>
    /// <exception cref="MillraceStartException">An address cannot be listened on; the message says why and what to do.</exception>
    /// <exception cref="ArgumentOutOfRangeException">An option is outside its range.</exception>
    public static Task<MillraceServer> StartAsync(
        string addresses, Action<Request, Response> handler, MillraceOptions? options = null, ILogger? logger = null)
    {
        ArgumentNullException.ThrowIfNull(handler);
        return StartAsync(addresses, new DelegateHandler(handler), options, logger);
    }

    /// <summary>Starts a server whose handler is asynchronous.</summary>
    /// <param name="addresses">One or more addresses, separated by semicolons, such as <c>fastcgi://127.0.0.1:9000</c> or
    /// <c>fastcgi://unix:/run/app.sock?mode=660&amp;group=www-data</c>; port 0 takes a free one.</param>
    /// <param name="handler">Called once for each request, on several threads at a time.</param>
    /// <param name="options">Limits and timeouts; the defaults when null.</param>
    /// <param name="logger">Where messages go; nowhere when null.</param>
    /// <returns>The running server; dispose of it to drain and stop.</returns>
    /// <exception cref="PlatformNotSupportedException">This is not Linux on x64 or arm64.</exception>
    /// <exception cref="FormatException">An address is not understood.</exception>
    /// <exception cref="MillraceStartException">An address cannot be listened on; the message says why and what to do.</exception>
    /// <exception cref="ArgumentOutOfRangeException">An option is outside its range.</exception>
    public static Task<MillraceServer> StartAsync(
        string addresses, Func<Request, Response, ValueTask> handler, MillraceOptions? options = null, ILogger? logger = null)
    {
        ArgumentNullException.ThrowIfNull(handler);
        return StartAsync(addresses, new DelegateHandler(handler), options, logger);
    }

    private static Task<MillraceServer> StartAsync(string addresses, RequestHandler handler, MillraceOptions? options, ILogger? logger)
    {
        ArgumentException.ThrowIfNullOrEmpty(addresses);
        SupportedPlatform.Require();
        options ??= new MillraceOptions();
        var log = new Log(logger ?? NullLogger.Instance);
        IdleSignals? signals = options.IgnoreSignals == true ? IdleSignals.Take(log, stop: null) : null;
        try
        {
            return Task.FromResult(new MillraceServer(Engine.Start(ListenAddress.ParseList(addresses), handler, options, log), signals));
        }
        catch
        {
            signals?.Dispose();
            throw;
        }
    }

    /// <summary>Stops accepting, lets requests in progress end (<see cref="MillraceOptions.DrainTimeout"/>), then stops.</summary>
    /// <param name="cancellationToken">Ends the waiting: what is still in progress is cut.</param>
    /// <returns>Ends when the server has stopped.</returns>
    public Task StopAsync(CancellationToken cancellationToken = default) => _engine.StopAsync(cancellationToken);

    /// <summary>Drains and stops.</summary>
    /// <returns>Ends when the server has stopped.</returns>
    public async ValueTask DisposeAsync()
    {
        await _engine.DisposeAsync().ConfigureAwait(false);
        _signals?.Dispose();
    }
}
