// Answers 503 on the addresses of an application that serves nobody at the moment: whoever comes learns that at once, and need not wait for a
// front server's patience. So does whoever was moved by a generation that is still being drained.

using System.Text;

namespace Millrace.Command.Serving;

internal sealed class HeldResponder
{
    private const int RetryAfterSeconds = 5;

    private static readonly byte[] s_page = Encoding.UTF8.GetBytes(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Not available</title></head>\n<body><h1>Not available at the moment</h1><p>Please try again in a few seconds.</p></body></html>\n");

    private readonly MillraceServer _server;

    private HeldResponder(MillraceServer server) => _server = server;

    public static async Task<HeldResponder?> StartAsync(AppListeners listeners)
    {
        MillraceServer? server = null;
        try
        {
            var options = new MillraceOptions { Loops = 1, IgnoreSignals = false, DrainTimeout = TimeSpan.FromSeconds(1) };
            server = await MillraceServer.StartAsync(listeners.Copy(), Answer, options);
            await server.Engine.TakeFromAsync(listeners.CopyOfTakes());
            return new HeldResponder(server);
        }
        catch (MillraceStartException)
        {
            await (server?.DisposeAsync() ?? default);
            return null;    // no descriptor, or no thread, is left for it: the front servers wait, and say so themselves
        }
    }

    /// <summary>Ends it.</summary>
    /// <param name="successor">Whose next generation takes its connections; null: nobody does.</param>
    public async ValueTask EndAsync(AppListeners? successor)
    {
        try
        {
            if (successor is not null)
            {
                _server.Engine.MoveTo(successor.CopyOfGives());
            }
        }
        catch (MillraceStartException)
        {
            // No descriptor is left for it: they are closed as they become idle.
        }
        await _server.DisposeAsync();
    }

    private static void Answer(Request request, Response response)
    {
        response.StatusCode = 503;
        response.ContentType = "text/html; charset=utf-8";
        response.AddHeader("Retry-After", RetryAfterSeconds.ToString(System.Globalization.CultureInfo.InvariantCulture));
        response.AddHeader("Cache-Control", "no-store");
        response.Write(s_page);
    }
}
