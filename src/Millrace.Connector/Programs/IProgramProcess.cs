// What a request has to know of the process that it has been given: one of a pool, or what a test puts in its place.

using Millrace.Workers;

namespace Millrace.Connector;

internal interface IProgramProcess
{
    bool HasExited { get; }

    /// <inheritdoc cref="WorkerProcess.Exited"/>
    Task Exited { get; }

    /// <exception cref="ConnectorException">It cannot be connected to.</exception>
    ValueTask<ITransport> ConnectAsync(TransportKind kind, CancellationToken ct);

    /// <inheritdoc cref="WorkerProcess.GiveUpAsync"/>
    Task GiveUpAsync(string why);

    /// <inheritdoc cref="WorkerProcess.WaitForExitAsync"/>
    Task<bool> WaitForExitAsync(TimeSpan limit);
}

internal sealed class PooledProcess(WorkerProcess process) : IProgramProcess
{
    // It listens: its queue is its pool's alone.
    private static readonly TimeSpan s_connectTimeout = TimeSpan.FromSeconds(5);

    public bool HasExited => process.HasExited;

    public Task Exited => process.Exited;

    public async ValueTask<ITransport> ConnectAsync(TransportKind kind, CancellationToken ct) => kind.Over(await ConnectionPool.ConnectAsync(process.EndPoint, s_connectTimeout, ct).ConfigureAwait(false));

    public Task GiveUpAsync(string why) => process.GiveUpAsync(why);

    public Task<bool> WaitForExitAsync(TimeSpan limit) => process.WaitForExitAsync(limit);
}
