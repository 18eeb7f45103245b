// One process of an application: started with what the daemon listens on, asked over a socket of its own how it is, told to accept, ended. Knows
// nothing of the others, nor of what becomes of the application when this one ends.

using System.Diagnostics;
using System.Globalization;
using System.IO.Pipes;
using System.Net.Sockets;
using System.Text;
using Millrace.Command.Routing;
using Millrace.Command.Running;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal sealed partial class AppInstance : IDisposable
{
    private static readonly TimeSpan s_lastWordPatience = TimeSpan.FromMilliseconds(500);
    private static readonly TimeSpan s_movePatience = TimeSpan.FromSeconds(5);

    /// <summary>Variables of the daemon's own: systemd speaks with it.</summary>
    public static readonly string[] DaemonsOwn = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "FDSTORE", ServiceManager.StoreVariable];

    private const int LineMax = 8192;
    private const int DescriptorsEach = 16;     // two sockets, a pipe to report on, three for what it prints, and what it takes to start it; copies of what is listened on come to that

    private readonly InstanceStart _start;
    private readonly ListenSocket _private;     // for its health
    private readonly ListenSocket _channel;
    private readonly AnonymousPipeServerStream? _report;
    private readonly HttpClient _client;
    private readonly ControlGroup? _group;
    private readonly ServedProcess _process;
    private readonly OutputPump? _output;       // null: nothing comes any more
    private readonly OutputPump? _error;
    private readonly CancellationTokenSource _ended = new();
    private Socket? _lifeline;      // null: it does not know one
    private bool _isDeferred;       // what is wrong with its program shows when it has been started
    private int _disposed;
    private int _asking;
    private long _answered;

    private AppInstance(InstanceStart start)
    {
        _start = start;
        _private = ListenSockets.Open(ListenAddress.Parse($"http://unix:{start.Directory}/{start.Id}.http?mode=600"), loops: 1)[0];
        try
        {
            _channel = ListenSockets.Open(ListenAddress.Parse($"http://unix:{start.Directory}/{start.Id}.channel?mode=600"), loops: 1)[0];
            _ = SystemCalls.SetSocketOption(_channel.Descriptor, SystemCalls.SOL_SOCKET, SystemCalls.SO_PASSRIGHTS, 1);     // the pipes of its output come there
            _client = PrivateSocket.HttpClient(_private.Address.Path!, EndForDescriptors);
            var lacking = new Dictionary<string, string>();
            _group = start.Settings.Limits.NeedsGroup ? start.Groups.TryMake(start.Id, start.Settings.Limits, lacking) : null;
            Limits = new LimitsInForce(start.Settings.Limits, lacking, Posix.DescriptorsMost());
            (var process, _report) = Launch();
            _process = ServedProcess.Of(process);
            _output = start.Output.Attach((PipeStream)process.StandardOutput.BaseStream, []);
            _error = start.Output.Attach((PipeStream)process.StandardError.BaseStream, []);
            process.StandardInput.Close();
        }
        catch
        {
            Dispose();
            throw;
        }
        Exited = WaitForExitAsync();
    }

    public string Id => _start.Id;

    /// <summary>What it accepts on, with others.</summary>
    public AppListeners Listeners => _start.Listeners;

    public int ProcessId => _process.Id;

    public DateTimeOffset Started { get; } = DateTimeOffset.UtcNow;

    /// <summary>When it has begun to accept, as <see cref="Stopwatch.GetTimestamp"/> says; 0 where it has not.</summary>
    public long ServesSince { get; private set; }

    /// <summary>What keeps it to its limits.</summary>
    public LimitsInForce Limits { get; }

    /// <summary>How it has ended, as a sentence's end: "ended with exit code 3".</summary>
    public Task<string> Exited { get; }

    /// <summary>Resident memory in bytes; 0 where it cannot be had.</summary>
    public long Memory => _process.Memory;

    /// <exception cref="InstanceException">It cannot be started.</exception>
    public static AppInstance Start(InstanceStart start)
    {
        try
        {
            return Headroom.Open(DescriptorsEach + start.Listeners.InheritedCount, () => new AppInstance(start));
        }
        catch (Exception error) when (error is MillraceStartException or FormatException or CommandFailure)
        {
            throw new InstanceException(error.Message);
        }
        catch (IOException error)
        {
            throw new InstanceException($"A process cannot be started: {error.Message}. Is the limit of open files reached (ulimit -n)?");
        }
        catch (System.ComponentModel.Win32Exception error)
        {
            throw new InstanceException(Unstarted(start, error.Message, Cure(error.NativeErrorCode, start.Settings.User)));
        }
    }

    private static string Unstarted(InstanceStart start, string why, string cure)
    {
        string who = start.Settings.User is { } user ? $" as user {user}" : "";
        return $"{start.App.Executable ?? DotNet.Path} cannot be started{who}: {why}. {cure}";
    }

    /// <summary>What to do where no process can be started.</summary>
    internal static string Cure(int errno, string? user) => errno switch
    {
        SystemCalls.EMFILE or SystemCalls.ENFILE => "Allow the daemon more open files (LimitNOFILE= of its unit, ulimit -n).",
        SystemCalls.EAGAIN or SystemCalls.ENOMEM => "Allow it more processes, or memory (TasksMax= of its unit, pids.max, ulimit -u).",
        SystemCalls.E2BIG => "Its \"arguments\" and \"environment\" are longer than the system allows (128 KiB each, getconf ARG_MAX together): put what is long into a file.",
        _ => user is null ? "Publish the application again." : "The user must exist, the daemon be root, and the user be able to read the application and .NET.",
    };

    /// <summary>Waits until the application listens on its private socket.</summary>
    /// <exception cref="InstanceException">It has ended, or says why it cannot.</exception>
    public async Task WaitForStartAsync(CancellationToken ct)
    {
        // What it has said last counts, also when its end is known first; a pipe that ends is the end of the process, or soon will be.
        var report = new LineReader(new StreamReader(_report!), LineMax).ReadAsync(ct);
        await Task.WhenAny((Task)report, Exited);
        ct.ThrowIfCancellationRequested();
        string? line = await Task.WhenAny(report, Task.Delay(s_lastWordPatience, ct)) == report ? await report : null;
        if (line is null)
        {
            string end = await Exited.WaitAsync(ct);
            throw new InstanceException((_isDeferred ? await _process.Ended : 0) switch
            {
                127 => Unstarted(_start, "it, or a library that it needs, is not there", Cure(SystemCalls.ENOENT, user: null)),
                126 => Unstarted(_start, "it may not be executed, or is no program", Cure(SystemCalls.EACCES, _start.Settings.User)),
                _ => $"The process {end} before it listened.",
            });
        }
        if (line is ['!' or '?', .. var reason])
        {
            throw new InstanceException(_start.Explain(reason));
        }
    }

    /// <summary>The status of a path, over the private socket; null where there is none in time.</summary>
    /// <exception cref="InstanceException">The answer is longer than <paramref name="bytesMax"/>.</exception>
    public async Task<int?> AskAsync(string path, TimeSpan timeout, CancellationToken ct, int bytesMax = AnswerReading.HealthBytesMax)
    {
        // Its sockets are open here too: they would take a request that no process answers.
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct, _ended.Token);
        limit.CancelAfter(timeout);
        using var request = PrivateSocket.Request(HttpMethod.Get, "http://app" + path);
        request.Headers.Host = _start.Settings.HealthHost;
        request.Headers.UserAgent.ParseAdd("millrace");
        Interlocked.Increment(ref _asking);
        try
        {
            using var response = await _client.SendAsync(request, HttpCompletionOption.ResponseHeadersRead, limit.Token);
            await AnswerReading.PassOverAsync(response.Content, path, bytesMax, limit.Token);
            Interlocked.Increment(ref _answered);
            return (int)response.StatusCode;
        }
        catch (HttpRequestException)
        {
            return null;
        }
        catch (OperationCanceledException) when (!ct.IsCancellationRequested)
        {
            return null;
        }
        catch (IOException)
        {
            return null;    // the answer is not whole
        }
        finally
        {
            Interlocked.Decrement(ref _asking);
        }
    }

    /// <summary>Has it accept on the application's addresses.</summary>
    /// <exception cref="InstanceException">It cannot, or has not done so when its time to start is over.</exception>
    public async Task ListenAsync(CancellationToken ct)
    {
        await (_start.EndsWithParent ? Task.CompletedTask : KeepAsync(ct));
        _ = await TellAsync("listen", _start.Settings.StartTimeout, ct);
        ServesSince = Stopwatch.GetTimestamp();
    }

    /// <summary>Has it give its connections to the next generation, each when it is idle.</summary>
    /// <exception cref="InstanceException">It cannot, or does not answer.</exception>
    public async Task MoveAsync() => _ = await TellAsync("move", s_movePatience, CancellationToken.None);

    /// <summary>What it has served so far; null where it does not say so in time.</summary>
    public async Task<RequestCount?> CountAsync(TimeSpan patience, CancellationToken ct) =>
        await TryTellAsync("count", patience, ct) is { } answer ? RequestCount.Read(answer) : null;

    /// <summary>The same without what the daemon has asked for; null also where it asks just now.</summary>
    public async Task<RequestCount?> VisitsAsync(TimeSpan patience, CancellationToken ct)
    {
        long answered = Volatile.Read(ref _answered);
        bool isQuiet = Volatile.Read(ref _asking) == 0;
        var count = await CountAsync(patience, ct);
        isQuiet = isQuiet && Volatile.Read(ref _asking) == 0 && Volatile.Read(ref _answered) == answered;
        return isQuiet && count is { } its ? its with { Requests = its.Requests - answered } : null;
    }

    /// <summary>What it serves, and how fast; null where it does not say so in time. It measures as long as it is asked at least every few seconds.</summary>
    public async Task<Measured?> MeasureAsync(TimeSpan patience, CancellationToken ct) =>
        await TryTellAsync("measure", patience, ct) is { } answer ? Measured.Read(answer) : null;

    private async Task<string?> TryTellAsync(string what, TimeSpan patience, CancellationToken ct)
    {
        try
        {
            return await TellAsync(what, patience, ct);
        }
        catch (InstanceException)
        {
            return null;
        }
    }

    // What is answered behind "ok".
    private async Task<string> TellAsync(string what, TimeSpan patience, CancellationToken ct)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct, _ended.Token);
        limit.CancelAfter(patience);
        try
        {
            using var stream = await PrivateSocket.ConnectAsync(_channel.Address.Path!, limit.Token, EndForDescriptors);
            await stream.WriteAsync(Encoding.ASCII.GetBytes(what + "\n"), limit.Token);
            using var reader = new StreamReader(stream);
            string? answer = await new LineReader(reader, LineMax).ReadAsync(limit.Token);
            return answer is ['o', 'k', .. var rest] ? rest.Trim() : throw new InstanceException(answer?.TrimStart('!', ' ') ?? "The process has not answered.");
        }
        catch (Exception error) when (error is IOException or SocketException)
        {
            throw new InstanceException($"The process cannot be told to {what}: {error.Message}");
        }
        catch (OperationCanceledException) when (_ended.IsCancellationRequested && !ct.IsCancellationRequested)
        {
            throw new InstanceException($"The process {await Exited} when it was told to {what}.");
        }
        catch (OperationCanceledException) when (!ct.IsCancellationRequested)
        {
            throw new InstanceException(string.Create(CultureInfo.InvariantCulture, $"Process {ProcessId} was told to {what}, and has not answered within {patience.TotalSeconds:0.#} s."));
        }
    }

    private (Process Process, AnonymousPipeServerStream Report) Launch() => ProcessStart.With(() =>
    {
        using var sockets = _start.Listeners.CopyForProcess();
        var report = new AnonymousPipeServerStream(PipeDirection.In, HandleInheritability.Inheritable);
        int[] inherited = [.. sockets.Descriptors, _private.Descriptor, _channel.Descriptor, .. _start.Shared is { } shared ? [shared.Descriptor] : Array.Empty<int>()];
        try
        {
            Array.ForEach(inherited, static descriptor => _ = SystemCalls.Fcntl(descriptor, SystemCalls.F_SETFD, 0));
            var info = Describe(report.GetClientHandleAsString(), sockets);
            return (_group is null ? Process.Start(info)! : _group.Start(() => Process.Start(info)!), report);
        }
        catch
        {
            report.Dispose();
            throw;
        }
        finally
        {
            Array.ForEach(inherited, static descriptor => _ = SystemCalls.Fcntl(descriptor, SystemCalls.F_SETFD, SystemCalls.FD_CLOEXEC));
            report.DisposeLocalCopyOfClientHandle();
        }
    });

    private ProcessStartInfo Describe(string report, InheritedSockets sockets)
    {
        var settings = _start.Settings;
        string own = string.Create(CultureInfo.InvariantCulture, $"http://fd:{_private.Descriptor}?gate=off");      // who asks how it is waits behind no visitor
        var app = _start.App with { WorkingDirectory = _start.App.Folder ?? settings.WorkingDirectory ?? _start.App.WorkingDirectory };
        var info = AppProcess.Describe(new AppStart(app, [own], AreChosen: false, EnvironmentName: null, settings.Arguments), report);
        Array.ForEach(DaemonsOwn, name => info.Environment.Remove(name));
        info.Environment["MILLRACE_SERVE_FOLDER"] = info.WorkingDirectory;      // it enters that by itself: the start waits for no file system of an application's
        info.WorkingDirectory = "/";
        if (app.Executable is not null && !settings.Snapshot)
        {
            _isDeferred = ProcessStart.Defer(info);
        }
        info.Environment["MILLRACE_SERVE_DAEMON"] = Environment.ProcessId.ToString(CultureInfo.InvariantCulture);
        info.Environment["MILLRACE_SERVE_ENDS"] = _start.EndsWithParent ? "with it" : "";
        info.Environment["MILLRACE_SERVE_CHANNEL"] = _channel.Descriptor.ToString(CultureInfo.InvariantCulture);
        info.Environment["MILLRACE_SERVE_URLS"] = sockets.Urls;
        info.Environment["MILLRACE_SERVE_MOVE"] = sockets.Move;
        info.Environment["MILLRACE_SERVE_BASE"] = settings.PathBase;
        info.Environment[RouteKey.AppVariable] = settings.SharedUrls.Count > 0 ? RouteKey.OfDaemon.Of(settings.Name) : "";
        info.Environment["MILLRACE_SERVE_LIMITS"] = string.Create(CultureInfo.InvariantCulture, $"{Limits.Descriptors},{(Limits.KeepsMemory ? "memory" : "")}");
        info.Environment["MILLRACE_SERVE_SHOWN"] = string.Join(';', _start.Listeners.Shown);
        info.Environment["Millrace__DrainTimeout"] = settings.DrainTimeout.ToString("c", CultureInfo.InvariantCulture);
        info.Environment["DOTNET_SHUTDOWNTIMEOUTSECONDS"] = ((int)Math.Ceiling(settings.DrainTimeout.TotalSeconds) + 1).ToString(CultureInfo.InvariantCulture);
        var other = OtherUser.Find(settings.User);
        other?.Describe(info.Environment);
        foreach (var (name, value) in settings.Environment)
        {
            info.Environment[name] = name == "DOTNET_STARTUP_HOOKS" ? $"{info.Environment[name]!.Split(':')[0]}:{value}" : value;     // behind the daemon's own
        }
        if (_start.Shared is { } shared)
        {
            info.Environment[RouteJson.FolderVariable] = SystemCalls.PathOf(shared.Descriptor);
            info.Environment[RouteKey.Variable] = RouteKey.OfDaemon.Secret;
        }
        DescribePool(info);
        if (settings.IsOfCommand && other is not null)
        {
            LaterUser.Describe(info.Environment, other.Rights);
        }
        else if (other is not null)
        {
            _isDeferred |= ProcessStart.BecomeUser(info, other) && app.Executable is not null;
        }
        else
        {
            info.UserName = settings.User ?? "";
        }
        if (!settings.IsOfCommand)      // the command's own do so by themselves
        {
            _isDeferred |= ProcessStart.LeaveSession(info) && app.Executable is not null;
        }
        info.RedirectStandardOutput = true;
        info.RedirectStandardError = true;
        info.RedirectStandardInput = true;
        return info;
    }
}
