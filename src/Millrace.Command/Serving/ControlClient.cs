// The other end of the control socket, for the verbs of the command.

using System.Globalization;
using System.Net.Sockets;
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;

namespace Millrace.Command.Serving;

internal sealed class ControlClient : IDisposable
{
    private readonly string _path;
    private readonly HttpClient _client;

    /// <param name="path">The socket of the daemon.</param>
    public ControlClient(string path)
    {
        _path = path;
        _client = PrivateSocket.HttpClient(path);
    }

    /// <param name="ct">Gives it up.</param>
    /// <param name="withTraffic">Whether the daemon is to measure what its applications have to do.</param>
    /// <exception cref="CommandFailure">There is no daemon, or it may not be asked.</exception>
    public async Task<DaemonStatus> StatusAsync(CancellationToken ct, bool withTraffic = true)
    {
        using var response = await SendAsync(HttpMethod.Get, withTraffic ? "status?traffic=1" : "status", ct);
        return await ReadAsync(response, ControlJson.Default.DaemonStatus, ct);
    }

    /// <summary>Has something done, such as <c>apps/shop/reload</c>.</summary>
    /// <param name="what">The path of the request.</param>
    /// <param name="body">Its body, or null.</param>
    /// <param name="ct">Gives it up.</param>
    /// <exception cref="CommandFailure">There is no daemon, or it may not be asked.</exception>
    public async Task<ControlAnswer> DoAsync(string what, byte[]? body, CancellationToken ct)
    {
        using var response = await SendAsync(HttpMethod.Post, what, ct, body);
        return await ReadAsync(response, ControlJson.Default.ControlAnswer, ct);
    }

    /// <summary>What an application prints, as it comes.</summary>
    /// <exception cref="CommandFailure">There is no daemon, no such application, or it may not be asked.</exception>
    public async Task CopyLogsAsync(string app, int lines, bool follow, Stream to, CancellationToken ct)
    {
        using var response = await SendAsync(HttpMethod.Get, string.Create(CultureInfo.InvariantCulture, $"apps/{app}/logs?lines={lines}&follow={(follow ? 1 : 0)}"), ct);
        if (!response.IsSuccessStatusCode)
        {
            throw new CommandFailure(ExitCode.Failure, (await ReadAsync(response, ControlJson.Default.ControlAnswer, ct)).Message);
        }
        await using var stream = await response.Content.ReadAsStreamAsync(ct);
        await stream.CopyToAsync(to, ct);
    }

    public void Dispose() => _client.Dispose();

    private async Task<T> ReadAsync<T>(HttpResponseMessage response, JsonTypeInfo<T> type, CancellationToken ct)
    {
        try
        {
            return JsonSerializer.Deserialize(await response.Content.ReadAsStringAsync(ct), type)!;
        }
        catch (Exception error) when (error is JsonException or HttpRequestException or IOException)
        {
            throw new CommandFailure(ExitCode.Failure, string.Create(CultureInfo.InvariantCulture, $"What listens on {_path} has answered {(int)response.StatusCode}, and not as a daemon does. There is no application of such a name, it has stopped meanwhile, or is none."));
        }
    }

    private async Task<HttpResponseMessage> SendAsync(HttpMethod method, string what, CancellationToken ct, byte[]? body = null)
    {
        try
        {
            // As it is: a name such as ".." is one that no application has, and no way to another address.
            using var request = new HttpRequestMessage(method, new Uri("http://millrace/" + what, new UriCreationOptions { DangerousDisablePathAndQueryCanonicalization = true })) { Content = body is null ? null : new ByteArrayContent(body) };
            return await _client.SendAsync(request, HttpCompletionOption.ResponseHeadersRead, ct);
        }
        catch (HttpRequestException error) when (error.InnerException is SocketException { SocketErrorCode: SocketError.AccessDenied })
        {
            throw new CommandFailure(ExitCode.Failure, $"The daemon's socket {_path} is not yours to use, or not yours at all. Ask as its owner, or as root.");
        }
        catch (HttpRequestException error) when (error.InnerException is SocketException)
        {
            throw new CommandFailure(ExitCode.CannotConnect, $"There is no daemon on {_path}. Start one with `millrace serve FILE`, or name the socket of another with --control PATH.");
        }
        catch (HttpRequestException error)
        {
            throw new CommandFailure(ExitCode.Failure, $"The daemon on {_path} has not answered: {error.Message}");
        }
    }
}
