// Endpoints that take time: that block or wait, that stream step by step with the test, that are cut or aborted.
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Routing;

namespace Millrace.Interop.Apps;

internal static class TimedEndpoints
{
    internal static void Map(IEndpointRouteBuilder routes, EndToEndApp app)
    {
        Signals signals = app.Signals;
        routes.MapGet("/block", Block);
        routes.MapGet("/slow", SlowAsync);
        routes.MapGet("/lines", (HttpContext context) => WriteLinesAsync(context, signals));
        routes.MapGet("/head-first", (HttpContext context) => WriteHeadFirstAsync(context, signals));
        routes.MapGet("/throw/after", (HttpContext context) => ThrowAfterAsync(context, signals));
        routes.MapGet("/throw/behind", ThrowBehindAsync);
        routes.MapGet("/abort/silent", (HttpContext context) => WaitForAbortAsync(context, signals));
        routes.MapGet("/abort/streaming", (HttpContext context) => StreamUntilAbortAsync(context, signals));
        routes.MapGet("/abort/blocking", (HttpContext context) => BlockUntilAbort(context, signals));
        routes.MapPost("/abort/reading", (HttpContext context) => ReadUntilAbortAsync(context, signals));
    }

    private static Task Block(HttpContext context)
    {
        Thread.Sleep(context.Number("ms"));
        return context.Response.WriteAsync(context.Query("id"));
    }

    private static async Task SlowAsync(HttpContext context)
    {
        await Task.Delay(context.Number("ms"));
        await context.Response.WriteAsync(context.Query("id"));
    }

    // Writes the next line only when the test has read the one before: "TAG read" after each.
    private static async Task WriteLinesAsync(HttpContext context, Signals signals)
    {
        string tag = context.Query("tag");
        for (int line = 1; line <= context.Number("count"); line++)
        {
            await context.Response.Body.WriteAsync(Encoding.ASCII.GetBytes($"line {line:000}\n"));
            await context.Response.Body.FlushAsync();
            await signals.WaitAsync($"{tag} read", context.RequestAborted);
        }
    }

    // The head alone is sent; the body follows when the test has it.
    private static async Task WriteHeadFirstAsync(HttpContext context, Signals signals)
    {
        context.Response.ContentType = "text/event-stream";
        await context.Response.Body.FlushAsync();
        await signals.WaitAsync($"{context.Query("tag")} head read", context.RequestAborted);
        await context.Response.WriteAsync("data: body\n\n");
    }

    // 1,000 bytes leave, of 2,000 where the length is announced; when the test has them the handler throws.
    private static async Task ThrowAfterAsync(HttpContext context, Signals signals)
    {
        if (context.Query("length") == "known")
        {
            context.Response.ContentLength = 2_000;
        }

        await context.Response.Body.WriteAsync(DeterministicBytes.Create(1_000));
        await context.Response.Body.FlushAsync();
        await signals.WaitAsync($"{context.Query("tag")} read", context.RequestAborted);
        throw new InvalidOperationException("thrown after the first byte");
    }

    // As many bytes as asked for leave, of 1,000 more where the length is announced; then the handler throws at once.
    private static async Task ThrowBehindAsync(HttpContext context)
    {
        int count = context.Number("bytes");
        context.Response.ContentLength = context.Query("length") == "known" ? count + 1_000 : null;
        await context.Response.Body.WriteAsync(DeterministicBytes.Create(count));
        await context.Response.Body.FlushAsync();
        throw new InvalidOperationException("thrown behind what was sent");
    }

    // "TAG aborted" comes from a registration, as application code would notice; "TAG started" says it is in place.
    private static string SignalAbort(HttpContext context, Signals signals)
    {
        string tag = context.Query("tag");
        context.RequestAborted.Register(() => signals.Raise($"{tag} aborted"));
        return tag;
    }

    // Where nobody aborts, "TAG release" ends the wait.
    private static async Task WaitForAbortAsync(HttpContext context, Signals signals)
    {
        string tag = SignalAbort(context, signals);
        signals.Raise($"{tag} started");
        try
        {
            await signals.WaitAsync($"{tag} release", context.RequestAborted);
        }
        finally
        {
            signals.Raise($"{tag} ended");
        }
    }

    private static async Task StreamUntilAbortAsync(HttpContext context, Signals signals)
    {
        string tag = SignalAbort(context, signals);
        byte[] block = DeterministicBytes.Create(10_000);
        signals.Raise($"{tag} started");
        try
        {
            while (!context.RequestAborted.IsCancellationRequested)
            {
                await context.Response.Body.WriteAsync(block, context.RequestAborted);
                await Task.Delay(1, context.RequestAborted);
            }
        }
        finally
        {
            signals.Raise($"{tag} ended");
        }
    }

    private static Task BlockUntilAbort(HttpContext context, Signals signals)
    {
        string tag = SignalAbort(context, signals);
        signals.Raise($"{tag} started");
        try
        {
            signals.WaitAsync($"{tag} release", context.RequestAborted).GetAwaiter().GetResult();
        }
        finally
        {
            signals.Raise($"{tag} ended");
        }

        return Task.CompletedTask;
    }

    // The client goes away in the middle of its body: the read fails, and so the handler knows that it has not all.
    private static async Task ReadUntilAbortAsync(HttpContext context, Signals signals)
    {
        string tag = SignalAbort(context, signals);
        byte[] block = new byte[64 * 1024];
        try
        {
            while (await context.Request.Body.ReadAsync(block, context.RequestAborted) > 0)
            {
                signals.Raise($"{tag} started");
            }

            signals.Raise($"{tag} body taken for whole");
        }
        finally
        {
            signals.Raise($"{tag} ended");
        }
    }
}
