// The same request over HTTP/1.1, to a port or a Unix socket. The framework's client does the work; targets go out as written.

using System.Net;
using System.Net.Http.Headers;
using System.Net.Sockets;
using System.Text;
using Millrace.Command.Terminals;

namespace Millrace.Command.Fetching;

internal sealed class HttpFetch(TextWriter? trace, ResponseWriter response)
{
    /// <returns>The status code of the response.</returns>
    /// <exception cref="CommandFailure">No connection, or no whole response.</exception>
    public async Task<int> RunAsync(ServerAddress address, FetchRequest request, CancellationToken ct)
    {
        using var handler = new SocketsHttpHandler
        {
            AllowAutoRedirect = false,
            UseCookies = false,
            UseProxy = false,
            RequestHeaderEncodingSelector = static (_, _) => Encoding.UTF8,
            ConnectCallback = async (_, ct) => new NetworkStream(await address.ConnectAsync(ct), ownsSocket: true),
        };
        using var client = new HttpClient(handler) { Timeout = Timeout.InfiniteTimeSpan };
        using var message = Compose(address, request);
        try
        {
            TraceRequest(message);
            using var answer = await client.SendAsync(message, HttpCompletionOption.ResponseHeadersRead, ct);
            string status = $"{(int)answer.StatusCode} {answer.ReasonPhrase}".TrimEnd();
            if ((int)answer.StatusCode < 100)
            {
                throw new HttpRequestException($"'{CommandConsole.Readable(status)}' is not a status.");
            }
            trace?.WriteLine($"< HTTP/{answer.Version} {CommandConsole.Readable(status)}");
            response.WriteHead(status, Lines(answer.Headers).Concat(Lines(answer.Content.Headers)));
            await CopyBodyAsync(answer.Content, ct);
            return (int)answer.StatusCode;
        }
        catch (HttpRequestException error) when (error.InnerException is CommandFailure failure)
        {
            throw failure;
        }
        catch (Exception error) when (error is HttpRequestException or IOException and not OutputException)
        {
            throw new CommandFailure(ExitCode.BrokenResponse, $"The response is broken: {(error.InnerException ?? error).Message} Does the server speak HTTP?");
        }
    }

    private static HttpRequestMessage Compose(ServerAddress address, FetchRequest request)
    {
        string authority = address.SocketPath is null ? address.HostAndPort : "localhost";
        if (!Uri.TryCreate($"http://{authority}{request.Target}", new UriCreationOptions { DangerousDisablePathAndQueryCanonicalization = true }, out var uri))
        {
            throw CommandFailure.Usage($"'{request.Target}' cannot be asked for over HTTP here: name a path that begins with '/'.");
        }
        var message = new HttpRequestMessage(new HttpMethod(request.Method), uri) { Version = HttpVersion.Version11 };
        if (request.Body is not null)
        {
            message.Content = new StreamContent(request.Body);
        }
        foreach (var (name, value) in request.Headers)
        {
            if (!message.Headers.TryAddWithoutValidation(name, value))
            {
                message.Content ??= new ByteArrayContent([]);
                message.Content.Headers.TryAddWithoutValidation(name, value);
            }
        }
        return message;
    }

    private void TraceRequest(HttpRequestMessage message)
    {
        trace?.WriteLine($"> {message.Method} {message.RequestUri?.PathAndQuery} HTTP/1.1");
        foreach (string line in Lines(message.Headers).Concat(message.Content is null ? [] : Lines(message.Content.Headers)))
        {
            trace?.WriteLine($"> {line}");
        }
    }

    private async Task CopyBodyAsync(HttpContent content, CancellationToken ct)
    {
        await using var body = await content.ReadAsStreamAsync(ct);
        var buffer = new byte[64 * 1024];
        int length;
        while ((length = await body.ReadAsync(buffer, ct)) > 0)
        {
            await response.WriteBodyAsync(buffer.AsMemory(0, length), ct);
        }
    }

    private static IEnumerable<string> Lines(HttpHeaders headers) =>
        headers.NonValidated.SelectMany(h => h.Value.Select(value => $"{h.Key}: {value}"));
}
