// What `millrace run` asks of the hook through the environment: the addresses to listen on, whatever the app's code says,
// and a pipe to report the real ones on. Without these variables the hook leaves the addresses alone.

using System.Globalization;
using System.IO.Pipes;
using System.Text;

namespace Millrace.StartupHooks;

internal static class RunRequest
{
    private const string UrlsVariable = "MILLRACE_RUN_URLS";
    private const string ReportVariable = "MILLRACE_RUN_REPORT";

    private static int s_reportDescriptor = -1;

    /// <summary>The addresses to listen on, or null for those of the app.</summary>
    public static IReadOnlyList<string>? Addresses { get; private set; }

    public static bool HasReportPipe => s_reportDescriptor >= 0;

    public static void TakeFromEnvironment()
    {
        if (Environment.GetEnvironmentVariable(UrlsVariable) is { Length: > 0 } urls)
        {
            Addresses = urls.Split(';', StringSplitOptions.RemoveEmptyEntries | StringSplitOptions.TrimEntries);
        }
        if (int.TryParse(Environment.GetEnvironmentVariable(ReportVariable), NumberStyles.None, CultureInfo.InvariantCulture, out int descriptor))
        {
            s_reportDescriptor = descriptor;
        }
        Environment.SetEnvironmentVariable(UrlsVariable, null);
        Environment.SetEnvironmentVariable(ReportVariable, null);
    }

    /// <summary>Writes the addresses, separated by ';', and a line end to the pipe; once.</summary>
    public static void Report(IEnumerable<string> addresses)
    {
        int descriptor = Interlocked.Exchange(ref s_reportDescriptor, -1);
        if (descriptor < 0)
        {
            return;
        }
        try
        {
            using var pipe = new AnonymousPipeClientStream(PipeDirection.Out, descriptor.ToString(CultureInfo.InvariantCulture));
            pipe.Write(Encoding.UTF8.GetBytes(string.Join(';', addresses) + "\n"));
        }
        catch (Exception error) when (error is IOException or ArgumentException)
        {
            // Nobody listens any more: the app runs on.
        }
    }
}
