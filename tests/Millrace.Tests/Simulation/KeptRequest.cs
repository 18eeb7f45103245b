// What a careless handler keeps of its request in a simulation: once the request has ended nothing of it shows or touches another.

using System.IO.Pipelines;
using Millrace.Exchanges;

namespace Millrace.Tests.Simulation;

internal sealed class KeptRequest(Exchange exchange, Plan plan, Request request, Response response)
{
    private readonly long _ticket = exchange.Ticket;
    private readonly Stream _requestBody = request.Body;
    private readonly PipeReader _reader = request.BodyReader;
    private readonly Stream _responseBody = response.Body;
    private readonly IEnumerable<KeyValuePair<string, Microsoft.Extensions.Primitives.StringValues>> _headers = request.Headers;
    private readonly string _path = request.Path;

    private bool IsOver => exchange.Ticket != _ticket;

    /// <summary>Uses it as if the request were still there. Null: all is well.</summary>
    public string? Misuse()
    {
        if (!IsOver)
        {
            return request.Path == _path ? null : $"the running request {plan.Name} says that its path is {request.Path}";
        }

        response.Abort();
        Action[] uses =
        [
            () => _ = request.Path, () => _ = request.Header("Host"), () => _ = request.Aborted, () => _ = request.BodyReader, () => _ = _headers.Count(),
            () => _ = request.Parameters.Count, () => _ = _requestBody.ReadAsync(new byte[9]).AsTask(), () => _reader.TryRead(out _), () => _reader.AdvanceTo(default),
            () => response.StatusCode = 299, () => response.AddHeader("X-Stolen", "1"), () => response.Write("stolen"u8), () => response.WriteText("stolen"),
            () => _ = response.FlushAsync().AsTask(), () => _ = _responseBody.WriteAsync("stolen"u8.ToArray()).AsTask(), () => _ = _responseBody.FlushAsync(),
        ];
        for (int i = 0; i < uses.Length; i++)
        {
            try
            {
                uses[i]();
                return $"use {i} of what was kept of {plan.Name} was allowed";
            }
            catch (ObjectDisposedException)
            {
                // as it must be
            }
        }

        return null;
    }
}
