// The statements. A session is a row; its version grows with every write, so that a write can say what it expects. Times are the database's own.

namespace Millrace.Sessions.PostgreSql;

internal sealed class SessionTable(string name)
{
    /// <summary>Rows that one statement of a sweep deletes at most.</summary>
    public const int SweepRowsMax = 1_000;

    public string Create { get; } = $"""
        CREATE TABLE IF NOT EXISTS {name} (
            key bytea PRIMARY KEY,
            values bytea NOT NULL,
            version bigint NOT NULL,
            has_ended boolean NOT NULL,
            expires timestamptz NOT NULL);
        CREATE INDEX IF NOT EXISTS {name[(name.IndexOf('.', StringComparison.Ordinal) + 1)..]}_expires ON {name} (expires)
        """;

    /// <summary>$1 key.</summary>
    public string Load { get; } = $"SELECT values, version, has_ended FROM {name} WHERE key = $1 AND expires > now()";

    /// <summary>$1 key, $2 values, $3 how long. A row that has expired is none.</summary>
    public string InsertIfAbsent { get; } = $"""
        INSERT INTO {name} AS t (key, values, version, has_ended, expires) VALUES ($1, $2, 1, false, now() + $3)
        ON CONFLICT (key) DO UPDATE SET values = excluded.values, version = t.version + 1, has_ended = false, expires = excluded.expires WHERE t.expires <= now()
        RETURNING version
        """;

    /// <summary>$1 key, $2 values, $3 how long, $4 version.</summary>
    public string UpdateIfUnchanged { get; } = $"""
        UPDATE {name} SET values = $2, version = version + 1, expires = now() + $3 WHERE key = $1 AND version = $4 AND NOT has_ended AND expires > now()
        RETURNING version
        """;

    /// <summary>$1 key, $2 values, $3 how long.</summary>
    public string Upsert { get; } = $"""
        INSERT INTO {name} AS t (key, values, version, has_ended, expires) VALUES ($1, $2, 1, false, now() + $3)
        ON CONFLICT (key) DO UPDATE SET values = excluded.values, version = t.version + 1, has_ended = false, expires = excluded.expires WHERE NOT t.has_ended OR t.expires <= now()
        RETURNING version
        """;

    /// <summary>$1 key, $2 how long.</summary>
    public string Touch { get; } = $"UPDATE {name} SET expires = now() + $2 WHERE key = $1 AND NOT has_ended AND expires > now() AND expires < now() + $2";

    /// <summary>$1 key, $2 for how long it is remembered.</summary>
    public string End { get; } = $"""
        INSERT INTO {name} AS t (key, values, version, has_ended, expires) VALUES ($1, '', 1, true, now() + $2)
        ON CONFLICT (key) DO UPDATE SET values = '', version = t.version + 1, has_ended = true, expires = excluded.expires
        """;

    /// <summary>$1 rows at most. What another process deletes just now is left to it.</summary>
    public string Sweep { get; } = $"DELETE FROM {name} WHERE key IN (SELECT key FROM {name} WHERE expires <= now() LIMIT $1 FOR UPDATE SKIP LOCKED)";
}
