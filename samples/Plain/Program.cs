// A plain handler, without ASP.NET Core: a delegate over a request and a response.
// Usage: Plain [ADDRESS]      Try it: millrace get fastcgi://127.0.0.1:9000 '/hello?x=1'

using System.Runtime.InteropServices;
using Millrace;

string address = args.Length > 0 ? args[0] : "fastcgi://127.0.0.1:9000";
await using var server = await MillraceServer.StartAsync(address, static (request, response) =>
{
    response.ContentType = "text/plain; charset=utf-8";
    response.WriteText($"Hello, World! You asked for {request.Path}{request.QueryString} with {request.Method}.\n");
});
Console.WriteLine($"Listening on {string.Join(" and ", server.Addresses)}; Ctrl+C stops.");

var stop = new TaskCompletionSource();
using var interrupt = PosixSignalRegistration.Create(PosixSignal.SIGINT, signal => { signal.Cancel = true; stop.TrySetResult(); });
using var terminate = PosixSignalRegistration.Create(PosixSignal.SIGTERM, signal => { signal.Cancel = true; stop.TrySetResult(); });
await stop.Task;
await server.StopAsync();
