// The connection to one process of a pool, which is kept with it. A request that has been given up is still the process's until it says that it has ended: what was running must not meet the next one.

using System.Net.Sockets;
using Millrace.Protocols.FastCgi;
using Millrace.Workers;

namespace Millrace.Connector;

internal sealed class ProcessConnection(WorkerProcess process, TimeSpan abortLimit) : IProgramConnections, IDisposable
{
    // It listens: its queue is its pool's alone.
    private static readonly TimeSpan s_connectTimeout = TimeSpan.FromSeconds(5);

    // An end of the connection is most often that of the process.
    private static readonly TimeSpan s_dying = TimeSpan.FromMilliseconds(50);

    private PooledConnection? _kept;

    public bool KeepsConnections => true;

    public bool Settles => true;

    public static ProcessConnection To(WorkerProcess process, TimeSpan abortLimit)
    {
        if (process.State is not ProcessConnection its)
        {
            its = new ProcessConnection(process, abortLimit);
            process.State = its;
        }
        return its;
    }

    public async ValueTask<PooledConnection> RentAsync(bool fresh, CancellationToken ct)
    {
        PooledConnection? kept = _kept;
        _kept = null;
        if (!fresh && kept is { IsUsable: true })
        {
            return kept;
        }
        kept?.Dispose();
        try
        {
            return new PooledConnection(await ConnectionPool.ConnectAsync(process.EndPoint, s_connectTimeout, ct).ConfigureAwait(false));
        }
        catch (ConnectorException)
        {
            await process.GiveUpAsync("it cannot be connected to").ConfigureAwait(false);
            throw;
        }
    }

    public void Return(PooledConnection connection)
    {
        connection.BecomeIdle();
        _kept = connection;
    }

    public void Drop(PooledConnection connection) => connection.Dispose();

    public async ValueTask SettleAsync(PooledConnection connection, bool hasEnded)
    {
        using (connection)
        {
            if (hasEnded)
            {
                return;
            }
            if (await WhyUnsettledAsync(connection).ConfigureAwait(false) is { } why)
            {
                await process.GiveUpAsync(why).ConfigureAwait(false);
            }
        }
    }

    public void Dispose() => _kept?.Dispose();

    // Null: the process has ended the request, or itself.
    private async ValueTask<string?> WhyUnsettledAsync(PooledConnection connection)
    {
        if (connection.IsTorn)
        {
            return process.HasExited ? null : "a request that it was not reading has been given up";
        }
        using var limit = new CancellationTokenSource(abortLimit);
        try
        {
            await connection.SendAsync(RecordWriter.Abort(), limit.Token).ConfigureAwait(false);
            do
            {
                while (connection.TryRead(out RecordPart part, out _))
                {
                    if (part is { Type: RecordType.EndRequest, RequestId: RecordWriter.RequestId, IsLast: true })
                    {
                        return null;
                    }
                }
            }
            while (await connection.ReceiveAsync(limit.Token).ConfigureAwait(false));
        }
        catch (SocketException)
        {
            // It has ended the connection.
        }
        catch (ConnectorException)
        {
            return "what it answers is no FastCGI";
        }
        catch (OperationCanceledException)
        {
            return FormattableString.Invariant($"it has not ended a request that was given up within {abortLimit.TotalSeconds:0.###} s (AbortLimit)");
        }
        _ = await process.WaitForExitAsync(s_dying).ConfigureAwait(false);
        return null;
    }
}
