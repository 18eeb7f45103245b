// The daemon behind `millrace serve`: its applications, and the file that says which there are. A file that is changed is applied as a whole or
// not at all, and an application whose settings have not changed is not touched.

using System.Collections.Concurrent;
using System.Globalization;
using System.Reflection;
using Millrace.Command.Terminals;
using Millrace.Listeners;

namespace Millrace.Command.Serving;

internal sealed partial class Daemon : IAsyncDisposable
{
    private const string Stopping = "The daemon stops.";

    /// <summary>In which a router that ends has passed on what it had taken. Longer an application is not kept from its end, by which visitors of streams are told that there is one.</summary>
    public static readonly TimeSpan RoutersAhead = TimeSpan.FromSeconds(5);

    private readonly CommandConsole _console;
    private readonly DaemonFolders _folders;
    private readonly SemaphoreSlim _one = new(0);       // one reload at a time, and none before the start
    private readonly CancellationTokenSource _ending = new();
    private readonly TaskCompletionSource _killed = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly DateTimeOffset _since = DateTimeOffset.UtcNow;
    private readonly PatientLook _look = new();
    private readonly int _upgrades;
    private readonly ConcurrentDictionary<HostedApp, Task> _leaving = new();       // those that the file has no more: their addresses are closed, and what is in progress goes on
    private volatile IReadOnlyList<HostedApp> _apps = [];
    private ServeFile _file;

    /// <param name="file">What to serve.</param>
    /// <param name="console">Where its output goes, and that of the applications.</param>
    public Daemon(ServeFile file, CommandConsole console)
    {
        _file = file;
        _console = console;
        _folders = new DaemonFolders(file.Places);
    }

    public static string Version { get; } = typeof(Daemon).Assembly.GetCustomAttribute<AssemblyInformationalVersionAttribute>()!.InformationalVersion.Split('+')[0];

    /// <summary>What is kept of its sockets while there is no daemon.</summary>
    public StoredSockets Stored
    {
        set => _folders.Stored = value;
    }

    /// <summary>What it serves.</summary>
    public ServeFile File => _file;

    public DaemonStatus Status => new(Environment.ProcessId, Version, _file.Path, _since, _upgrades, UpgradeFailure, [.. _apps.Select(static app => app.Status)]);

    /// <summary>Why the last upgrade has not come about, or null.</summary>
    public string? UpgradeFailure { get; set; }

    /// <summary>How many of its applications serve, for a sentence.</summary>
    public string Summary => string.Create(CultureInfo.InvariantCulture, $"{_apps.Count(static app => !app.Settings.IsRouter && app.State is AppState.Serving or AppState.Deploying or AppState.Idle)} of {_file.CountText} serve");

    /// <summary>Somebody wants to know what the applications have to do.</summary>
    public void WantTraffic()
    {
        foreach (var app in _apps.Where(static app => app.State is AppState.Serving or AppState.Deploying))
        {
            app.Traffic.Want();
        }
    }

    /// <summary>Where the control socket lies is there.</summary>
    /// <exception cref="CommandFailure">It cannot be made.</exception>
    public void MakeFolder() => _ = _folders.Sockets;

    /// <summary>Those of its applications that are pools.</summary>
    public IEnumerable<HostedApp> Pools => _apps.Where(static app => app.Settings.Pool is not null);

    public HostedApp? Find(string name) => _apps.FirstOrDefault(app => app.Settings.Name == name);

    /// <summary>Starts all applications at the same time, or has those go on that were there before. One that does not start keeps no other from it.</summary>
    public async Task StartAsync()
    {
        _ = Task.Run(FindLostAsync);
        if (_apps.Count > 0)
        {
            await Task.WhenAll(_apps.Select(static app => app.GoOnServingAsync()));
            Note();
            _one.Release();
            if (_wanted is not null)
            {
                _console.Steady.Say((await ReloadAsync()).Message);      // it may say something else than what the daemon before this one was told
                _folders.Stored.CloseRest();
                Array.ForEach([.. _apps], static app => app.KeepAddresses());        // processes have given what is stored under the same names
            }
            return;
        }
        _apps = [.. _file.Apps.Select(settings => new HostedApp(settings, _folders, AppVoice.Among(settings.Name, _console.Steady), Note))];
        var deploys = _apps.Select(static app => Task.Run(() => app.BeginAsync())).ToArray();     // to look at its files may take its time
        _one.Release();
        await Task.WhenAll(deploys);
        _folders.Stored.CloseRest();
    }

    /// <summary>Reads the file again.</summary>
    public async Task<ControlAnswer> ReloadAsync()
    {
        var givenUp = await GiveUpWhatIsOtherwiseAsync();
        await _one.WaitAsync();
        var before = _file;
        try
        {
            if (_ending.IsCancellationRequested)
            {
                return new ControlAnswer(false, Stopping);
            }
            var (file, mistakes) = await ReadAsync();
            return file is null ? new ControlAnswer(false, mistakes) : await ApplyAsync(file);
        }
        catch (StandstillException error)
        {
            return new ControlAnswer(false, error.Message);
        }
        finally
        {
            Array.ForEach(_file == before ? givenUp : [], static its => _ = Task.Run(() => its.App.BeginGivenUpAsync(its.Deployment)));     // nothing has changed, for them neither
            _one.Release();
        }
    }

    // A start that hangs keeps its application, and a reload that is under way. It is not waited for where the file has been mended since.
    // The answer is what was on its way.
    private async Task<(HostedApp App, int Deployment)[]> GiveUpWhatIsOtherwiseAsync()
    {
        try
        {
            if ((await ReadAsync()).File is { } file)
            {
                HostedApp[] otherwise = [.. _apps.Where(app => !file.Apps.Any(settings => settings.Name == app.Settings.Name && settings.IsSame(app.Settings)))];
                return [.. otherwise.Zip(await Task.WhenAll(otherwise.Select(static app => app.GiveUpAsync()))).Where(static its => its.Second > 0)];
            }
        }
        catch (StandstillException)
        {
            // It is read once more.
        }
        return [];
    }

    private async Task<(ServeFile? File, string Mistakes)> ReadAsync()
    {
        string mistakes = "";
        return (await _look.AtAsync(_file.Path, () => ServeFileSource.TryRead(_file.Path, _file.Places, out mistakes), CancellationToken.None), mistakes);
    }

    /// <summary>Ends all processes at once.</summary>
    public void Kill()
    {
        _killed.TrySetResult();     // what ends behind something else does so now: none is to be put in the place of another
        foreach (var app in _apps.Concat(_leaving.Keys))
        {
            app.Kill();
        }
    }

    public async ValueTask DisposeAsync()
    {
        _states?.Keep();
        await _ending.CancelAsync();
        Interlocked.MemoryBarrier();        // a reload that is under way shows its applications here, or sees there that it is over
        var apps = _apps;
        var routers = Task.WhenAll([.. apps.Where(static app => app.Settings.IsRouter).Select(EndAsync), .. LeavingRouters]);
        var ahead = Task.WhenAny(routers, Task.Delay(RoutersAhead));
        await Task.WhenAll([routers, .. apps.Where(static app => !app.Settings.IsRouter).Select(app => app.Settings.SharedUrls.Count > 0 ? EndBehindAsync(ahead, app, EndAsync) : EndAsync(app))]);
        await Task.WhenAll(_leaving.Values);
        _states?.End();
        _folders.Dispose();
    }

    private IEnumerable<Task> LeavingRouters => _leaving.Where(static pair => pair.Key.Settings.IsRouter).Select(static pair => pair.Value);

    private Task EndAsync(HostedApp app) => _folders.Stored.IsKept ? app.EndForNextAsync() : app.DisposeAsync().AsTask();

    // What a router still has is for the application to answer: where that had ended nobody would, or, where its sockets are kept for the next daemon, nobody until then.
    private async Task EndBehindAsync(Task routers, HostedApp app, Func<HostedApp, Task> end)
    {
        await Task.WhenAny(routers, _killed.Task);
        await end(app);
    }

    private async Task<ControlAnswer> ApplyAsync(ServeFile file)
    {
        if (file.Places != _file.Places)
        {
            var (name, now, then) = file.Places.Control != _file.Places.Control
                ? ("control", file.Places.Control, _file.Places.Control)
                : ("snapshots", file.Places.Snapshots, _file.Places.Snapshots);
            return new ControlAnswer(false, $"\"{name}\" is {now} now, and the daemon keeps to {then} as long as it runs. Start it again, or put the old one back.");
        }
        var before = _apps;
        var gone = before.Where(app => file.Apps.All(settings => settings.Name != app.Settings.Name)).ToArray();
        var moved = before.Where(app => file.Apps.Any(settings => settings.Name == app.Settings.Name && Moves(app.Settings, settings))).ToArray();
        ListenAddress[] freed = [.. gone.Concat(moved).Concat(_leaving.Keys).SelectMany(static app => app.Settings.Urls).Select(ListenAddress.Parse)];
        AppSettings[] elsewhere = [.. file.Apps.Where(settings => before.All(app => app.Settings.Name != settings.Name) || moved.Any(app => app.Settings.Name == settings.Name))];
        (string Whose, ListenAddress Address)[] all = elsewhere.Length == 0 ? [] : [.. file.Apps.SelectMany(static settings => settings.Urls.Select(url => (settings.Name, ListenAddress.Parse(url))))];
        foreach (var settings in elsewhere)
        {
            if (await WhyNotListenAsync(moved.FirstOrDefault(app => app.Settings.Name == settings.Name)?.Addresses ?? new PatientLook(), settings, all, freed) is { } mistake)
            {
                return new ControlAnswer(false, mistake);
            }
        }

        // Addresses may go from one to another, and a name to the next one that has it. What only routers lead to is nobody else's, and is led to until they know better.
        var routed = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        try
        {
            var hidden = gone.Where(static app => app.Settings.SharedUrls.Count == app.Settings.Urls.Count).ToArray();
            await Task.WhenAll(gone.Except(hidden).Select(app => LeaveAsync(app, app.DisposeAsync().AsTask())));
            await Task.WhenAll(_leaving.Where(pair => file.Apps.Any(settings => settings.Name == pair.Key.Settings.Name)).Select(static pair => pair.Value));
            await Task.WhenAll(moved.Select(static app => app.StopAsync()));
            var led = Task.WhenAll([routed.Task, .. LeavingRouters]);
            Array.ForEach(hidden, app => _ = LeaveAsync(app, EndBehindAsync(led, app, static its => its.DisposeAsync().AsTask())));
            HostedApp[] apps = [.. file.Apps.Select(settings => before.FirstOrDefault(app => app.Settings.Name == settings.Name) ?? new HostedApp(settings, _folders, AppVoice.Among(settings.Name, _console.Steady), Note))];
            (_file, _apps) = (file, apps);
            Interlocked.MemoryBarrier();
            if (_ending.IsCancellationRequested)
            {
                return new ControlAnswer(false, Stopping);
            }
            var changed = apps.Zip(file.Apps).ToLookup(pair => !before.Contains(pair.First) || moved.Contains(pair.First) || !pair.First.Is(pair.Second));
            Array.ForEach([.. changed[false]], static pair => pair.First.Keep(pair.Second));
            var deploys = changed[true].Select(static pair => (pair.Second.IsRouter, Task: DeployAsync(pair.First, pair.Second))).ToArray();
            await Task.WhenAll(deploys.Where(static deploy => deploy.IsRouter).Select(static deploy => deploy.Task));
            routed.TrySetResult();
            var failed = (await Task.WhenAll(deploys.Select(static deploy => deploy.Task))).Where(static deploy => deploy.Error is not null).ToArray();
            return failed.Length == 0
                ? new ControlAnswer(true, $"{file.Path}: {deploys.Length} of {apps.Length} applications deployed, {gone.Length} taken away")
                : new ControlAnswer(false, string.Join('\n', failed.Select(static deploy => $"{deploy.Name}: {deploy.Error}")));
        }
        finally
        {
            routed.TrySetResult();
        }
    }

    // What it has in progress may take its time, and is nobody else's matter.
    private Task<Task> LeaveAsync(HostedApp app, Task end)
    {
        _leaving[app] = end;
        _ = ForgetAsync(app, end);
        return Task.WhenAny(app.AddressesClosed, end);
    }

    private async Task ForgetAsync(HostedApp app, Task end)
    {
        await end;
        _ = _leaving.TryRemove(app, out _);
        Note();
    }

    // Another user's processes get no socket, and no connection, that those of the one before may still have.
    private static bool Moves(AppSettings from, AppSettings to) => !to.Urls.SequenceEqual(from.Urls) || to.User != from.User;

    // What cannot be listened on is known before anything has ended for it. What an application has that ends for it can, whatever is spoken there and however it is written.
    private async Task<string?> WhyNotListenAsync(PatientLook look, AppSettings settings, (string Whose, ListenAddress Address)[] all, ListenAddress[] freed)
    {
        foreach (var (_, address) in all.Where(one => one.Whose == settings.Name))
        {
            if (Array.Find(all, other => other.Address != address && BoundPlace.IsTaken(address, other.Address)) is { Address: { } taken } other)
            {
                return $"{settings.Name}: {address.Url} cannot be listened on beside {taken.Url}, which is {other.Whose}'s. Choose another port.";
            }
        }
        try
        {
            var opened = await AppListeners.OpenAsync(settings, _folders, look, url => !Array.Exists(freed, before => BoundPlace.IsOne(ListenAddress.Parse(url), before)), _ending.Token);
            await opened.CloseAsync(look);
            return null;
        }
        catch (Exception error) when (error is MillraceStartException or CommandFailure or StandstillException or OperationCanceledException)
        {
            return error is OperationCanceledException ? Stopping : $"{settings.Name}: {Sentence.Of(error.Message)}";
        }
    }

    private static async Task<(string Name, string? Error)> DeployAsync(HostedApp app, AppSettings settings) => (settings.Name, await Task.Run(() => app.BeginAsync(settings)));
}
