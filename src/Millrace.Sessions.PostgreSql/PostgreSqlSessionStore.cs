// Sessions in a table of PostgreSQL. Each call is one statement, or one batch, which happens whole or not at all; nothing is kept in the process.

using Npgsql;

namespace Millrace.Sessions.PostgreSql;

internal sealed class PostgreSqlSessionStore : ISessionBackingStore, IAsyncDisposable, IDisposable
{
    private readonly NpgsqlDataSource _source;
    private readonly SessionTable _table;
    private readonly SemaphoreSlim _creating = new(1, 1);
    private readonly ITimer _sweep;
    private readonly TimeSpan _sweepEvery;
    private volatile bool _isCreated;

    public PostgreSqlSessionStore(PostgreSqlSessionOptions options, TimeProvider time)
    {
        options.Check();
        _source = NpgsqlDataSource.Create(options.ConnectionString);
        _table = new SessionTable(options.Table);
        _isCreated = !options.CreateTable;
        _sweepEvery = options.SweepEvery;
        _sweep = time.CreateTimer(static store => _ = ((PostgreSqlSessionStore)store!).SweepAndGoOnAsync(), this, _sweepEvery, Timeout.InfiniteTimeSpan);
    }

    public long Epoch => 0;

    public bool IsLocal => false;

    public StoredSession? Load(SessionKey key)
    {
        Create();
        using NpgsqlCommand command = Command(_table.Load, key);
        using NpgsqlDataReader reader = command.ExecuteReader();
        return reader.Read() ? Read(reader) : null;
    }

    public async ValueTask<StoredSession?> LoadAsync(SessionKey key, CancellationToken cancellationToken)
    {
        await CreateAsync(cancellationToken).ConfigureAwait(false);
        await using NpgsqlCommand command = Command(_table.Load, key);
        await using NpgsqlDataReader reader = await command.ExecuteReaderAsync(cancellationToken).ConfigureAwait(false);
        return await reader.ReadAsync(cancellationToken).ConfigureAwait(false) ? Read(reader) : null;
    }

    public async ValueTask<SessionWriteResult> WriteAsync(SessionWrite write, CancellationToken cancellationToken)
    {
        ArgumentNullException.ThrowIfNull(write);
        await CreateAsync(cancellationToken).ConfigureAwait(false);
        if (await TryWriteAsync(write, cancellationToken).ConfigureAwait(false) is { } version)
        {
            return new SessionWriteResult(WriteOutcome.Stored, version);
        }
        StoredSession? there = await LoadAsync(write.Key, cancellationToken).ConfigureAwait(false);
        return new SessionWriteResult(there is { HasEnded: true } ? WriteOutcome.Ended : WriteOutcome.Conflict, there?.Tag);
    }

    public async ValueTask TouchAsync(SessionKey key, TimeSpan idleTimeout, CancellationToken cancellationToken)
    {
        await CreateAsync(cancellationToken).ConfigureAwait(false);
        await using NpgsqlCommand command = Command(_table.Touch, key, idleTimeout);
        await command.ExecuteNonQueryAsync(cancellationToken).ConfigureAwait(false);
    }

    public async ValueTask EndAsync(SessionKey key, TimeSpan remember, CancellationToken cancellationToken)
    {
        await CreateAsync(cancellationToken).ConfigureAwait(false);
        await using NpgsqlCommand command = Command(_table.End, key, remember);
        await command.ExecuteNonQueryAsync(cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Deletes what has expired.</summary>
    /// <returns>Rows that were deleted.</returns>
    public async Task<int> SweepAsync(CancellationToken cancellationToken)
    {
        await CreateAsync(cancellationToken).ConfigureAwait(false);
        int all = 0;
        for (int rows = SessionTable.SweepRowsMax; rows == SessionTable.SweepRowsMax;)
        {
            await using NpgsqlCommand command = _source.CreateCommand(_table.Sweep);
            command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = SessionTable.SweepRowsMax });
            rows = await command.ExecuteNonQueryAsync(cancellationToken).ConfigureAwait(false);
            all += rows;
        }
        return all;
    }

    public void Dispose()
    {
        _sweep.Dispose();
        _source.Dispose();
        _creating.Dispose();
    }

    public async ValueTask DisposeAsync()
    {
        await _sweep.DisposeAsync().ConfigureAwait(false);
        await _source.DisposeAsync().ConfigureAwait(false);
        _creating.Dispose();
    }

    // A session that gets another key ends under the one before in the same batch.
    private async ValueTask<long?> TryWriteAsync(SessionWrite write, CancellationToken ct)
    {
        await using NpgsqlBatch batch = _source.CreateBatch();
        var command = new NpgsqlBatchCommand(write.Condition switch
        {
            WriteCondition.Absent => _table.InsertIfAbsent,
            WriteCondition.Unchanged => _table.UpdateIfUnchanged,
            _ => _table.Upsert,
        });
        command.Parameters.Add(Key(write.Key));
        command.Parameters.Add(new NpgsqlParameter<byte[]> { TypedValue = write.Values });
        command.Parameters.Add(new NpgsqlParameter<TimeSpan> { TypedValue = write.IdleTimeout });
        if (write.Condition == WriteCondition.Unchanged)
        {
            command.Parameters.Add(new NpgsqlParameter<long> { TypedValue = write.Expected as long? ?? 0 });
        }
        batch.BatchCommands.Add(command);
        if (write.Replaces is { } before)
        {
            var end = new NpgsqlBatchCommand(_table.End);
            end.Parameters.Add(Key(before));
            end.Parameters.Add(new NpgsqlParameter<TimeSpan> { TypedValue = write.IdleTimeout });
            batch.BatchCommands.Add(end);
        }
        return await batch.ExecuteScalarAsync(ct).ConfigureAwait(false) as long?;
    }

    private NpgsqlCommand Command(string text, SessionKey key, TimeSpan? time = null)
    {
        NpgsqlCommand command = _source.CreateCommand(text);
        command.Parameters.Add(Key(key));
        if (time is { } value)
        {
            command.Parameters.Add(new NpgsqlParameter<TimeSpan> { TypedValue = value });
        }
        return command;
    }

    private static NpgsqlParameter<byte[]> Key(SessionKey key)
    {
        byte[] bytes = new byte[SessionKey.Size];
        key.Write(bytes);
        return new NpgsqlParameter<byte[]> { TypedValue = bytes };
    }

    private static StoredSession Read(NpgsqlDataReader reader) => new(reader.GetFieldValue<byte[]>(0), reader.GetInt64(1), reader.GetBoolean(2));

    private void Create()
    {
        if (!_isCreated)
        {
            using NpgsqlCommand command = _source.CreateCommand(_table.Create);
            Run(() => command.ExecuteNonQuery());
        }
    }

    private async ValueTask CreateAsync(CancellationToken ct)
    {
        if (_isCreated)
        {
            return;
        }
        await _creating.WaitAsync(ct).ConfigureAwait(false);
        try
        {
            if (!_isCreated)
            {
                await using NpgsqlCommand command = _source.CreateCommand(_table.Create);
                try
                {
                    await command.ExecuteNonQueryAsync(ct).ConfigureAwait(false);
                }
                catch (PostgresException error) when (IsMadeByAnother(error))
                {
                }
                _isCreated = true;
            }
        }
        finally
        {
            _creating.Release();
        }
    }

    private void Run(Action create)
    {
        try
        {
            create();
        }
        catch (PostgresException error) when (IsMadeByAnother(error))
        {
        }
        _isCreated = true;
    }

    // IF NOT EXISTS does not help two that make it at the same moment.
    private static bool IsMadeByAnother(PostgresException error) => error.SqlState is PostgresErrorCodes.UniqueViolation or PostgresErrorCodes.DuplicateTable or PostgresErrorCodes.DuplicateObject;

    private async Task SweepAndGoOnAsync()
    {
        try
        {
            await SweepAsync(CancellationToken.None).ConfigureAwait(false);
        }
        catch (Exception)
        {
            // Whoever uses the store says that it does not answer; what has expired waits.
        }
        try
        {
            _sweep.Change(_sweepEvery, Timeout.InfiniteTimeSpan);
        }
        catch (ObjectDisposedException)
        {
        }
    }
}
