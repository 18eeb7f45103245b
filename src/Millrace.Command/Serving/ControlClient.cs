// The other end of the control socket, for the verbs of the command.

using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;
using Millrace.Command.Terminals;

namespace Millrace.Command.Serving;

internal sealed class ControlClient : IDisposable
{
    /// <summary>How often a question is asked of a daemon that closes its connection without an answer: one that is about to become another program does, and that one answers.</summary>
    public const int Tries = 5;

    /// <summary>Bytes of an answer: whoever answers may be no daemon of ours.</summary>
    public const int AnswerMax = 16 * 1024 * 1024;

    /// <summary>The same of what a daemon says of itself: a hundred applications may have had sentences of theirs printed a hundred times each.</summary>
    public int StatusMost { get; init; } = 64 * 1024 * 1024;

    private const int PartMax = 16 * 1024;
    private static readonly TimeSpan s_askAgain = TimeSpan.FromMilliseconds(50);

    private readonly string _path;
    private readonly HttpClient _client;

    /// <summary>How long a daemon may take to say how it is, and how long it may be on its way to become another program.</summary>
    public TimeSpan Patience { get; init; } = TimeSpan.FromSeconds(30);

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
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct);
        limit.CancelAfter(Patience);
        try
        {
            using var response = await SendAsync(HttpMethod.Get, withTraffic ? "status?traffic=1" : "status", limit.Token);
            return await ReadAsync(response, ControlJson.Default.DaemonStatus, static status => status.IsWhole, limit.Token, StatusMost);
        }
        catch (OperationCanceledException) when (!ct.IsCancellationRequested)
        {
            throw TooSlow();
        }
    }

    private CommandFailure TooSlow() =>
        new(ExitCode.Failure, string.Create(CultureInfo.InvariantCulture, $"The daemon on {_path} has not answered within {Patience.TotalSeconds:0.###} s. `millrace serve` starts another, which takes its processes over, when it has been ended."));

    /// <summary>Has something done, such as <c>apps/shop/reload</c>.</summary>
    /// <param name="what">The path of the request.</param>
    /// <param name="body">Its body, or null.</param>
    /// <param name="ct">Gives it up.</param>
    /// <exception cref="CommandFailure">There is no daemon, or it may not be asked.</exception>
    public async Task<ControlAnswer> DoAsync(string what, byte[]? body, CancellationToken ct)
    {
        long pausedSince = 0;
        while (true)
        {
            using var response = await SendAsync(HttpMethod.Post, what, ct, body);
            if (response.StatusCode != HttpStatusCode.ServiceUnavailable)
            {
                return await ReadAsync(response, ControlJson.Default.ControlAnswer, static answer => answer.Message is not null, ct);
            }

            // It becomes another program. How long it had been at what was asked for says nothing about that.
            pausedSince = pausedSince == 0 ? Stopwatch.GetTimestamp() : pausedSince;
            if (Stopwatch.GetElapsedTime(pausedSince) > Patience)
            {
                throw TooSlow();
            }
            await Task.Delay(s_askAgain, ct);
        }
    }

    /// <summary>Has the daemon become the program that is installed now, and waits for that one's answer.</summary>
    /// <exception cref="CommandFailure">There is no daemon, it may not be asked, or has not come back.</exception>
    public async Task<ControlAnswer> UpgradeAsync(CancellationToken ct)
    {
        var before = await StatusAsync(ct, withTraffic: false);
        var begun = await DoAsync("upgrade", body: null, ct);
        if (!begun.Ok)
        {
            return begun;
        }
        while (true)
        {
            var now = await StatusAsync(ct, withTraffic: false);
            if (now.UpgradeFailure is { } failure)
            {
                return new ControlAnswer(false, failure);
            }
            if (now.Process == before.Process && now.Upgrades > before.Upgrades)
            {
                int processes = now.Apps.Sum(static app => app.Processes.Count);
                return new ControlAnswer(true, string.Create(CultureInfo.InvariantCulture, $"the daemon is Millrace {now.Version} now, and was {before.Version}; process {now.Process} and {processes} of its applications' go on"));
            }
            await Task.Delay(s_askAgain, ct);
        }
    }

    /// <summary>What an application prints, as it comes.</summary>
    /// <exception cref="CommandFailure">There is no daemon, no such application, or it may not be asked.</exception>
    public async Task CopyLogsAsync(string app, int lines, bool follow, Stream to, CancellationToken ct)
    {
        string which = string.Create(CultureInfo.InvariantCulture, $"apps/{app}/logs?lines={lines}&follow={(follow ? 1 : 0)}");
        long printed = await CopyOnceAsync(which, to, ct);
        while (follow && await IsThereAsync(ct))
        {
            try
            {
                printed = await CopyOnceAsync(which + string.Create(CultureInfo.InvariantCulture, $"&after={printed}"), to, ct);       // it has become another program
            }
            catch (CommandFailure)
            {
                if (await IsThereAsync(ct))
                {
                    throw;
                }
            }
        }
    }

    private async Task<bool> IsThereAsync(CancellationToken ct)
    {
        try
        {
            _ = await StatusAsync(ct, withTraffic: false);
            return true;
        }
        catch (CommandFailure)
        {
            return false;
        }
    }

    // How many lines there have been, for whoever asks for those behind them.
    private async Task<long> CopyOnceAsync(string which, Stream to, CancellationToken ct)
    {
        using var response = await SendAsync(HttpMethod.Get, which, ct);
        if (!response.IsSuccessStatusCode)
        {
            throw new CommandFailure(ExitCode.Failure, (await ReadAsync(response, ControlJson.Default.ControlAnswer, static answer => answer.Message is not null, ct)).Message);
        }
        long printed = response.Headers.TryGetValues(ControlServer.LineField, out var before) && long.TryParse(before.First(), NumberStyles.None, CultureInfo.InvariantCulture, out long lines) ? lines : 0;
        await using var stream = await response.Content.ReadAsStreamAsync(ct);
        using var text = new StreamReader(stream, Encoding.UTF8, detectEncodingFromByteOrderMarks: false, PartMax);
        char[] part = new char[PartMax];
        for (int count; (count = await text.ReadAsync(part.AsMemory(), ct)) > 0; printed += part.AsSpan(0, count).Count('\n'))
        {
            await to.WriteAsync(Encoding.UTF8.GetBytes(CommandConsole.Readable(new string(part, 0, count), keepsLines: true)), ct);     // a terminal would obey what is no line of a daemon's
        }
        return printed;
    }

    public void Dispose() => _client.Dispose();

    private async Task<T> ReadAsync<T>(HttpResponseMessage response, JsonTypeInfo<T> type, Func<T, bool> isWhole, CancellationToken ct, int most = AnswerMax)
        where T : class
    {
        try
        {
            if (JsonSerializer.Deserialize(await PrivateSocket.BytesAsync(response, most, ct), type) is { } answer && isWhole(answer))
            {
                return answer;
            }
        }
        catch (LongAnswerException)
        {
            throw new CommandFailure(ExitCode.Failure, $"What listens on {_path} answers more than {Size.Text(most)}. A daemon does where it has very many applications, of which much has happened: `millrace logs` shows what, one after the other.");
        }
        catch (Exception error) when (error is JsonException or HttpRequestException or IOException)
        {
            // See below.
        }
        throw new CommandFailure(ExitCode.Failure, string.Create(CultureInfo.InvariantCulture, $"What listens on {_path} has answered {(int)response.StatusCode}, and not as a daemon does. There is no application of such a name, it has stopped meanwhile, or is none."));
    }

    private async Task<HttpResponseMessage> SendAsync(HttpMethod method, string what, CancellationToken ct, byte[]? body = null)
    {
        try
        {
            return await SendUnlessClosedAsync(method, what, body, ct);
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

    // What is to be done may have been done.
    private async Task<HttpResponseMessage> SendUnlessClosedAsync(HttpMethod method, string what, byte[]? body, CancellationToken ct)
    {
        for (int tries = method == HttpMethod.Get ? Tries : 1; ; tries--)
        {
            try
            {
                using var request = PrivateSocket.Request(method, "http://millrace/" + what, body);
                return await _client.SendAsync(request, HttpCompletionOption.ResponseHeadersRead, ct);
            }
            catch (HttpRequestException error) when (error.InnerException is not SocketException && tries > 1)
            {
                await Task.Delay(s_askAgain, ct);
            }
        }
    }
}
