// The application that the tests of `millrace serve` have supervised: its environment says how it goes wrong.

using Microsoft.AspNetCore.Http.Features;

namespace HostKinds;

internal static class Served
{
    private static readonly Lock s_book = new();
    private static volatile bool s_isIll;
    private static int s_healthAsked;

    public static async Task<int> RunAsync(string[] args)
    {
        string fault = Environment.GetEnvironmentVariable("FAULT") ?? "";
        // Read where it lies beside the code that runs.
        string beside = Path.Combine(AppContext.BaseDirectory, "version.deps.json");
        string version = File.Exists(beside) ? await File.ReadAllTextAsync(beside) : "";
        fault = version is "crashes" or "throws" or "ends" or "ill" ? version : fault;
        if (fault == "ends" || File.Exists(Environment.GetEnvironmentVariable("ENDS_WHILE")))
        {
            return 3;
        }
        if (Environment.GetEnvironmentVariable("STUCK_WHILE") is { } mark && File.Exists(mark))
        {
            Standing.BeStuck(mark);
        }
        if (fault == "throws")
        {
            throw new InvalidOperationException("The database is not there.");
        }

        if (fault == "floods")
        {
            Console.WriteLine("\e[31mred");
            new Thread(Flood) { IsBackground = true }.Start();
        }

        // For its set-up, as some applications have: another host first.
        if (Environment.GetEnvironmentVariable("SETUP") is not null)
        {
            await using var first = WebApplication.CreateSlimBuilder(args).Build();
            first.MapGet("/title", static () => "set-up");
            await first.StartAsync();
            await Task.Delay(1_000);
            await first.StopAsync();
        }

        var app = WebApplication.CreateSlimBuilder(args).Build();
        app.MapGet("/health", async (HttpContext context) =>
        {
            for (byte[] part = new byte[65_536]; fault == "endless";)
            {
                await context.Response.Body.WriteAsync(part, context.RequestAborted);
            }
            int asked = Interlocked.Increment(ref s_healthAsked);
            if (fault == "crashes" && asked > 1)
            {
                Environment.FailFast("asked for its health while it serves");
            }
            lock (s_book)
            {
            }
            if (asked == 1 && File.Exists(Environment.GetEnvironmentVariable("STANDS_WHILE")))
            {
                context.Response.OnCompleted(Standing.BeginAsync);
            }
            return fault == "ill" || s_isIll ? Results.StatusCode(500) : Results.Ok();
        });
        app.MapGet("/process", () => Environment.ProcessId.ToString(System.Globalization.CultureInfo.InvariantCulture));
        app.MapGet("/version", () => version);
        app.MapGet("/folder", () => app.Environment.ContentRootPath.TrimEnd('/'));
        app.MapGet("/page", () => File.ReadAllTextAsync("page.txt"));
        app.MapGet("/title", () => Environment.GetEnvironmentVariable("TITLE") ?? "");
        app.MapGet("/base", static (HttpContext context, LinkGenerator links) => $"{context.Request.PathBase}|{context.Request.Path}|{links.GetPathByName(context, "base", values: null)}").WithName("base");
        app.MapGet("/user", () => Environment.UserName);
        app.MapGet("/addresses", () => string.Join(' ', app.Urls));
        app.MapGet("/variables", () => string.Join('\n', Environment.GetEnvironmentVariables().Keys.Cast<string>().Where(static name => name.StartsWith("MILLRACE_RUN", StringComparison.Ordinal) || name.StartsWith("MILLRACE_SERVE", StringComparison.Ordinal) || name.StartsWith("LISTEN", StringComparison.Ordinal))));
        app.MapPost("/echo", static async (HttpRequest request) => Results.Text(await new StreamReader(request.Body).ReadToEndAsync()));
        app.MapPost("/print", static async (HttpRequest request) => Console.WriteLine(await new StreamReader(request.Body).ReadToEndAsync()));
        app.MapGet("/slow/{seconds:int?}", static async (int? seconds) =>
        {
            await Task.Delay(TimeSpan.FromSeconds(seconds ?? 1));
            return "slow";
        });
        app.MapGet("/long/{mb:int}", static async (HttpContext context, int mb) =>
        {
            byte[] part = new byte[65_536];
            context.Response.ContentLength = (long)mb << 20;
            for (int i = 0; i < mb * 16; i++)
            {
                await context.Response.Body.WriteAsync(part);
            }
        });
        app.MapPost("/count", static async (HttpContext context) =>
        {
            context.Features.GetRequiredFeature<IHttpMaxRequestBodySizeFeature>().MaxRequestBodySize = null;
            long count = 0;
            byte[] buffer = new byte[65_536];
            for (int part; (part = await context.Request.Body.ReadAsync(buffer)) > 0;)
            {
                count += part;
            }
            return count;
        });
        app.UseWebSockets();
        app.MapGet("/talk", async (HttpContext context) =>
        {
            using var socket = await context.WebSockets.AcceptWebSocketAsync("echo");
            byte[] buffer = new byte[100_000];
            while (await socket.ReceiveAsync(buffer, CancellationToken.None) is { CloseStatus: null } part)
            {
                await socket.SendAsync(buffer.AsMemory(0, part.Count), part.MessageType, part.EndOfMessage, CancellationToken.None);
            }
            await socket.CloseAsync(System.Net.WebSockets.WebSocketCloseStatus.NormalClosure, "said all", CancellationToken.None);
        });
        app.MapGet("/most", static () => string.Create(System.Globalization.CultureInfo.InvariantCulture, $"{GC.GetGCMemoryInfo().TotalAvailableMemoryBytes / 1_048_576} {Environment.ProcessorCount}"));
        app.MapPost("/grow/{mb:int}", static (int mb) =>
        {
            for (int i = 0; i < mb; i++)
            {
                nint part = System.Runtime.InteropServices.Marshal.AllocHGlobal(1_048_576);
                for (int at = 0; at < 1_048_576; at += 4_096)
                {
                    System.Runtime.InteropServices.Marshal.WriteByte(part, at, 1);
                }
            }
        });
        app.MapPost("/pass/{port:int}", static (int port) => Passing.Begin(port));
        app.MapPost("/shut/{place}", static (string place) => Passing.Shut(place));
        app.MapPost("/script", static async (HttpRequest request) =>
        {
            using var shell = System.Diagnostics.Process.Start("/bin/sh", ["-c", await new StreamReader(request.Body).ReadToEndAsync()]);
            await shell.WaitForExitAsync();
        });
        app.MapPost("/sicken", static () => { s_isIll = true; });
        app.MapPost("/keep-the-book", static () => new Thread(KeepTheBook) { IsBackground = true }.Start());
        await app.RunAsync();
        return 0;
    }

    // For good: whoever wants it waits.
    private static void KeepTheBook()
    {
        lock (s_book)
        {
            Thread.Sleep(Timeout.Infinite);
        }
    }

    // A line without an end.
    private static void Flood()
    {
        byte[] part = new byte[65_536];
        Array.Fill(part, (byte)'x');
        using var output = Console.OpenStandardOutput();
        while (true)
        {
            output.Write(part);
        }
    }
}
