// The endpoints that clients without a browser visit. Each does one thing that a client can check.

using System.Globalization;
using System.Net.WebSockets;
using System.Security.Cryptography;
using System.Text;
using Microsoft.AspNetCore.Http.Features;

namespace Millrace.Browser.Site;

internal static class Endpoints
{
    private static int s_cachedRuns;

    public static void Map(WebApplication web, Notes notes)
    {
        web.MapMethods("/hello", ["GET", "HEAD", "POST"], static () => "Hello, world!");
        web.MapGet("/bytes/{count:long}", SendBytes);
        web.MapGet("/text/{count:int}", static (int count) => Results.Text(new string('x', count), "text/plain"));
        web.MapMethods("/digest", ["POST", "PUT"], (Delegate)Digest);
        web.MapMethods("/refuse", ["POST", "PUT"], static () => Results.StatusCode(StatusCodes.Status403Forbidden));
        web.MapPost("/echo", static (HttpContext context) => context.Request.Body.CopyToAsync(context.Response.Body));
        web.MapGet("/drip/{count:int}", Drip);
        web.MapGet("/connection", static (HttpContext context) => context.Connection.Id);
        web.MapGet("/wait/{name}", (string name, HttpContext context) => WaitForAbort(notes, name, context));
        web.MapPost("/wait-reading/{name}", (string name, HttpContext context) => WaitReading(notes, name, context));
        web.MapGet("/endless/{name}", (string name, HttpContext context) => SendUntilAborted(notes, name, context));
        web.MapGet("/trailers", static (HttpContext context) => context.Response.SupportsTrailers().ToString());
        web.MapGet("/cached", Cached);
        web.MapGet("/visits", Visits);
        web.Map("/socket", EchoSocket);
    }

    private static async Task SendBytes(long count, HttpContext context)
    {
        context.Response.ContentLength = count;
        byte[] piece = new byte[64 * 1024];
        for (long at = 0; at < count; at += piece.Length)
        {
            int length = (int)Math.Min(piece.Length, count - at);
            Pattern.Fill(piece.AsSpan(0, length), at);
            await context.Response.Body.WriteAsync(piece.AsMemory(0, length));
        }
    }

    // The body's length and SHA-256, and the trailers that followed it.
    private static async Task<string> Digest(HttpContext context)
    {
        using var hash = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
        byte[] piece = new byte[64 * 1024];
        long length = 0;
        for (int read; (read = await context.Request.Body.ReadAsync(piece)) > 0; length += read)
        {
            hash.AppendData(piece, 0, read);
        }

        var answer = new StringBuilder();
        answer.Append(CultureInfo.InvariantCulture, $"{length} {Convert.ToHexStringLower(hash.GetHashAndReset())}\n");
        if (context.Request.CheckTrailersAvailable())
        {
            foreach ((string name, var value) in context.Features.GetRequiredFeature<IHttpRequestTrailersFeature>().Trailers)
            {
                answer.Append(CultureInfo.InvariantCulture, $"{name}: {value}\n");
            }
        }

        return answer.ToString();
    }

    private static async Task Drip(int count, HttpContext context)
    {
        for (int i = 1; i <= count; i++)
        {
            await context.Response.WriteAsync(string.Create(CultureInfo.InvariantCulture, $"line {i}\n"));
            await context.Response.Body.FlushAsync();
            await Task.Yield();
        }
    }

    private static async Task WaitForAbort(Notes notes, string name, HttpContext context)
    {
        notes.Happened(name + " started");
        try
        {
            await Task.Delay(Timeout.Infinite, context.RequestAborted);
        }
        catch (OperationCanceledException)
        {
            notes.Happened(name + " aborted");
        }
    }

    private static async Task WaitReading(Notes notes, string name, HttpContext context)
    {
        notes.Happened(name + " started");
        try
        {
            await context.Request.Body.CopyToAsync(Stream.Null, context.RequestAborted);
        }
        catch (Exception error) when (error is IOException or OperationCanceledException)
        {
            notes.Happened(name + " aborted");
        }
    }

    private static async Task SendUntilAborted(Notes notes, string name, HttpContext context)
    {
        byte[] piece = Pattern.Take(64 * 1024);
        while (!context.RequestAborted.IsCancellationRequested)
        {
            await context.Response.Body.WriteAsync(piece);
        }

        notes.Happened(name + " aborted");
    }

    private static string Cached(HttpContext context)
    {
        context.Response.Headers.CacheControl = "public,max-age=60";
        return string.Create(CultureInfo.InvariantCulture, $"run {Interlocked.Increment(ref s_cachedRuns)}");
    }

    private static string Visits(HttpContext context)
    {
        int visits = (context.Session.GetInt32("visits") ?? 0) + 1;
        context.Session.SetInt32("visits", visits);
        return string.Create(CultureInfo.InvariantCulture, $"visit {visits}");
    }

    // Frame for frame, so that the client sees the boundaries it sent.
    private static async Task EchoSocket(HttpContext context)
    {
        if (!context.WebSockets.IsWebSocketRequest)
        {
            context.Response.StatusCode = StatusCodes.Status400BadRequest;
            return;
        }

        using WebSocket socket = await context.WebSockets.AcceptWebSocketAsync(context.Request.Query["protocol"]);
        byte[] buffer = new byte[64 * 1024];
        while (true)
        {
            ValueWebSocketReceiveResult received = await socket.ReceiveAsync(buffer.AsMemory(), context.RequestAborted);
            if (received.MessageType == WebSocketMessageType.Close)
            {
                await socket.CloseAsync(socket.CloseStatus!.Value, "seen: " + socket.CloseStatusDescription, context.RequestAborted);
                return;
            }

            await socket.SendAsync(buffer.AsMemory(0, received.Count), received.MessageType, received.EndOfMessage, context.RequestAborted);
        }
    }
}
