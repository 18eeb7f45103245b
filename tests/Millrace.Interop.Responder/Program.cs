// A process of a pool that is a .NET program: it is given the socket it listens on as its descriptor 0, and hangs where it is asked to.

using System.Globalization;
using System.Runtime.InteropServices;
using Millrace;

await using var server = await MillraceServer.StartAsync("fastcgi://fd:0", static (request, response) =>
{
    if (request.Path == "/hang.php")
    {
        Report.WaitForThePrinter();
    }
    response.ContentType = "text/plain";
    response.WriteText(string.Create(CultureInfo.InvariantCulture, $"process {Environment.ProcessId}"));
});
var stop = new TaskCompletionSource();
using var terminate = PosixSignalRegistration.Create(PosixSignal.SIGTERM, signal =>
{
    signal.Cancel = true;
    stop.TrySetResult();
});
await stop.Task;

internal static class Report
{
    public static void WaitForThePrinter() => Thread.Sleep(Timeout.Infinite);
}
