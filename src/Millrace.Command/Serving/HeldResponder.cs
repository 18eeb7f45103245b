// Answers 503 on the addresses of an application that serves nobody at the moment: whoever comes learns that at once, and need not wait for a
// front server's patience. So does whoever was moved by a generation that is still being drained.

using System.Text;
using Millrace.Command.Running;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal sealed class HeldResponder
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(6);     // more than the time in which it is drained
    private static readonly TimeSpan s_headPatience = TimeSpan.FromSeconds(10);

    /// <summary>Connections that are open at a time, more than a router has: they are the daemon's, which has others to open files for. Those beyond are closed.</summary>
    public const int ConnectionsMax = 1_024;

    private const int RetryAfterSeconds = 5;
    private const int DescriptorsOfIt = 12;

    private static readonly byte[] s_page = Encoding.UTF8.GetBytes(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Not available</title></head>\n<body><h1>Not available at the moment</h1><p>Please try again in a few seconds.</p></body></html>\n");

    private readonly AppListeners _listeners;
    private MillraceServer _server = null!;
    private volatile byte[] _shown = s_page;

    private HeldResponder(AppListeners listeners) => _listeners = listeners;

    /// <summary>The page that is shown, as HTML in UTF-8; null for the own one.</summary>
    public byte[]? Page
    {
        get => _shown == s_page ? null : _shown;
        set => _shown = value ?? s_page;
    }

    public static async Task<HeldResponder?> StartAsync(AppListeners listeners)
    {
        if (!Headroom.Has(DescriptorsOfIt))
        {
            return null;
        }
        var responder = new HeldResponder(listeners);
        MillraceServer? server = null;
        try
        {
            var options = new MillraceOptions { Loops = 1, IgnoreSignals = false, DrainTimeout = TimeSpan.FromSeconds(1), MaxConnections = ConnectionsMax, CountsAll = true, HeadTimeout = s_headPatience };
            server = await MillraceServer.StartAsync(listeners.Copy(), responder.Answer, options);
            Task Take() => server.Engine.TakeFromAsync(listeners.CopyOfTakes(), listeners.Closer.Close);
            if (!listeners.Closer.TryFollow(() => TakeLater(Take)))     // else it has sent something that is closed slowly, or never: no more is taken until it is
            {
                await Take().WaitAsync(s_patience);
            }
            responder._server = server;
            return responder;
        }
        catch (TimeoutException)
        {
            _ = responder.EndAsync(server!);        // an application's process has had it wait in accept(2), whose flag is one of the socket they share
            return null;
        }
        catch (MillraceStartException)
        {
            await (server?.DisposeAsync() ?? default);
            return null;    // no descriptor, or no thread, is left for it: the front servers wait, and say so themselves
        }
    }

    /// <summary>Ends it. The answer ends when nothing of it is left: an application's process may have had it wait in accept(2), whose flag is one of the socket they share.</summary>
    /// <param name="successor">Whose next generation takes its connections; null: nobody does.</param>
    public async Task<Task> EndAsync(AppListeners? successor)
    {
        try
        {
            if (successor is not null)
            {
                _ = _server.Engine.MoveTo(successor.CopyOfGives());
            }
        }
        catch (MillraceStartException)
        {
            // No descriptor is left for it: they are closed as they become idle.
        }
        var ended = EndAsync(_server);
        await Task.WhenAny(ended, Task.Delay(s_patience));
        return ended;
    }

    // Its loop closes what somebody has sent it, before Linux 6.16 on any connection and always on one that a process of the application has made itself and given: one that does not end is none that another program could end.
    private Task EndAsync(MillraceServer server)
    {
        long call = ForeignCalls.Begin(_listeners.Closer.Where);
        return Task.Run(async () =>
        {
            try
            {
                await server.DisposeAsync();
            }
            finally
            {
                ForeignCalls.End(call);
            }
        });
    }

    // There may be no descriptor for it, or no server by now: who has been moved waits for whoever is next.
    private static void TakeLater(Func<Task> take) => _ = Task.Run(async () =>
    {
        try
        {
            await take();
        }
        catch (MillraceStartException)
        {
            // As it says.
        }
    });

    // The page is one for all: what a slow visitor has not taken of it is not kept for him.
    private ValueTask Answer(Request request, Response response)
    {
        byte[] page = _shown;
        response.StatusCode = 503;
        response.ContentType = "text/html; charset=utf-8";
        response.AddHeader("Retry-After", RetryAfterSeconds.ToString(System.Globalization.CultureInfo.InvariantCulture));
        response.AddHeader("Cache-Control", "no-store");
        response.ContentLength = page.Length;
        return response.WriteAsync(page);
    }
}
