// Endpoints about bodies: request bodies hashed, counted, echoed or left alone; response bodies of any size, with and
// without a length, written in several ways; files.
using System.Buffers;
using System.Globalization;
using System.Security.Cryptography;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Routing;

namespace Millrace.Interop.Apps;

internal static class BodyEndpoints
{
    private const int BlockSize = 64 * 1024;

    internal static void Map(IEndpointRouteBuilder routes, EndToEndApp app)
    {
        routes.MapPost("/hash", (HttpContext context) => HashAsync(context, app.Signals));
        routes.MapPost("/size", (HttpContext context) => CountAsync(context, app.Signals));
        routes.MapPost("/echo", EchoAsync);
        routes.MapPost("/ignore", static (HttpContext context) => context.Response.WriteAsync("ignored"));
        routes.MapMethods("/big", Endpoints.GetAndHead, (HttpContext context) => WriteBigAsync(context, app.Signals));
        routes.MapMethods("/file", Endpoints.GetAndHead, (HttpContext context) =>
            Results.File(app.Files.PathOf(context.Number("bytes")), "application/octet-stream", enableRangeProcessing: true));
    }

    // With ?tag= each read is signalled as "TAG read", so that a test sees that the body is streamed; with ?wait= the first
    // read waits for "TAG go", so that a test sees that an unread body is not taken in.
    private static async Task HashAsync(HttpContext context, Signals signals)
    {
        string tag = context.Request.Query["tag"].ToString();
        if (context.Request.Query.ContainsKey("wait"))
        {
            await signals.WaitAsync($"{tag} go", context.RequestAborted);
        }

        using var hash = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
        byte[] block = ArrayPool<byte>.Shared.Rent(BlockSize);
        long length = 0;
        int count;
        while ((count = await context.Request.Body.ReadAsync(block, context.RequestAborted)) > 0)
        {
            hash.AppendData(block, 0, count);
            length += count;
            if (tag.Length > 0)
            {
                signals.Raise($"{tag} read");
            }
        }

        ArrayPool<byte>.Shared.Return(block);
        await context.Response.WriteAsync($"{length} {Convert.ToHexStringLower(hash.GetHashAndReset())}");
    }

    // Reads by the other road, the pipe: the size, and what the head said about it. "TAG started" comes before it reads.
    private static async Task CountAsync(HttpContext context, Signals signals)
    {
        signals.Raise($"{context.Query("tag")} started");
        long length = 0;
        while (true)
        {
            System.IO.Pipelines.ReadResult read = await context.Request.BodyReader.ReadAsync(context.RequestAborted);
            length += read.Buffer.Length;
            context.Request.BodyReader.AdvanceTo(read.Buffer.End);
            if (read.IsCompleted)
            {
                break;
            }
        }

        string announced = context.Request.ContentLength?.ToString(CultureInfo.InvariantCulture) ?? "none";
        await context.Response.WriteAsync($"{length} announced {announced}");
    }

    // Reads all before it writes: nginx stops passing the request body on once it has the head of the response.
    private static async Task EchoAsync(HttpContext context)
    {
        using var body = new MemoryStream();
        await context.Request.Body.CopyToAsync(body, context.RequestAborted);
        context.Response.ContentType = context.Request.ContentType;
        await context.Response.Body.WriteAsync(body.GetBuffer().AsMemory(0, (int)body.Length), context.RequestAborted);
    }

    private static async Task WriteBigAsync(HttpContext context, Signals signals)
    {
        int length = context.Number("bytes");
        if (context.Query("length") == "known")
        {
            context.Response.ContentLength = length;
        }

        if (HttpMethods.IsHead(context.Request.Method))
        {
            return;
        }

        switch (context.Query("write"))
        {
            case "whole":
                await context.Response.Body.WriteAsync(DeterministicBytes.Create(length), context.RequestAborted);
                break;
            case "blocks":
                await WriteBlocksAsync(context, length, signals);
                break;
            case "pipe":
                await WritePipeAsync(context, length);
                break;
        }
    }

    // With ?tag= each block that was taken is signalled as "TAG block", so that a test sees where the handler waits.
    private static async Task WriteBlocksAsync(HttpContext context, int length, Signals signals)
    {
        string tag = context.Request.Query["tag"].ToString();
        byte[] block = ArrayPool<byte>.Shared.Rent(BlockSize);
        for (int offset = 0; offset < length; offset += BlockSize)
        {
            int count = Math.Min(BlockSize, length - offset);
            DeterministicBytes.Fill(block.AsSpan(0, count), offset);
            await context.Response.Body.WriteAsync(block.AsMemory(0, count), context.RequestAborted);
            if (tag.Length > 0)
            {
                signals.Raise($"{tag} block");
            }
        }

        ArrayPool<byte>.Shared.Return(block);
    }

    private static async Task WritePipeAsync(HttpContext context, int length)
    {
        System.IO.Pipelines.PipeWriter writer = context.Response.BodyWriter;
        for (int offset = 0; offset < length;)
        {
            int count = Math.Min(5_000, length - offset);
            DeterministicBytes.Fill(writer.GetSpan(count)[..count], offset);
            writer.Advance(count);
            offset += count;
            await writer.FlushAsync(context.RequestAborted);
        }
    }
}
