// The server that the application runs on: Millrace, or, to check the list of tests itself, Kestrel.
//
//   MILLRACE_INTEROP_SERVER=kestrel    the end-to-end list runs with Kestrel behind the same front end over HTTP
//
// Where a test fails in that mode the test is wrong (or says what HTTP cannot); where it fails only without it, Millrace is.
using Microsoft.AspNetCore.Hosting;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Apps;

public static class ServerUnderTest
{
    public static bool IsKestrel { get; } = Environment.GetEnvironmentVariable("MILLRACE_INTEROP_SERVER") == "kestrel";

    public static void Use(IWebHostBuilder builder, string address)
    {
        if (IsKestrel && address.StartsWith("http://", StringComparison.Ordinal))
        {
            // Kestrel runs handlers on the thread pool, which starts too small for 32 handlers that block at once.
            ThreadPool.SetMinThreads(64, 64);
            return;
        }

        builder.UseMillrace();
    }

    /// <summary>The combination as it is really run: Kestrel knows no FastCGI.</summary>
    public static Combination Adjust(Combination combination) =>
        IsKestrel ? combination with { Protocol = AppProtocol.Http } : combination;
}
