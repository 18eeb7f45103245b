// The connection to one process of a pool, which is kept with it. A request that has been given up is still the process's until it says that it has ended: what was running must not meet the next one. It ends
// with the process, whoever else has its other end: a program that the process has started inherits what is not closed for it.

using System.Net.Sockets;
using Millrace.Protocols.FastCgi;
using Millrace.Workers;

namespace Millrace.Connector;

/// <param name="process">Its other end.</param>
/// <param name="abortLimit">See <see cref="ProcessPool.AbortLimit"/>.</param>
/// <param name="clock">Measures that.</param>
internal sealed class ProcessConnection(IProgramProcess process, TimeSpan abortLimit, TimeProvider clock) : IProgramConnections, IDisposable
{
    // An end of the connection is most often that of the process.
    private static readonly TimeSpan s_dying = TimeSpan.FromMilliseconds(50);

    private PooledConnection? _kept;
    private PooledConnection? _last;        // that was made
    private Task? _watching;

    public bool KeepsConnections => true;

    public bool Settles => true;

    public static ProcessConnection To(WorkerProcess process, TimeSpan abortLimit)
    {
        if (process.State is not ProcessConnection its)
        {
            its = new ProcessConnection(new PooledProcess(process), abortLimit, TimeProvider.System);
            process.State = its;
        }
        return its;
    }

    public PooledConnection? TryRent(TransportKind kind) => null;

    public async ValueTask<PooledConnection> RentAsync(bool fresh, TransportKind kind, CancellationToken ct)
    {
        PooledConnection? kept = _kept;
        _kept = null;
        if (!fresh && kept is { IsUsable: true })
        {
            return kept;
        }
        kept?.Dispose();
        // One that is ending still has a queue, whose connections it takes along.
        if (await process.WaitForExitAsync(TimeSpan.Zero).ConfigureAwait(false))
        {
            throw Ended(null);
        }
        try
        {
            return EndWithProcess(new PooledConnection(await process.ConnectAsync(kind, ct).ConfigureAwait(false)));
        }
        catch (ConnectorException error) when (!error.IsShortage)
        {
            bool hadEnded = await process.WaitForExitAsync(s_dying).ConfigureAwait(false);
            await process.GiveUpAsync("it cannot be connected to").ConfigureAwait(false);
            throw hadEnded ? Ended(error) : error;
        }
    }

    // One request at a time has it, and one connection.
    private PooledConnection EndWithProcess(PooledConnection connection)
    {
        _ = Interlocked.Exchange(ref _last, connection);        // before the process is looked at: its end is seen here, or there
        _watching ??= EndLastAsync();
        if (process.HasExited)
        {
            connection.Shut();
        }
        return connection;
    }

    private async Task EndLastAsync()
    {
        await process.Exited.ConfigureAwait(false);
        Volatile.Read(ref _last)!.Shut();
    }

    private static ConnectorException Ended(Exception? error) => new(ConnectorFault.NoConnection, "Its process had ended before it could be asked.", error);

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
        using var limit = new CancellationTokenSource(abortLimit, clock);
        try
        {
            if (!connection.HasForeign)
            {
                await connection.SendAsync(RecordWriter.Abort(connection.RequestId), limit.Token).ConfigureAwait(false);
            }
            do
            {
                while (!connection.HasForeign && connection.TryRead(out RecordPart part, out _))
                {
                    if (part is { Type: RecordType.EndRequest, IsLast: true } && part.RequestId == connection.RequestId)
                    {
                        return null;
                    }
                }
                if (connection.HasForeign)
                {
                    return "it has answered another request than the one that it had: a process that it has forked may write on its connection";
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
