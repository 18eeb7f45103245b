// One state of an application's files and settings, and the processes that run it. It is started beside the one before it, is asked for its
// health and warmed up while nobody else can reach it, accepts when all its processes are ready, and is drained when the next one accepts. What
// becomes of a process that crashes, hangs or has served long enough is the matter of its place (Slot).
//
//   Starting ---> Ready ---> Serving ---> Draining ---> Ended
//       \___________\___________\____________________/

using System.Globalization;
using Millrace.Command.Running;

namespace Millrace.Command.Serving;

/// <param name="Number">Counted from 1.</param>
/// <param name="Settings">Those of the application.</param>
/// <param name="App">What it runs.</param>
/// <param name="Code">What its processes run from; goes with it. Null: the files themselves.</param>
/// <param name="Describe">What to start for a process, by its id.</param>
/// <param name="OpenAgain">Is called before a process is started: has it find its addresses open.</param>
/// <param name="Happened">Is told what happens, a sentence each.</param>
/// <param name="Changed">Is called before another process is told to accept, and when it does and before anything ends for that.</param>
/// <param name="Gate">Closed while the daemon is about to become another program.</param>
internal sealed record GenerationSetting(
    int Number, AppSettings Settings, RunnableApp App, CodeSnapshot? Code, Func<string, InstanceStart> Describe, Func<CancellationToken, Task> OpenAgain, Action<string> Happened, Action Changed, UpgradeGate Gate);

internal sealed partial class Generation : IDisposable
{
    private const int CrashesMax = 5;
    private static readonly TimeSpan s_crashWindow = TimeSpan.FromSeconds(60);
    private static readonly TimeSpan s_countPatience = TimeSpan.FromSeconds(1);

    private readonly GenerationSetting _its;
    private readonly AppSettings _settings;
    private readonly CancellationTokenSource _ending = new();
    private readonly List<Slot> _slots = [];
    private readonly List<Slot> _others = [];       // on their way, or leaving
    private readonly List<Task> _leaving = [];
    private readonly List<long> _crashes = [];      // when, in ms
    private readonly Lock _lock = new();
    private readonly TaskCompletionSource<(string Reason, bool IsOfApp)> _failed = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _started;
    private (int Restarts, int Recycles) _gone;     // of places that are no more

    /// <param name="its">What it is.</param>
    /// <param name="instances">How many processes it begins with.</param>
    public Generation(GenerationSetting its, int instances)
    {
        _its = its;
        _settings = its.Settings;
        _slots.AddRange(Enumerable.Range(0, instances).Select(_ => NewSlot()));
    }

    public int Number => _its.Number;

    public AppSettings Settings => _settings;

    /// <summary>Ends with the reason when it is given up: its processes crash again and again, or there can be none for a reason that is not the application's.</summary>
    public Task<(string Reason, bool IsOfApp)> Failed => _failed.Task;

    /// <summary>Processes that have been started in the place of another that crashed or hung.</summary>
    public int Restarts => _gone.Restarts + Slots.Sum(static slot => slot.Restarts);

    /// <summary>The same for those that were well.</summary>
    public int Recycles => _gone.Recycles + Slots.Sum(static slot => slot.Recycles);

    /// <summary>One for each of its places.</summary>
    public IReadOnlyList<AppInstance> Instances => [.. Slots.Select(static slot => slot.Current).OfType<AppInstance>()];

    /// <summary>Its processes beside those that serve: ending what they have begun, or about to take the place of one.</summary>
    public IReadOnlyList<AppInstance> Others => [.. Processes.Except(Instances)];

    /// <summary>All of them.</summary>
    public IReadOnlyList<AppInstance> Processes => [.. All.SelectMany(static slot => slot.All())];

    /// <summary>Which way led from routers to applications before its processes were started (<see cref="HostedApp"/>).</summary>
    public int Way { get; set; }

    /// <summary>Its processes may have been told to accept.</summary>
    public bool MayServe { get; set; }

    /// <summary>What keeps its processes to their limits, as they run now; empty where they have none.</summary>
    public string Limits => string.Join(" | ", Instances.Select(static instance => instance.Limits.ToString()).Where(static limits => limits.Length > 0).Distinct());

    /// <summary>What visitors have asked of its processes, or that one of them does not say.</summary>
    public async Task<(bool IsUnknown, RequestCount Count)> VisitsAsync(CancellationToken ct)
    {
        var counts = await Task.WhenAll(Instances.Select(instance => instance.VisitsAsync(s_countPatience, ct)));
        return (counts.Any(static count => count is null), new RequestCount(counts.Sum(static count => count?.Requests ?? 0), counts.Sum(static count => count?.Running ?? 0)));
    }

    private Slot[] All
    {
        get
        {
            lock (_lock)
            {
                return [.. _slots, .. _others];
            }
        }
    }

    private Slot[] Slots
    {
        get
        {
            lock (_lock)
            {
                return [.. _slots];
            }
        }
    }

    /// <summary>Starts all processes, and waits until they are healthy and warm.</summary>
    /// <param name="settles">Whether they must stay so for a while: another generation serves meanwhile.</param>
    /// <param name="ct">Gives it up.</param>
    /// <exception cref="InstanceException">One of them is not. All of them have been ended then.</exception>
    public async Task StartAsync(bool settles, CancellationToken ct)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct, _ending.Token);
        try
        {
            await Task.WhenAll(Slots.Select(slot => slot.StartAsync(limit.Token)));
            await Task.WhenAll(settles ? Slots.Select(slot => slot.SettleAsync(limit.Token)) : []);
        }
        catch (Exception error) when (error is InstanceException or OperationCanceledException)
        {
            await limit.CancelAsync();
            KillAll();
            throw;
        }
    }

    /// <summary>Has all processes accept; from now on those that end are replaced.</summary>
    /// <exception cref="InstanceException">One of them cannot accept, or has ended meanwhile.</exception>
    public async Task ListenAsync(CancellationToken ct)
    {
        await Task.WhenAll(Slots.Select(slot => slot.ListenAsync(ct)));      // one that takes its time takes none of the others'
        Array.ForEach(Slots, static slot => slot.Watch());
    }

    /// <summary>Has it run so many processes. Those that are too many give their connections to the others, and what they serve is answered first.</summary>
    /// <param name="count">At least 1.</param>
    /// <param name="ct">Gives it up.</param>
    /// <exception cref="InstanceException">A further one did not come about; all is as it was.</exception>
    public async Task ScaleAsync(int count, CancellationToken ct)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct, _ending.Token);
        Slot[] more = [.. Enumerable.Range(0, Math.Max(0, count - Slots.Length)).Select(_ => NewSlot())];
        lock (_lock)
        {
            _others.AddRange(more);
        }
        bool mayServe = false;
        try
        {
            await Task.WhenAll(more.Select(slot => slot.StartAsync(limit.Token)));
            mayServe = true;
            _its.Changed();
            await Task.WhenAll(more.Select(slot => slot.ListenAsync(limit.Token)));
        }
        catch
        {
            await limit.CancelAsync();
            Array.ForEach(mayServe ? [] : more, static slot => slot.Kill());
            await Task.WhenAll(more.Select(slot => DropAsync(slot, mayServe)));
            throw;
        }
        Slot[] fewer;
        lock (_lock)
        {
            _others.RemoveAll(more.Contains);
            _slots.AddRange(more);
            fewer = [.. _slots.Skip(count)];
            _slots.RemoveRange(count, fewer.Length);
            _others.AddRange(fewer);
        }
        _its.Changed();
        Array.ForEach(more, static slot => slot.Watch());
        _leaving.RemoveAll(static task => task.IsCompleted);
        _leaving.AddRange(fewer.Select(slot => Task.Run(() => DropAsync(slot, mayServe: true))));
    }

    // Where its process may accept already, whom that has it answers.
    private async Task DropAsync(Slot slot, bool mayServe)
    {
        await slot.DrainAsync(hasSuccessor: mayServe);
        slot.Dispose();
        lock (_lock)
        {
            _others.Remove(slot);
            _gone = (_gone.Restarts + slot.Restarts, _gone.Recycles + slot.Recycles);
        }
    }

    /// <summary>Ends, in a <see cref="DrainAsync"/> with a successor, when whoever connects is that one's.</summary>
    public Task Left => Task.WhenAll(Slots.Select(static slot => slot.Left));

    /// <summary>Ends all processes: what they serve is answered first, for as long as the application's drain time says.</summary>
    /// <param name="hasSuccessor">Whether a generation serves that takes connections over.</param>
    public async Task DrainAsync(bool hasSuccessor)
    {
        _hasSuccessor = hasSuccessor;
        await _ending.CancelAsync();
        await Task.WhenAll([.. Slots.Select(slot => slot.DrainAsync(hasSuccessor)), .. _leaving]);
    }

    /// <summary>Ends all processes now.</summary>
    public void KillAll() => Array.ForEach(All, static slot => slot.Kill());

    public void Dispose()
    {
        _ending.Cancel();
        Array.ForEach(All, static slot => slot.Dispose());
        _its.Code?.Dispose();
        _ending.Dispose();
    }

    private Slot NewSlot() => new(SettingOfSlots);

    private SlotSetting SettingOfSlots => new(_settings, StartOneAsync, _its.Happened, IsGivenUp, _its.Changed, _its.Gate);

    private async Task<AppInstance> StartOneAsync(CancellationToken ct)
    {
        try
        {
            await _its.OpenAgain(ct);
        }
        catch (MillraceStartException error)
        {
            throw new InstanceException(error.Message);
        }
        return StartOne();
    }

    private AppInstance StartOne() => AppInstance.Start(_its.Describe(string.Create(CultureInfo.InvariantCulture, $"{_settings.Name}-{Number}-{Interlocked.Increment(ref _started)}")));

    // That none can be put in the place of one (no room, no process number, its folder has gone) is no reason to end those that serve.
    private bool IsGivenUp(string how, ComeTo its)
    {
        if (its != ComeTo.Service && Instances.Any(static instance => instance.ServesSince > 0 && !instance.Exited.IsCompleted))
        {
            return false;
        }
        lock (_lock)
        {
            long now = Environment.TickCount64;
            _crashes.Add(now);
            _crashes.RemoveAll(crash => now - crash > s_crashWindow.TotalMilliseconds);
            if (_crashes.Count < CrashesMax)
            {
                return false;
            }
        }
        _failed.TrySetResult((string.Create(CultureInfo.InvariantCulture, $"{CrashesMax} processes ended within {s_crashWindow.TotalSeconds:0} s, the last {how}"), its != ComeTo.Nothing));
        return true;
    }
}
