// What users set.

using System.Text.RegularExpressions;

namespace Millrace.Sessions.PostgreSql;

/// <summary>Options of <c>AddMillraceSessionPostgreSql</c>.</summary>
public sealed partial class PostgreSqlSessionOptions
{
    internal static readonly TimeSpan SweepEveryMin = TimeSpan.FromSeconds(1);
    internal static readonly TimeSpan SweepEveryMax = TimeSpan.FromDays(1);

    /// <summary>Where the database is, as Npgsql reads it.</summary>
    public string ConnectionString { get; set; } = "";

    /// <summary>The table, with or without a schema; letters, digits and underscores, up to 63 of each. <c>millrace_sessions</c>.</summary>
    public string Table { get; set; } = "millrace_sessions";

    /// <summary>Whether the table is made when it is not there. It needs the right to; true.</summary>
    public bool CreateTable { get; set; } = true;

    /// <summary>How often what has expired is deleted, by each process. From 1 s to 1 day; 1 minute.</summary>
    public TimeSpan SweepEvery { get; set; } = TimeSpan.FromMinutes(1);

    /// <exception cref="ArgumentException">A value cannot be.</exception>
    internal void Check()
    {
        if (string.IsNullOrWhiteSpace(ConnectionString))
        {
            throw new ArgumentException("The session option ConnectionString is empty.", nameof(ConnectionString));
        }
        if (!Name().IsMatch(Table))
        {
            throw new ArgumentException($"The session option Table is \"{Table}\"; it must be of letters, digits and underscores, with a schema and a dot before it or without.", nameof(Table));
        }
        if (SweepEvery < SweepEveryMin || SweepEvery > SweepEveryMax)
        {
            throw new ArgumentException($"The session option SweepEvery is {SweepEvery}; it must be from {SweepEveryMin} to {SweepEveryMax}.", nameof(SweepEvery));
        }
    }

    [GeneratedRegex(@"\A([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}\z")]
    private static partial Regex Name();
}
