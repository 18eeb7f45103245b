// A request for a switch of protocols (RFC 9110 §7.8), such as a WebSocket's: passed on over HTTP, since FastCGI has none. When the application agrees, bytes go both
// ways (Tunnel.cs).

using System.Net;
using System.Net.Http;
using System.Net.Sockets;
using System.Text;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Net.Http.Headers;
using Millrace.Exchanges;

namespace Millrace.Connector;

internal sealed class UpgradedRequest(EndPoint endPoint, ConnectionLimits limits) : IDisposable
{
    private static readonly HashSet<string> s_ownFields = new(StringComparer.OrdinalIgnoreCase)
    {
        HeaderNames.Trailer, HeaderNames.Expect, HeaderNames.Host, "Proxy", "HTTP2-Settings", RoutedBy.Field,
    };

    private static readonly TimeSpan s_lookAgain = TimeSpan.FromSeconds(1);

    private readonly HttpMessageInvoker _client = new(new SocketsHttpHandler
    {
        ConnectCallback = async (_, ct) => await ConnectAsync(endPoint, limits.ConnectTimeout, ct).ConfigureAwait(false),
        PooledConnectionIdleTimeout = limits.IdleTimeout,
        MaxConnectionsPerServer = limits.ConnectionsMax,
        AllowAutoRedirect = false,
        AutomaticDecompression = DecompressionMethods.None,
        UseCookies = false,
        UseProxy = false,
        ActivityHeadersPropagator = null,
        RequestHeaderEncodingSelector = static (_, _) => Encoding.UTF8,
    });

    private readonly SemaphoreSlim _places = new(limits.ConnectionsMax);

    /// <summary>Whether a request asks for a switch that the server it came to can make.</summary>
    public static bool IsAsked(HttpContext context) => context.Features.Get<IHttpUpgradeFeature>() is { IsUpgradableRequest: true };

    /// <summary>Has the application answer, and carries what is said behind its 101.</summary>
    /// <param name="context">The request; its response has not started.</param>
    /// <param name="prefix">The path that leads to the application.</param>
    /// <param name="key">By which it knows its router, and believes it who the client is; null where it asks for none.</param>
    /// <exception cref="ConnectorException">There is no answer.</exception>
    /// <exception cref="OperationCanceledException">The client has left.</exception>
    public async Task SendAsync(HttpContext context, string prefix, string? key)
    {
        if (!await _places.WaitAsync(limits.ConnectTimeout, context.RequestAborted).ConfigureAwait(false))
        {
            throw new ConnectorException(ConnectorFault.Busy, $"{limits.ConnectionsMax} requests for another protocol wait for an answer of {endPoint}.");
        }
        HttpResponseMessage? answer = null;
        TunnelLink? link = null;
        try
        {
            (answer, link) = await AskAsync(context, prefix, key).ConfigureAwait(false);
            if (answer.StatusCode != HttpStatusCode.SwitchingProtocols)
            {
                await PassOnAsync(context, answer).ConfigureAwait(false);
            }
        }
        finally
        {
            _places.Release();      // what has switched is asked for no longer, and may last
            if (answer is { StatusCode: not HttpStatusCode.SwitchingProtocols })
            {
                answer.Dispose();
            }
        }
        if (answer.StatusCode == HttpStatusCode.SwitchingProtocols)
        {
            using (answer)
            {
                TakeHead(context.Response, answer);
                await CarryAsync(context, answer, await answer.Content.ReadAsStreamAsync(context.RequestAborted).ConfigureAwait(false), link).ConfigureAwait(false);
            }
        }
    }

    private async Task<(HttpResponseMessage Answer, TunnelLink? Link)> AskAsync(HttpContext context, string prefix, string? key)
    {
        using HttpRequestMessage request = Describe(context, prefix, key);
        TunnelLink.Asking asking = TunnelLink.BeginToAsk();
        try
        {
            return (await _client.SendAsync(request, context.RequestAborted).ConfigureAwait(false), asking.Link);
        }
        catch (HttpRequestException error) when (error.InnerException is ConnectorException why)
        {
            throw new ConnectorException(why.Fault, why.Message, error) { IsShortage = why.IsShortage };
        }
        catch (HttpRequestException error)
        {
            throw new ConnectorException(error.HttpRequestError == HttpRequestError.ConnectionError ? ConnectorFault.NoConnection : ConnectorFault.BrokenResponse, $"{endPoint}: {error.Message}", error);
        }
    }

    private async Task PassOnAsync(HttpContext context, HttpResponseMessage answer)
    {
        TakeHead(context.Response, answer);
        Stream theirs = await answer.Content.ReadAsStreamAsync(context.RequestAborted).ConfigureAwait(false);
        try
        {
            await theirs.CopyToAsync(context.Response.Body, context.RequestAborted).ConfigureAwait(false);
        }
        catch (Exception error) when (error is HttpRequestException or HttpIOException)
        {
            throw new ConnectorException(ConnectorFault.BrokenResponse, $"{endPoint}: {error.Message}", error) { IsMidway = true };
        }
    }

    private static void TakeHead(HttpResponse response, HttpResponseMessage answer)
    {
        response.StatusCode = (int)answer.StatusCode;
        try
        {
            foreach (var (name, values) in answer.Headers.NonValidated.Concat(answer.Content.Headers.NonValidated))
            {
                if (GoesOn(name))
                {
                    response.Headers[name] = new Microsoft.Extensions.Primitives.StringValues([.. values]);
                }
            }
        }
        catch (InvalidOperationException error)
        {
            throw new ConnectorException(ConnectorFault.BrokenResponse, $"Its response is broken: {error.Message}", error);
        }
    }

    public void Dispose() => _client.Dispose();

    private static bool GoesOn(string name) => !ConnectionFields.Contains(name) && !s_ownFields.Contains(name);

    private static HttpRequestMessage Describe(HttpContext context, string prefix, string? key)
    {
        HttpRequest asked = context.Request;
        string target = PathAndQueryOf(context.Features.GetRequiredFeature<IHttpRequestFeature>().RawTarget);
        var request = new HttpRequestMessage(new HttpMethod(asked.Method), new Uri("http://app" + target, new UriCreationOptions { DangerousDisablePathAndQueryCanonicalization = true }))
        {
            Version = HttpVersion.Version11,
            VersionPolicy = HttpVersionPolicy.RequestVersionExact,
            Content = asked.ContentLength is null && (HttpMethods.IsGet(asked.Method) || HttpMethods.IsHead(asked.Method)) ? null : new ByteArrayContent([]),      // one without is sent again where its connection ends without an answer
        };
        foreach (var (name, values) in asked.Headers)
        {
            if (GoesOn(name) && !name.Contains('_', StringComparison.Ordinal) && !name.Equals(HeaderNames.ContentLength, StringComparison.OrdinalIgnoreCase))
            {
                Add(request, name, values.ToArray());
            }
        }
        _ = request.Headers.TryAddWithoutValidation(HeaderNames.Host, asked.Headers.Host.ToArray());     // a name that is none for a URI is the application's to judge
        if (key is not null)
        {
            _ = request.Headers.TryAddWithoutValidation(RoutedBy.Field, RoutedBy.Value(key, prefix, context));
        }
        request.Headers.Connection.Add("Upgrade");
        _ = request.Headers.TryAddWithoutValidation(HeaderNames.Upgrade, asked.Headers.Upgrade.ToArray());
        return request;
    }

    // The framework's client has those that tell of a body (Content-Type, Expires) beside a body alone.
    private static void Add(HttpRequestMessage request, string name, string?[] values)
    {
        if (!request.Headers.TryAddWithoutValidation(name, values))
        {
            request.Content ??= new ByteArrayContent([]);
            _ = request.Content.Headers.TryAddWithoutValidation(name, values);
        }
    }

    // The target may be an absolute one, whose host is the request's already (RFC 9112 §3.2.2).
    private static string PathAndQueryOf(string target)
    {
        int authority = target.StartsWith('/') ? -1 : target.IndexOf("://", StringComparison.Ordinal);
        int path = authority < 0 ? 0 : target.AsSpan(authority + 3).IndexOfAny('/', '?');
        string its = authority < 0 ? target : path < 0 ? "" : target[(authority + 3 + path)..];
        return its.StartsWith('/') ? its : its.StartsWith('?') ? "/" + its : "/";
    }

    private static async Task CarryAsync(HttpContext context, HttpResponseMessage answer, Stream theirs, TunnelLink? link)
    {
        foreach (var product in answer.Headers.Upgrade)
        {
            context.Response.Headers.Append(HeaderNames.Upgrade, product.ToString());
        }
        await using Stream ours = await context.Features.GetRequiredFeature<IHttpUpgradeFeature>().UpgradeAsync().ConfigureAwait(false);
        using var lost = new CancellationTokenSource();
        using var over = new CancellationTokenSource();
        Task watching = WatchAsync((RequestBound)context.Features.GetRequiredFeature<IHttpRequestFeature>(), lost, context.RequestAborted, over.Token);
        try
        {
            await Tunnel.CarryAsync(ours, theirs, link, lost.Token).ConfigureAwait(false);
        }
        finally
        {
            await over.CancelAsync().ConfigureAwait(false);
            await watching.ConfigureAwait(false);
        }
    }

    // A client that has ended its half alone is told of by the same token, and still listens. The token fires once: a reset behind that is seen by looking.
    private static async Task WatchAsync(RequestBound its, CancellationTokenSource lost, CancellationToken left, CancellationToken over)
    {
        using (var either = CancellationTokenSource.CreateLinkedTokenSource(left, over))
        {
            await Task.Delay(Timeout.InfiniteTimeSpan, either.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
        while (!over.IsCancellationRequested && !IsLost(its))
        {
            await Task.Delay(s_lookAgain, over).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
        if (!over.IsCancellationRequested)
        {
            await lost.CancelAsync().ConfigureAwait(false);
        }
    }

    private static bool IsLost(RequestBound its)
    {
        using ExchangeUse use = its.Exchange.Use(its.Ticket);
        return its.Exchange.Life.IsUseless;
    }

    // Waits where the queue of the application's socket is full, as requests do that go over FastCGI.
    internal static async Task<Stream> ConnectAsync(EndPoint endPoint, TimeSpan timeout, CancellationToken ct)
    {
        Socket socket = await ConnectionPool.ConnectAsync(endPoint, timeout, ct).ConfigureAwait(false);
        try
        {
            socket.Blocking = true;     // as a stream wants it
            return new TunnelLink(socket);
        }
        catch
        {
            socket.Dispose();
            throw;
        }
    }
}
