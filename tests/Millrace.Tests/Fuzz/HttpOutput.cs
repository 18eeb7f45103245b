// Whether bytes that an HTTP/1.1 server sent are well-formed responses, one after the other (RFC 9112).

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Fuzz;

internal static class HttpOutput
{
    [ThreadStatic]
    private static SimulatedBrowser? t_browser;

    /// <summary>Null, or what is wrong.</summary>
    public static string? Fault(ReadOnlySpan<byte> bytes, bool open)
    {
        SimulatedBrowser browser = t_browser ??= new SimulatedBrowser(null!) { Guesses = true };
        browser.Restart();
        browser.Take(bytes);
        return browser.Fault ?? (open && browser.EndsInsideHead ? "a head that stops" : null);
    }
}
