// One engine: a database in memory, with orders of ten years. Two threads at once would spoil it, and nobody but the pool sees to it that there is one.

using System.Globalization;
using System.Runtime.InteropServices;
using System.Text;

namespace Reports;

internal sealed partial class ReportEngine : IDisposable
{
    private const int ReadWriteCreate = 0x6;        // SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
    private const int NoMutex = 0x8000;             // SQLITE_OPEN_NOMUTEX: who calls sees to it that calls do not meet
    private const int Row = 100;                    // SQLITE_ROW
    private const string Orders = """
        CREATE TABLE orders AS WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99999)
            SELECT 2016 + i % 10 AS year, 1 + i / 10 % 12 AS month, 10 + i * 7919 % 491 AS amount FROM n
        """;

    private readonly nint _database;

    // What takes long is done once, and not for each report.
    public ReportEngine()
    {
        Check(Open(":memory:", out _database, ReadWriteCreate | NoMutex, null));
        Check(Execute(_database, Orders, 0, 0, 0));
    }

    public string SalesOf(int year)
    {
        var text = new StringBuilder("month;orders;amount\n");
        Check(Prepare(_database, "SELECT month, count(*), sum(amount) FROM orders WHERE year = ? GROUP BY month ORDER BY month", -1, out nint query, 0));
        try
        {
            Check(Bind(query, 1, year));
            while (Step(query) == Row)
            {
                text.Append(CultureInfo.InvariantCulture, $"{Number(query, 0)};{Number(query, 1)};{Number(query, 2)}\n");
            }
        }
        finally
        {
            _ = End(query);
        }
        return text.ToString();
    }

    public void Dispose() => _ = Close(_database);

    private static void Check(int result)
    {
        if (result != 0)
        {
            throw new InvalidOperationException(string.Create(CultureInfo.InvariantCulture, $"SQLite says {result}: https://sqlite.org/rescode.html"));
        }
    }

    [LibraryImport("libsqlite3.so.0", EntryPoint = "sqlite3_open_v2", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Open(string path, out nint database, int flags, string? files);

    [LibraryImport("libsqlite3.so.0", EntryPoint = "sqlite3_exec", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Execute(nint database, string text, nint eachRow, nint its, nint error);

    [LibraryImport("libsqlite3.so.0", EntryPoint = "sqlite3_prepare_v2", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Prepare(nint database, string text, int length, out nint query, nint rest);

    [LibraryImport("libsqlite3.so.0", EntryPoint = "sqlite3_bind_int")]
    private static partial int Bind(nint query, int place, int value);

    [LibraryImport("libsqlite3.so.0", EntryPoint = "sqlite3_step")]
    private static partial int Step(nint query);

    [LibraryImport("libsqlite3.so.0", EntryPoint = "sqlite3_column_int64")]
    private static partial long Number(nint query, int column);

    [LibraryImport("libsqlite3.so.0", EntryPoint = "sqlite3_finalize")]
    private static partial int End(nint query);

    [LibraryImport("libsqlite3.so.0", EntryPoint = "sqlite3_close")]
    private static partial int Close(nint database);
}
