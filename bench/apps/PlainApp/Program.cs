// The plain handler that is measured: MillraceServer and a delegate, no ASP.NET Core pipeline.
// It is not a sample: its paths exist to be loaded by bench/run.
//
// usage: PlainApp ADDRESSES      (separated by ';')
using System.Globalization;
using System.Runtime.InteropServices;
using Millrace;

long mixed = 0;
using var stop = new ManualResetEventSlim();
using PosixSignalRegistration terminate = PosixSignalRegistration.Create(PosixSignal.SIGTERM, context =>
{
    context.Cancel = true;
    stop.Set();
});

await using MillraceServer server = await MillraceServer.StartAsync(args[0], Answer);
stop.Wait();
await server.StopAsync();

void Answer(Request request, Response response)
{
    response.ContentType = "text/plain";
    switch (request.Path)
    {
        case "/hello":
            response.WriteText("Hello, World!");
            break;
        case "/sleep":
            Thread.Sleep(Number(request, "ms"));
            response.WriteText("Hello, slept");
            break;
        case "/mix":
            if (Interlocked.Increment(ref mixed) % Number(request, "every") == 0)
            {
                Thread.Sleep(Number(request, "ms"));
            }

            response.WriteText("Hello, mixed");
            break;
        case "/heap":
            response.WriteText(GC.GetTotalMemory(forceFullCollection: true).ToString(CultureInfo.InvariantCulture));
            break;
        case "/alloc":
            response.WriteText(GC.GetTotalAllocatedBytes(precise: true).ToString(CultureInfo.InvariantCulture));
            break;
        default:
            response.StatusCode = 404;
            break;
    }
}

static int Number(Request request, string name)
{
    foreach (string pair in request.QueryString.TrimStart('?').Split('&'))
    {
        if (pair.StartsWith(name, StringComparison.Ordinal) && pair.Length > name.Length && pair[name.Length] == '=')
        {
            return int.Parse(pair.AsSpan(name.Length + 1), CultureInfo.InvariantCulture);
        }
    }

    return 0;
}
