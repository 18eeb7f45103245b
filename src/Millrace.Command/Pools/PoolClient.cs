// The other end of the control socket of a process that has pools.

using System.Globalization;
using System.Net.Sockets;
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;
using Millrace.Command.Serving;
using Millrace.Workers.Control;

namespace Millrace.Command.Pools;

internal sealed class PoolClient(string path) : IDisposable
{
    private readonly HttpClient _client = PrivateSocket.HttpClient(path);

    /// <summary>How long a process may take to say how it is.</summary>
    public TimeSpan Patience { get; init; } = TimeSpan.FromSeconds(10);

    public string Path => path;

    /// <exception cref="CommandFailure">Nobody is there, or he may not be asked, or does not answer as he should.</exception>
    public async Task<PoolsStatus> StatusAsync(CancellationToken ct)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct);
        limit.CancelAfter(Patience);
        try
        {
            return await AskAsync(HttpMethod.Get, "pools", PoolJson.Default.PoolsStatus, PoolsStatus.IsWhole, limit.Token);
        }
        catch (OperationCanceledException) when (!ct.IsCancellationRequested)
        {
            throw new CommandFailure(ExitCode.Failure, string.Create(CultureInfo.InvariantCulture, $"The process behind {path} has not answered within {Patience.TotalSeconds:0.###} s."));
        }
    }

    /// <param name="pool">Its name.</param>
    /// <param name="action">What is to be done, with the query that belongs to it.</param>
    /// <param name="ct">Gives it up.</param>
    /// <exception cref="CommandFailure">The same.</exception>
    public Task<PoolAnswer> DoAsync(string pool, string action, CancellationToken ct) =>
        AskAsync(HttpMethod.Post, $"pools/{Uri.EscapeDataString(pool)}/{action}", PoolJson.Default.PoolAnswer, static answer => answer.Message is not null, ct);

    public void Dispose() => _client.Dispose();

    private async Task<T> AskAsync<T>(HttpMethod method, string what, JsonTypeInfo<T> type, Func<T, bool> isWhole, CancellationToken ct)
        where T : class
    {
        try
        {
            using var request = PrivateSocket.Request(method, "http://pools/" + what);
            using var response = await _client.SendAsync(request, HttpCompletionOption.ResponseHeadersRead, ct);
            if (JsonSerializer.Deserialize(await PrivateSocket.BytesAsync(response, ControlClient.AnswerMax, ct), type) is { } answer && isWhole(answer))
            {
                return answer;
            }
        }
        catch (HttpRequestException error) when (error.InnerException is SocketException { SocketErrorCode: SocketError.AccessDenied })
        {
            throw new CommandFailure(ExitCode.Failure, $"The control socket {path} is not yours to use, or not yours at all. Ask as its owner, or as root.");
        }
        catch (HttpRequestException error) when (error.InnerException is SocketException)
        {
            throw new CommandFailure(ExitCode.CannotConnect, $"Nobody listens on {path}. An application does where it calls services.AddPoolControl(\"{path}\"), while it runs.");
        }
        catch (Exception error) when (error is JsonException or HttpRequestException or IOException)
        {
            // See below.
        }
        throw new CommandFailure(ExitCode.Failure, $"What listens on {path} has not answered as a process with pools does.");
    }
}
