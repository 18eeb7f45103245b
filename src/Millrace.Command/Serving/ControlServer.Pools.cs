// The pools of the daemon's file, as any process with pools shows them (Millrace.Workers.Control.PoolControl): the daemon asks their processes.

using System.Text.Json;
using Millrace.Workers;
using Millrace.Workers.Control;

namespace Millrace.Command.Serving;

internal sealed partial class ControlServer
{
    private const string Shown = "millrace serve";
    private static readonly TimeSpan s_poolPatience = TimeSpan.FromSeconds(3);

    // One whose process does not answer is left out: `millrace status` says what is the matter.
    private async Task SendPoolsAsync(Response response, CancellationToken ct)
    {
        var all = await Task.WhenAll(_daemon.Pools.Select(app => StatusOfAsync(app, ct)));
        await SendAsync(response, 200, new PoolsStatus(Environment.ProcessId, Shown, [.. all.SelectMany(static its => its)]), PoolJson.Default.PoolsStatus);
    }

    private static async Task<IReadOnlyList<WorkerPoolStatus>> StatusOfAsync(HostedApp app, CancellationToken ct)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct);
        limit.CancelAfter(s_poolPatience);
        try
        {
            return app.PoolProcess is { } process ? PoolsOf((await process.AskPoolAsync(HttpMethod.Get, "/pools", limit.Token)).Json, app.Settings.Name) : [];
        }
        catch (Exception error) when (error is InstanceException or JsonException || (error is OperationCanceledException && !ct.IsCancellationRequested))
        {
            return [];
        }
    }

    /// <summary>What a process says of its pool; nothing of what is not whole, or another pool's: its user's scripts may have broken into it.</summary>
    /// <exception cref="JsonException">It has said something else.</exception>
    internal static IReadOnlyList<WorkerPoolStatus> PoolsOf(byte[] json, string name) =>
        JsonSerializer.Deserialize(json, PoolJson.Default.PoolsStatus) is { } status && PoolsStatus.IsWhole(status) ? [.. status.Pools.Where(pool => pool.Name == name)] : [];

    private async Task DoToPoolAsync(string name, string action, Request request, Response response)
    {
        PoolAnswer answer;
        try
        {
            answer = _daemon.Pools.FirstOrDefault(app => app.Settings.Name == name) is not { } app ? new PoolAnswer(false, $"There is no pool {name}. There are: {string.Join(", ", _daemon.Pools.Select(static app => app.Settings.Name))}.")
                : app.PoolProcess is not { } process ? new PoolAnswer(false, $"{name}: it has no process, since it is {app.State.ToString().ToLowerInvariant()}. `millrace start {name}` starts it.")
                : JsonSerializer.Deserialize((await process.AskPoolAsync(HttpMethod.Post, $"/pools/{name}/{Uri.EscapeDataString(action)}?{request.QueryString.TrimStart('?')}", request.Aborted)).Json, PoolJson.Default.PoolAnswer) is { Message: not null } its ? its
                : throw new JsonException("Its process has not answered as a pool does. Restart it: `millrace restart`.");
        }
        catch (Exception error) when (error is InstanceException or JsonException)
        {
            answer = new PoolAnswer(false, $"{name}: {error.Message}");
        }
        await SendAsync(response, answer.Ok ? 200 : 409, answer, PoolJson.Default.PoolAnswer);
    }
}
