// Reports out of a native library that is not thread-safe: SQLite, opened without its own locks, as many older engines are. A few warm engines take turns; what is too much waits,
// or is told to come back. `millrace pool list` shows what they do.
//
//   dotnet run --project samples/Reports --urls http://127.0.0.1:8080       (needs Debian's libsqlite3-0)
//   curl 'http://127.0.0.1:8080/report?year=2025'

using Millrace.Workers;
using Reports;

var builder = WebApplication.CreateBuilder(args);
builder.WebHost.UseMillrace();
builder.Services.AddWorkerPool(static _ => new ReportEngine(), static options =>
{
    (options.Name, options.Min, options.Max) = ("reports", 2, 4);
    options.CallLimit = TimeSpan.FromSeconds(10);       // no report takes that long: one that does has got stuck, and another engine takes its place
});
builder.Services.AddPoolControl();
builder.Services.AddHealthChecks().AddWorkerPool<ReportEngine>();
var app = builder.Build();

app.MapGet("/report", async (int year, WorkerPool<ReportEngine> engines, CancellationToken visitorLeaves) =>
{
    try
    {
        return Results.Text(await engines.RunAsync((engine, _) => engine.SalesOf(year), visitorLeaves), "text/csv");
    }
    catch (WorkerPoolException error) when (error is WorkerQueueFullException or WorkerWaitException)
    {
        return Results.Text("Too many ask for reports. Try again in a minute.\n", statusCode: StatusCodes.Status503ServiceUnavailable);
    }
});
app.MapHealthChecks("/health");

app.Run();
