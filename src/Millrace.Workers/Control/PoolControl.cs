// The control socket of a process that has pools: HTTP and JSON on a Unix socket that its user alone can use. `millrace pool` is its client, and `curl --unix-socket` is another.
//
//   GET  /pools                          the pools, as they are
//   POST /pools/NAME/kill?worker=N       IWorkerPool.Kill
//   POST /pools/NAME/recycle?worker=N    IWorkerPool.Recycle
//   POST /pools/NAME/resize?min=N&max=N  IWorkerPool.Resize
//   POST /pools/NAME/hold                IWorkerPool.HoldAsync: answers when no worker has a call any more, or with what is still running after 10 s
//   POST /pools/NAME/release             IWorkerPool.Release
//   POST /pools/NAME/swap                IWorkerPool.SwapAsync: answers when the last old worker has ended, or after 10 minutes

using System.Globalization;
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.AspNetCore.Server.Kestrel.Transport.Sockets;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Microsoft.Extensions.Options;

namespace Millrace.Workers.Control;

internal sealed class PoolControl(IEnumerable<IWorkerPool> pools, IServiceProvider services, string? path, ILoggerFactory? loggers) : IHostedLifecycleService, IHttpApplication<HttpContext>, IDisposable
{
    private const int ConnectionsMax = 64;
    private const int HeadMax = 8 * 1024;
    private static readonly TimeSpan s_holdPatience = TimeSpan.FromSeconds(10);
    private static readonly TimeSpan s_swapPatience = TimeSpan.FromMinutes(10);

    private readonly IWorkerPool[] _pools = [.. pools];
    private ControlSocket? _socket;
    private KestrelServer? _server;

    private ILogger Logger => loggers?.CreateLogger("Millrace.Workers") ?? NullLogger.Instance;

    // Before the pools, which may wait for workers that cannot be made. One without a socket is no reason for an application not to serve.
    public async Task StartingAsync(CancellationToken cancellationToken)
    {
        if (!OperatingSystem.IsLinux())
        {
            Log.NoControl(Logger, "only on Linux it can.");
            return;
        }
        try
        {
            _socket = ControlSocket.Listen(path);
            var options = new KestrelServerOptions { ApplicationServices = services, AddServerHeader = false };
            options.Limits.MaxConcurrentConnections = ConnectionsMax;
            options.Limits.MaxRequestBodySize = 0;
            options.Limits.MaxRequestHeadersTotalSize = HeadMax;
            options.Limits.MaxRequestLineSize = HeadMax;
            options.ListenHandle((ulong)_socket.Descriptor, static listen => listen.Protocols = HttpProtocols.Http1);
            var transport = new SocketTransportFactory(Options.Create(new SocketTransportOptions()), NullLoggerFactory.Instance);
            _server = new KestrelServer(Options.Create(options), transport, NullLoggerFactory.Instance);
            await _server.StartAsync(this, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            Log.NoControl(Logger, error.Message);
        }
    }

    public Task StartAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StartedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StoppingAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StoppedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public async Task StopAsync(CancellationToken cancellationToken)
    {
        _socket?.Remove();      // who asks now is told that there is nobody
        if (_server is not null)
        {
            await _server.StopAsync(new CancellationToken(canceled: true)).ConfigureAwait(false);      // a hold or a swap that somebody waits for keeps nobody from ending
        }
    }

    public void Dispose()
    {
        _server?.Dispose();
        _socket?.Dispose();
    }

    public HttpContext CreateContext(IFeatureCollection contextFeatures) => new DefaultHttpContext(contextFeatures);

    public void DisposeContext(HttpContext context, Exception? exception)
    {
    }

    public async Task ProcessRequestAsync(HttpContext context)
    {
        string[] path = context.Request.Path.Value!.Split('/', StringSplitOptions.RemoveEmptyEntries);
        switch (context.Request.Method, path)
        {
            case ("GET", ["pools"]):
                await SendAsync(context, StatusCodes.Status200OK, new PoolsStatus(Environment.ProcessId, Name(), [.. _pools.Select(static pool => pool.GetStatus())]), PoolJson.Default.PoolsStatus).ConfigureAwait(false);
                return;
            case ("POST", ["pools", var name, var action]):
                PoolAnswer answer = await DoAsync(Uri.UnescapeDataString(name), action, context).ConfigureAwait(false);
                await SendAsync(context, answer.Ok ? StatusCodes.Status200OK : StatusCodes.Status409Conflict, answer, PoolJson.Default.PoolAnswer).ConfigureAwait(false);
                return;
            default:
                await SendAsync(context, StatusCodes.Status404NotFound, new PoolAnswer(false, $"{context.Request.Method} {context.Request.Path} is nothing that is known here."), PoolJson.Default.PoolAnswer).ConfigureAwait(false);
                return;
        }
    }

    private string Name() => (services.GetService(typeof(IHostEnvironment)) as IHostEnvironment)?.ApplicationName ?? "";

    private async Task<PoolAnswer> DoAsync(string name, string action, HttpContext context)
    {
        IWorkerPool[] its = [.. _pools.Where(pool => pool.Name == name)];
        if (its is not [var pool])
        {
            string names = string.Join(", ", _pools.Select(static pool => pool.Name));
            return new PoolAnswer(false, its.Length > 0 ? $"{its.Length} pools are called {name}: give each a name of its own." : $"There is no pool {name}. There are: {names}.");
        }
        try
        {
            return await DoAsync(pool, action, context.Request.Query, context.RequestAborted).ConfigureAwait(false);
        }
        catch (Exception error) when (error is WorkerStartException or WorkerPoolClosedException or ArgumentOutOfRangeException)
        {
            return new PoolAnswer(false, $"{name}: {error.Message}");
        }
    }

    private static async Task<PoolAnswer> DoAsync(IWorkerPool pool, string action, IQueryCollection query, CancellationToken ct)
    {
        switch (action, Number(query, "worker"), Number(query, "min"), Number(query, "max"))
        {
            case ("kill" or "recycle", null, _, _):
                return new PoolAnswer(false, "Which worker? Their numbers stand in the list.");
            case ("kill", int id, _, _):
                return Found(pool, id, pool.Kill(id), "has been killed, and another takes its place");
            case ("recycle", int id, _, _):
                return Found(pool, id, pool.Recycle(id), "ends when its call has ended, and another takes its place");
            case ("resize", _, int min, int max):
                pool.Resize(min, max);
                return Done(pool, string.Create(CultureInfo.InvariantCulture, $"has from {min} to {max} workers"));
            case ("resize", _, _, _):
                return new PoolAnswer(false, "How many workers? At least and at most.");
            case ("hold", _, _, _):
                return await IsDoneAsync(pool.HoldAsync, s_holdPatience, ct).ConfigureAwait(false)
                    ? Done(pool, "is held: no worker has a call, and calls wait until it is released")
                    : Done(pool, string.Create(CultureInfo.InvariantCulture, $"is held: calls wait until it is released; {pool.GetStatus().Running} that had begun have not ended yet"));
            case ("release", _, _, _):
                pool.Release();
                return Done(pool, "is released");
            case ("swap", _, _, _):
                return await IsDoneAsync(pool.SwapAsync, s_swapPatience, ct).ConfigureAwait(false)
                    ? Done(pool, string.Create(CultureInfo.InvariantCulture, $"has workers of generation {pool.GetStatus().Generation}"))
                    : new PoolAnswer(false, $"{pool.Name}: its old workers have not all ended within {s_swapPatience.TotalMinutes} minutes; each is replaced when its call ends.");
            default:
                return new PoolAnswer(false, $"'{action}' is nothing that can be done to a pool. There are kill, recycle, resize, hold, release and swap.");
        }
    }

    // What is waited for goes on when nobody waits any more.
    private static async Task<bool> IsDoneAsync(Func<CancellationToken, Task> what, TimeSpan patience, CancellationToken ct)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct);
        limit.CancelAfter(patience);
        try
        {
            await what(limit.Token).ConfigureAwait(false);
            return true;
        }
        catch (OperationCanceledException)
        {
            return false;
        }
    }

    private static PoolAnswer Found(IWorkerPool pool, int id, bool isThere, string what) =>
        isThere ? Done(pool, string.Create(CultureInfo.InvariantCulture, $"worker {id} {what}")) : new PoolAnswer(false, string.Create(CultureInfo.InvariantCulture, $"{pool.Name}: there is no worker {id}."));

    private static PoolAnswer Done(IWorkerPool pool, string what) => new(true, $"{pool.Name}: {what}");

    private static int? Number(IQueryCollection query, string name) =>
        int.TryParse(query[name].ToString(), NumberStyles.None, CultureInfo.InvariantCulture, out int number) ? number : null;

    private static async Task SendAsync<T>(HttpContext context, int status, T value, JsonTypeInfo<T> type)
    {
        byte[] json = JsonSerializer.SerializeToUtf8Bytes(value, type);
        context.Response.StatusCode = status;
        context.Response.ContentType = "application/json";
        context.Response.ContentLength = json.Length;
        await context.Response.Body.WriteAsync(json, context.RequestAborted).ConfigureAwait(false);
    }
}
