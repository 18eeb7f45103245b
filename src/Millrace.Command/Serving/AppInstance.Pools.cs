// A process that has a pool: what it is started with beside the rest, and what the daemon has done to it. It is asked where its health is asked for, with a key that nobody else has: its process hides its environment (LaterUser), and takes such requests on its private socket alone.

using System.Diagnostics;
using Millrace.Command.Routing;

namespace Millrace.Command.Serving;

internal sealed partial class AppInstance
{
    private string PoolKey => RouteKey.OfDaemon.Of("pool " + _start.Settings.Name);

    private void DescribePool(ProcessStartInfo info)
    {
        if (_start.Settings.Pool is not null)
        {
            info.Environment[PoolSettingsJson.NameVariable] = _start.Settings.Name;
            info.Environment[PoolSettingsJson.KeyVariable] = PoolKey;
        }
    }

    /// <summary>Asks it for its pool, or has something done to that.</summary>
    /// <param name="method">GET or POST.</param>
    /// <param name="what">The path and the query, as PoolControl has them.</param>
    /// <param name="ct">Gives it up.</param>
    /// <exception cref="InstanceException">It does not answer.</exception>
    public async Task<(int Status, byte[] Json)> AskPoolAsync(HttpMethod method, string what, CancellationToken ct)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct, _ended.Token);
        using var request = PrivateSocket.Request(method, "http://app" + what);
        request.Headers.Add(PoolSettingsJson.KeyField, PoolKey);
        try
        {
            using var response = await _client.SendAsync(request, HttpCompletionOption.ResponseHeadersRead, limit.Token);
            return ((int)response.StatusCode, await PrivateSocket.BytesAsync(response, ControlClient.AnswerMax, limit.Token));
        }
        catch (Exception error) when (error is HttpRequestException or IOException || (error is OperationCanceledException && !ct.IsCancellationRequested))
        {
            throw new InstanceException($"Its process does not answer: {(_ended.IsCancellationRequested ? "it " + await Exited : error.Message)}");
        }
    }
}
