// The endpoints of the application under test: what is said about heads (targets, headers, cookies, statuses, faults).
// Bodies are in BodyEndpoints.cs, what takes time in TimedEndpoints.cs.
using System.Globalization;
using System.Text.Json;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Routing;

namespace Millrace.Interop.Apps;

internal static class Endpoints
{
    internal static readonly string[] GetAndHead = [HttpMethods.Get, HttpMethods.Head];

    internal static void Map(IEndpointRouteBuilder routes, EndToEndApp app)
    {
        routes.MapMethods("/hello", GetAndHead, static () => "Hello, World!");
        routes.Map("/env/{**rest}", static context =>
            context.Response.WriteAsJsonAsync(EnvironmentReport.Of(context), JsonSerializerOptions.Web));
        routes.MapGet("/id", EchoId);
        routes.MapGet("/cookies", EchoCookies);
        routes.MapGet("/duplicates", WriteDuplicates);
        routes.MapGet("/status/{code:int}", WriteStatus);
        routes.MapGet("/large-header", WriteLargeHeader);
        routes.MapGet("/throw/at-once", static RequestDelegate () => throw new InvalidOperationException("thrown at once"));
        routes.MapGet("/throw/before", ThrowBefore);
        routes.MapGet("/websocket", AcceptWebSocket);
        BodyEndpoints.Map(routes, app);
        TimedEndpoints.Map(routes, app);
    }

    internal static string Query(this HttpContext context, string name) =>
        context.Request.Query[name].ToString() is { Length: > 0 } value ? value : throw new BadHttpRequestException($"?{name}= is missing");

    internal static int Number(this HttpContext context, string name) => int.Parse(context.Query(name), CultureInfo.InvariantCulture);

    // The id comes twice, by two roads; the connection's name says whether the front end kept its connection.
    private static Task EchoId(HttpContext context) => context.Response.WriteAsync(
        $"{context.Query("id")} {context.Request.Headers["X-Id"]} {context.Connection.Id}");

    private static Task EchoCookies(HttpContext context)
    {
        context.Response.Cookies.Append("first", "1", new CookieOptions { HttpOnly = true });
        context.Response.Cookies.Append("second", "two words");
        return context.Response.WriteAsync($"{context.Request.Cookies["a"]}|{context.Request.Cookies["b"]}");
    }

    private static Task WriteDuplicates(HttpContext context)
    {
        context.Response.Headers.Append("X-Many", "one");
        context.Response.Headers.Append("X-Many", "two, with a comma");
        return context.Response.WriteAsync(string.Join(", ", context.Request.Headers["X-Many"].ToArray()));
    }

    private static Task WriteStatus(HttpContext context)
    {
        int code = int.Parse((string)context.Request.RouteValues["code"]!, CultureInfo.InvariantCulture);
        context.Response.StatusCode = code;
        if (code is 201 or (>= 300 and < 400 and not 304))
        {
            context.Response.Headers.Location = "/hello";
        }

        return code is 204 or 205 or 304 ? Task.CompletedTask : context.Response.WriteAsync($"status {code}");
    }

    private static Task WriteLargeHeader(HttpContext context)
    {
        context.Response.Headers["X-Large"] = new string('v', context.Number("bytes"));
        return context.Response.WriteAsync("large");
    }

    // After an await the handler is on another thread than the one it was called on.
    private static async Task ThrowBefore(HttpContext context)
    {
        await Task.Delay(1);
        context.Response.Headers["X-Not-Sent"] = "1";
        throw new InvalidOperationException("thrown before the first byte");
    }

    private static async Task AcceptWebSocket(HttpContext context)
    {
        if (!context.WebSockets.IsWebSocketRequest)
        {
            context.Response.StatusCode = StatusCodes.Status400BadRequest;
            await context.Response.WriteAsync("not a WebSocket request");
            return;
        }

        using System.Net.WebSockets.WebSocket socket = await context.WebSockets.AcceptWebSocketAsync();
        await socket.CloseAsync(System.Net.WebSockets.WebSocketCloseStatus.NormalClosure, null, context.RequestAborted);
    }
}
