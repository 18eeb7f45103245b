// One request and its response, whichever face a handler has: behaviour that both faces share is written once against this.
// PlainCall stands on Request and Response, HostedCall on the HttpContext of ASP.NET Core.

using System.Globalization;
using System.Text;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.Primitives;
using Millrace.Exchanges;

namespace Millrace.Tests.Behaviour;

internal abstract class Call
{
    // ---- the request ----

    public abstract string Method { get; }

    public abstract string Target { get; }

    public abstract string Path { get; }

    public abstract string Query { get; }

    public abstract string Scheme { get; }

    public abstract string Host { get; }

    public abstract IEnumerable<KeyValuePair<string, StringValues>> Headers { get; }

    public abstract string Remote { get; }

    public abstract CancellationToken Aborted { get; }

    public abstract ValueTask<int> ReadAsync(Memory<byte> destination);

    public abstract Stream RequestBody { get; }

    // ---- the response ----

    public abstract int Status { get; set; }

    public abstract long? Length { get; set; }

    public abstract void AddHeader(string name, string value);

    /// <summary>Keeps bytes until the handler ends or flushes.</summary>
    public abstract void Write(ReadOnlySpan<byte> bytes);

    public abstract ValueTask WriteAsync(ReadOnlyMemory<byte> bytes);

    public abstract ValueTask FlushAsync();

    public abstract Stream Body { get; }

    public abstract void Abort();

    /// <summary>What the server keeps of the request: for what an application cannot bring about by itself.</summary>
    public abstract Exchange Exchange { get; }

    public void WriteText(string text) => Write(Encoding.UTF8.GetBytes(text));

    /// <summary>Reads the whole body and says what it was asked: one line per thing.</summary>
    public static async ValueTask Echo(Call call)
    {
        long length = 0;
        uint sum = 0;
        byte[] buffer = new byte[8 * 1024];
        for (int count; (count = await call.ReadAsync(buffer)) > 0; length += count)
        {
            sum = Sum(buffer.AsSpan(0, count), sum);
        }

        var text = new StringBuilder();
        text.Append(CultureInfo.InvariantCulture, $"{call.Method} {call.Target}\npath {call.Path}\nquery {call.Query}\nscheme {call.Scheme}\nhost {call.Host}\nbody {length} {sum}\nremote {call.Remote}\n");
        foreach ((string name, StringValues values) in call.Headers)
        {
            text.Append(CultureInfo.InvariantCulture, $"{name}: {values}\n");
        }

        call.WriteText(text.ToString());
    }

    /// <summary>The sum that <see cref="Echo"/> makes of a body.</summary>
    public static uint Sum(ReadOnlySpan<byte> bytes, uint sum = 0)
    {
        foreach (byte b in bytes)
        {
            sum = (sum * 31) + b;
        }

        return sum;
    }
}

internal sealed class PlainCall(Request request, Response response) : Call
{
    public override string Method => request.Method;

    public override string Target => request.Target;

    public override string Path => request.Path;

    public override string Query => request.QueryString;

    public override string Scheme => request.Scheme;

    public override string Host => request.Host;

    public override IEnumerable<KeyValuePair<string, StringValues>> Headers => request.Headers;

    public override string Remote => $"{request.RemoteAddress} {request.RemotePort}";

    public override CancellationToken Aborted => request.Aborted;

    public override ValueTask<int> ReadAsync(Memory<byte> destination) => request.ReadAsync(destination);

    public override Stream RequestBody => request.Body;

    public override int Status { get => response.StatusCode; set => response.StatusCode = value; }

    public override long? Length { get => response.ContentLength; set => response.ContentLength = value; }

    public override void AddHeader(string name, string value) => response.AddHeader(name, value);

    public override void Write(ReadOnlySpan<byte> bytes) => response.Write(bytes);

    public override ValueTask WriteAsync(ReadOnlyMemory<byte> bytes) => response.WriteAsync(bytes);

    public override ValueTask FlushAsync() => response.FlushAsync();

    public override Stream Body => response.Body;

    public override void Abort() => response.Abort();

    [System.Runtime.CompilerServices.UnsafeAccessor(System.Runtime.CompilerServices.UnsafeAccessorKind.Field, Name = "_exchange")]
    private static extern ref readonly Exchange? ExchangeOf(ref readonly Response response);

    public override Exchange Exchange => ExchangeOf(ref response)!;

    /// <summary>The handler that says what it was asked.</summary>
    public static ValueTask Echo(Request request, Response response) => Echo(new PlainCall(request, response));
}

internal sealed class HostedCall(HttpContext context) : Call
{
    public HttpContext Context => context;

    public override string Method => context.Request.Method;

    public override string Target => context.Features.GetRequiredFeature<IHttpRequestFeature>().RawTarget;

    public override string Path => context.Request.Path.Value ?? "";

    public override string Query => context.Request.QueryString.Value ?? "";

    public override string Scheme => context.Request.Scheme;

    public override string Host => context.Request.Host.Value ?? "";

    public override IEnumerable<KeyValuePair<string, StringValues>> Headers => context.Request.Headers;

    public override string Remote => $"{context.Connection.RemoteIpAddress} {context.Connection.RemotePort}";

    public override CancellationToken Aborted => context.RequestAborted;

    public override ValueTask<int> ReadAsync(Memory<byte> destination) => context.Request.Body.ReadAsync(destination);

    public override Stream RequestBody => context.Request.Body;

    public override int Status { get => context.Response.StatusCode; set => context.Response.StatusCode = value; }

    public override long? Length { get => context.Response.ContentLength; set => context.Response.ContentLength = value; }

    public override void AddHeader(string name, string value) => context.Response.Headers.Append(name, value);

    public override void Write(ReadOnlySpan<byte> bytes) => System.Buffers.BuffersExtensions.Write(context.Response.BodyWriter, bytes);

    public override ValueTask WriteAsync(ReadOnlyMemory<byte> bytes) => context.Response.Body.WriteAsync(bytes);

    public override async ValueTask FlushAsync() => await context.Response.BodyWriter.FlushAsync();

    public override Stream Body => context.Response.Body;

    public override void Abort() => context.Abort();

    public override Exchange Exchange => ((RequestBound)context.Features.GetRequiredFeature<IHttpResponseBodyFeature>()).Exchange;
}
