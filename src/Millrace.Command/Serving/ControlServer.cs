// The daemon's control socket: HTTP and JSON on a Unix socket of mode 0600, so that root and the daemon's user alone can ask. The verbs of the
// command are its clients, and `curl --unix-socket` is another.
//
//   GET  /status                     what there is; ?traffic=1 with what the applications have to do, from the second second on
//   POST /reload                     the file is read again
//   POST /stop                       the daemon ends
//   POST /upgrade                    the daemon becomes the program that is installed now; /status shows when it is
//   POST /apps/NAME/ACTION           start, reload, restart, stop, hold (with a page as its body; ?queue=30s lets visitors wait before it), release, scale (with a number)
//   GET  /pools, POST /pools/NAME/ACTION   the pools of the file, as a process with pools has it (PoolControl)
//   GET  /apps/NAME/logs?lines=N     what it has printed; &follow=1 goes on, &after=N with what is behind so many lines

using System.Globalization;
using System.Text;
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;
using System.Threading.Channels;
using Microsoft.AspNetCore.Http;
using Millrace.Listeners;

namespace Millrace.Command.Serving;

internal sealed partial class ControlServer : IAsyncDisposable
{
    /// <summary>Bytes of a page that is shown while an application is held.</summary>
    public const int PageMax = 1024 * 1024;

    /// <summary>Of an answer that goes on with what is printed: how many lines have been before its first.</summary>
    public const string LineField = "Millrace-Line";

    private const int LinesDefault = 100;
    private const int LinesAhead = 1000;

    private readonly string _path;
    private readonly Daemon _daemon;
    private readonly Action _stop;
    private readonly Upgrading _upgrading;
    private ListenSocket _socket;
    private readonly CancellationTokenSource _ending = new();
    private readonly SemaphoreSlim _one = new(1);      // somebody may ask for a new socket at any time
    private MillraceServer? _server;
    private bool _isPaused;
    private bool _isOver;

    private ControlServer(ListenSocket socket, Daemon daemon, Action stop, Upgrading upgrading) => (_path, _socket, _daemon, _stop, _upgrading) = (socket.Address.Path!, socket, daemon, stop, upgrading);

    /// <summary>For another program that this process becomes.</summary>
    public ListenerState State => AppInstance.StateOf(_socket);

    /// <param name="socket">See <see cref="Listen"/>; disposed of with this.</param>
    /// <param name="daemon">What is asked for.</param>
    /// <param name="stop">Ends the daemon.</param>
    /// <param name="upgrading">Has it become another program.</param>
    /// <exception cref="MillraceStartException">Nobody can be answered.</exception>
    public static async Task<ControlServer> StartAsync(ListenSocket socket, Daemon daemon, Action stop, Upgrading upgrading)
    {
        var control = new ControlServer(socket, daemon, stop, upgrading);
        await control.GoOnAsync();
        return control;
    }

    /// <param name="path">The socket; absolute.</param>
    /// <exception cref="MillraceStartException">The socket cannot be made, or another daemon has it.</exception>
    public static ListenSocket Listen(string path) => ListenSockets.Open(ListenAddress.Parse($"http://unix:{path}?mode=600"), loops: 1)[0];

    /// <summary>Listens again where somebody has removed the socket, which nobody could ask for any more.</summary>
    /// <exception cref="MillraceStartException">It cannot be made.</exception>
    /// <exception cref="CommandFailure">Nor can its folder.</exception>
    public Task RenewAsync() => InTurnAsync(async () =>
    {
        if (_isPaused || FileFacts.At(_path, out _) is not null)
        {
            return;
        }
        _daemon.MakeFolder();
        var (socket, server) = (_socket, _server!);
        var next = Listen(_path);
        try
        {
            _server = await ServeAsync(next);
        }
        catch
        {
            next.Dispose();     // whoever asks again finds no file, and tries again
            throw;
        }
        _socket = next;
        await server.DisposeAsync();
        socket.Dispose();
    });

    /// <summary>Ends with the requests that are under way. Who comes then waits.</summary>
    public Task PauseAsync() => InTurnAsync(async () =>
    {
        _isPaused = true;
        await _server!.DisposeAsync();
    });

    /// <summary>Answers who comes.</summary>
    public Task GoOnAsync() => InTurnAsync(async () =>
    {
        _server = await ServeAsync(_socket);
        _isPaused = false;
    });

    private async Task InTurnAsync(Func<Task> step)
    {
        await _one.WaitAsync();
        try
        {
            await (_isOver ? Task.CompletedTask : step());
        }
        finally
        {
            _one.Release();
        }
    }

    private Task<MillraceServer> ServeAsync(ListenSocket socket) => MillraceServer.StartAsync(
        string.Create(CultureInfo.InvariantCulture, $"http://fd:{AppListeners.Copy(socket.Descriptor)}"),
        AnswerAsync,
        new MillraceOptions { Loops = 1, Dispatch = DispatchMode.Workers, MaxRequestBodySize = PageMax, IgnoreSignals = false, DrainTimeout = TimeSpan.FromSeconds(1) });

    public async ValueTask DisposeAsync()
    {
        await _ending.CancelAsync();        // who follows what is printed would be waited for
        await InTurnAsync(async () =>
        {
            _isOver = true;
            await _server!.DisposeAsync();
            _socket.Dispose();
            _ending.Dispose();
        });
    }

    private async ValueTask AnswerAsync(Request request, Response response)
    {
        try
        {
            await RouteAsync(request, response);
        }
        catch (UpgradingException)
        {
            response.AddHeader("Retry-After", "1");
            await SendAsync(response, 503, new ControlAnswer(false, "The daemon is about to become another program: ask again."), ControlJson.Default.ControlAnswer);
        }
        catch (BadHttpRequestException error) when (!response.HasStarted)
        {
            string sentence = error.StatusCode == 413 ? "A page to show has at most 1 MiB." : $"This request cannot be read: {error.Message}";
            await SendAsync(response, error.StatusCode, new ControlAnswer(false, sentence), ControlJson.Default.ControlAnswer);
        }
        catch (Exception error) when (!response.HasStarted)
        {
            await SendAsync(response, 500, new ControlAnswer(false, $"The daemon has made a mistake, and goes on: {error}"), ControlJson.Default.ControlAnswer);
        }
    }

    private async ValueTask RouteAsync(Request request, Response response)
    {
        string[] path = request.Path.Split('/', StringSplitOptions.RemoveEmptyEntries);
        switch (request.Method, path)
        {
            case ("GET", ["status"]):
                if (request.QueryString == "?traffic=1" || request.QueryString == "traffic=1")
                {
                    _daemon.WantTraffic();
                }
                await SendAsync(response, 200, _daemon.Status, ControlJson.Short.DaemonStatus);
                return;
            case ("POST", ["reload"]):
                await SendAsync(response, await _upgrading.UnlessPausedAsync(_daemon.ReloadAsync()));
                return;
            case ("POST", ["upgrade"]):
                await SendAsync(response, await _upgrading.BeginAsync());
                return;
            case ("POST", ["stop"]):
                await SendAsync(response, new ControlAnswer(true, "the daemon stops"));
                _stop();
                return;
            case ("POST", ["apps", var name, var action]) when _daemon.Find(name) is { } app:
                await SendAsync(response, await _upgrading.UnlessPausedAsync(DoAsync(app, action, Query(request), await ReadAsync(request))));
                return;
            case ("GET", ["pools"]):
                await SendPoolsAsync(response, request.Aborted);
                return;
            case ("POST", ["pools", var name, var action]):
                await DoToPoolAsync(name, action, request, response);
                return;
            case ("GET", ["apps", var name, "logs"]) when _daemon.Find(name) is { } app:
                await SendLogsAsync(app, request, response);
                return;
            case (_, ["apps", var name, ..]) when _daemon.Find(name) is null:
                string names = string.Join(", ", _daemon.Status.Apps.Select(static app => app.Name));
                await SendAsync(response, 404, new ControlAnswer(false, $"There is no application '{name}'. There are: {names}."), ControlJson.Default.ControlAnswer);
                return;
            default:
                await SendAsync(response, 404, new ControlAnswer(false, $"{request.Method} {request.Path} is nothing that this daemon knows."), ControlJson.Default.ControlAnswer);
                return;
        }
    }

    private static ILookup<string, string> Query(Request request) =>
        request.QueryString.TrimStart('?').Split('&').Select(static pair => pair.Split('=', 2)).Where(static pair => pair.Length == 2).ToLookup(static pair => pair[0], static pair => pair[1]);

    private static async Task<ControlAnswer> DoAsync(HostedApp app, string action, ILookup<string, string> query, byte[] body)
    {
        string? error;
        switch (action)
        {
            case "start":
                bool servesAlready = app.IsDeploying;        // the next generation may take minutes, and is somebody else's
                error = servesAlready ? null : await app.DeployAsync(unless: () => servesAlready = app.State is AppState.Serving or AppState.Deploying);
                if (servesAlready)
                {
                    return new ControlAnswer(true, $"{app.Settings.Name} serves already");
                }
                break;
            case "reload" or "release":
                error = await app.DeployAsync();
                break;
            case "restart":
                error = await app.RestartAsync();
                break;
            case "stop":
                error = await app.StopAsync();
                break;
            case "hold" when query.Contains("queue") && QueueTime(query["queue"].Last()) is null:
                return new ControlAnswer(false, $"Who comes may wait from {Duration.Text(HostedApp.QueueTimes.Min)} to {Duration.Text(HostedApp.QueueTimes.Max)}: a number and s, m or h.");
            case "hold":
                error = await app.HoldAsync("as somebody has asked", body.Length > 0 ? body : null, QueueTime(query["queue"].LastOrDefault() ?? ""));
                break;
            case "scale" when Number(body) is not { } count:
                return new ControlAnswer(false, string.Create(CultureInfo.InvariantCulture, $"An application has 1 to {ServeFileReader.InstancesMax} processes. `millrace stop` ends them all."));
            case "scale" when app.Settings.Pool is not null:
                return new ControlAnswer(false, $"{app.Settings.Name} is a pool: `millrace pool resize {app.Settings.Name} MIN MAX` says how many processes it has.");
            case "scale":
                error = await app.ScaleAsync(Number(body)!.Value);
                break;
            default:
                return new ControlAnswer(false, $"'{action}' is nothing that can be done to an application. There are start, reload, restart, stop, hold, release and scale.");
        }
        return error is null
            ? new ControlAnswer(true, $"{app.Settings.Name}: {app.State.ToString().ToLowerInvariant()}")
            : new ControlAnswer(false, $"{app.Settings.Name}: {error}");
    }

    private static int? Number(byte[] body) =>
        int.TryParse(Encoding.ASCII.GetString(body), NumberStyles.None, CultureInfo.InvariantCulture, out int number) && number is >= 1 and <= ServeFileReader.InstancesMax ? number : null;

    private static TimeSpan? QueueTime(string text) =>
        Duration.TryParse(text, out var time) && time >= HostedApp.QueueTimes.Min && time <= HostedApp.QueueTimes.Max ? time : null;

    private static async Task<byte[]> ReadAsync(Request request)
    {
        using var body = new MemoryStream();
        await request.Body.CopyToAsync(body);
        return body.ToArray();
    }

    private async Task SendLogsAsync(HostedApp app, Request request, Response response)
    {
        var query = Query(request);
        int lines = int.TryParse(query["lines"].FirstOrDefault(), NumberStyles.None, CultureInfo.InvariantCulture, out int asked) ? asked : LinesDefault;
        response.ContentType = "text/plain; charset=utf-8";
        if (query["follow"].FirstOrDefault() != "1")
        {
            await response.WriteAsync(Encoding.UTF8.GetBytes(string.Concat(app.Output.Last(lines).Select(static line => line + "\n"))));
            return;
        }

        // A reader who is slow loses lines, and holds nobody up.
        var waiting = Channel.CreateBounded<string>(new BoundedChannelOptions(LinesAhead) { FullMode = BoundedChannelFullMode.DropOldest });
        long? after = long.TryParse(query["after"].FirstOrDefault(), NumberStyles.None, CultureInfo.InvariantCulture, out long known) ? known : null;
        using var following = app.Output.Follow(lines, after, line => waiting.Writer.TryWrite(line), out long before);
        response.AddHeader(LineField, before.ToString(CultureInfo.InvariantCulture));
        using var ending = _ending.Token.UnsafeRegister(static its => ((ChannelWriter<string>)its!).TryComplete(), waiting.Writer);     // with what has been printed by then
        using var ends = CancellationTokenSource.CreateLinkedTokenSource(request.Aborted, _upgrading.Paused);
        var aborted = ends.Token;
        try
        {
            await response.FlushAsync(aborted);
            await foreach (string line in waiting.Reader.ReadAllAsync(aborted))
            {
                await response.WriteAsync(Encoding.UTF8.GetBytes(line + "\n"), aborted);
                await response.FlushAsync(aborted);
            }
        }
        catch (OperationCanceledException)
        {
            // Nobody listens any more.
        }
    }

    private static Task SendAsync(Response response, ControlAnswer answer) => SendAsync(response, answer.Ok ? 200 : 409, answer, ControlJson.Default.ControlAnswer);

    private static async Task SendAsync<T>(Response response, int status, T value, JsonTypeInfo<T> type)
    {
        response.StatusCode = status;
        response.ContentType = "application/json";
        await response.WriteAsync(JsonSerializer.SerializeToUtf8Bytes(value, type));
    }
}
