// One of the places of a generation: a process, and whichever is put in its place. One that crashes or hangs is replaced when it has gone, sooner at first and
// later when it goes on; one that has used up what it may is replaced while it serves, and gives its connections to the others.

using System.Globalization;

namespace Millrace.Command.Serving;

/// <param name="Settings">Those of the application.</param>
/// <param name="Start">Starts a process.</param>
/// <param name="Happened">Is told what happens, a sentence each.</param>
/// <param name="IsGivenUp">Is told how a process has ended, and how far it had come; true: no other is to be put in its place.</param>
/// <param name="Changed">Is called before another process is told to accept, and when it does and before anything ends for that.</param>
/// <param name="Gate">Closed while the daemon is about to become another program.</param>
internal sealed record SlotSetting(AppSettings Settings, Func<CancellationToken, Task<AppInstance>> Start, Action<string> Happened, Func<string, ComeTo, bool> IsGivenUp, Action Changed, UpgradeGate Gate);

/// <summary>How far a process had come.</summary>
internal enum ComeTo
{
    /// <summary>There was none.</summary>
    Nothing,

    /// <summary>It was not ready before it ended, or its time was over.</summary>
    Start,

    /// <summary>It accepted.</summary>
    Service,
}

internal sealed partial class Slot : IDisposable
{
    private static readonly TimeSpan s_answerPatience = TimeSpan.FromSeconds(5);
    private static readonly TimeSpan s_killPatience = TimeSpan.FromSeconds(5);
    private static readonly TimeSpan s_endPatience = TimeSpan.FromSeconds(10);
    private static readonly TimeSpan s_restartPauseMax = TimeSpan.FromSeconds(30);

    private readonly SlotSetting _its;
    private readonly InstanceHealth _health;
    private readonly InstanceUse _use;
    private readonly CancellationTokenSource _ending = new();
    private readonly Lock _lock = new();
    private readonly List<AppInstance> _others = [];     // one that is on its way, and those that are leaving
    private readonly List<Task> _leaving = [];
    private readonly TaskCompletionSource _left = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private CancellationTokenSource _pausing = new();
    private AppInstance? _current;
    private bool _isEmpty;      // its process has ended, which has been said, and another one is to be put in its place
    private Task _watching = Task.CompletedTask;

    public Slot(SlotSetting its)
    {
        _its = its;
        _health = new InstanceHealth(its.Settings);
        _use = new InstanceUse(its.Settings);
    }

    /// <summary>The process that serves, or is to; null before it has been started.</summary>
    public AppInstance? Current
    {
        get
        {
            lock (_lock)
            {
                return _current;
            }
        }
    }

    /// <summary>Processes that have been put in the place of one that crashed or hung.</summary>
    public int Restarts { get; private set; }

    /// <summary>Processes that have been put in the place of one that was well.</summary>
    public int Recycles { get; private set; }

    /// <summary>Starts its process, and waits until that is healthy and warm.</summary>
    /// <exception cref="InstanceException">It is not.</exception>
    public async Task<AppInstance> StartAsync(CancellationToken ct)
    {
        var instance = await _its.Start(ct);
        AppInstance? before;
        lock (_lock)
        {
            (before, _current) = (_current, instance);
        }
        before?.Dispose();
        await _health.WaitUntilReadyAsync(instance, ct);
        return instance;
    }

    /// <summary>Waits while it stays well.</summary>
    /// <exception cref="InstanceException">It has not.</exception>
    public Task SettleAsync(CancellationToken ct) => _health.SettleAsync(Current!, ct);

    /// <summary>Has it accept.</summary>
    /// <exception cref="InstanceException">It cannot, or has ended meanwhile.</exception>
    public Task ListenAsync(CancellationToken ct) => Current!.ListenAsync(ct);

    /// <summary>From now on a process that ends is replaced.</summary>
    public void Watch() => _watching = Task.Run(WatchAllAsync);

    /// <summary>Ends, in a <see cref="DrainAsync"/> with successors, when whoever connects is theirs, or its process does not answer.</summary>
    public Task Left => _left.Task;

    /// <summary>Ends it: what it serves is answered first, for as long as the application's drain time says.</summary>
    /// <param name="hasSuccessor">Whether others serve that take connections over.</param>
    public async Task DrainAsync(bool hasSuccessor)
    {
        await _ending.CancelAsync();
        await _watching;
        AppInstance? instance;
        lock (_lock)
        {
            (instance, _current) = (_current, null);
            _others.AddRange(instance is null ? [] : [instance]);
        }
        if (instance is not null)
        {
            await TryMoveAsync(instance, hasSuccessor);
        }
        _left.TrySetResult();
        await Task.WhenAll([instance is null ? Task.CompletedTask : EndAsync(instance, hasSuccessor), .. _leaving]);
    }

    public void Kill()
    {
        foreach (var instance in All())
        {
            instance.Kill();
        }
    }

    public void Dispose()
    {
        _ending.Cancel();
        foreach (var instance in All())
        {
            instance.Dispose();
        }
        _ending.Dispose();
    }

    /// <summary>The one that serves, one that is on its way, and those that are leaving.</summary>
    public AppInstance[] All()
    {
        lock (_lock)
        {
            return _current is { } current ? [current, .. _others] : [.. _others];
        }
    }

    private async Task WatchAllAsync()
    {
        using var over = CancellationTokenSource.CreateLinkedTokenSource(_ending.Token, _pausing.Token);
        var instance = _isEmpty || Current is null ? await ReplaceAsync(over.Token) : Current;
        while (instance is not null && await WatchAsync(instance, over.Token) is { } end)
        {
            if (end.IsSpent)
            {
                instance = await RecycleAsync(instance, end.How, over.Token);
                continue;
            }
            _its.Happened($"process {instance.ProcessId} {end.How}");
            instance = _its.IsGivenUp(end.How, ComeTo.Service) ? null : await ReplaceAsync(over.Token);
        }
    }

    // How it has ended, or why it is to be replaced; null when nobody wants to know any more.
    private async Task<(string How, bool IsSpent)?> WatchAsync(AppInstance instance, CancellationToken ct)
    {
        using var over = CancellationTokenSource.CreateLinkedTokenSource(ct);
        var hung = _health.HasHungAsync(instance, over.Token);
        var spent = _use.IsSpentAsync(instance, over.Token);
        var first = await Task.WhenAny(instance.Exited, hung, spent);
        await over.CancelAsync();
        if (ct.IsCancellationRequested)
        {
            return null;
        }
        if (first == hung && !instance.Exited.IsCompleted)
        {
            await instance.PrintStacksAsync();
            instance.Kill();
            await WaitForEndAsync(instance);
            return (string.Create(CultureInfo.InvariantCulture, $"was killed: {_its.Settings.Health} was without a right answer for {_its.Settings.HangTimeout.TotalSeconds:0.#} s"), false);
        }
        return first == spent && await spent is { } why && !instance.Exited.IsCompleted ? (why, true) : (await instance.Exited, false);
    }

    // One that has been told may have begun to accept before it answers, so that whoever pauses, or has others in the place of all of them, waits for the answer; not for that of one that gives none.
    private async Task ListenAsync(AppInstance next, CancellationToken ct)
    {
        using var over = new CancellationTokenSource();
        await using var waiting = ct.UnsafeRegister(static its => ((CancellationTokenSource)its!).CancelAfter(s_answerPatience), over);
        await next.ListenAsync(over.Token);
    }

    // The fresh one, or the old one where there can be none for the time being.
    private async Task<AppInstance> RecycleAsync(AppInstance old, string why, CancellationToken ct)
    {
        AppInstance? next = null;
        try
        {
            next = await _its.Start(ct);
            lock (_lock)
            {
                _others.Add(next);
            }
            await _health.WaitUntilReadyAsync(next, ct);
            await _health.SettleAsync(next, ct);
            _its.Changed();
            await ListenAsync(next, ct);
        }
        catch (Exception error)     // whatever it is: the old one serves
        {
            next?.Dispose();
            lock (_lock)
            {
                _others.RemoveAll(other => other == next);
            }
            if (!ct.IsCancellationRequested)
            {
                _its.Happened($"process {old.ProcessId} was to be replaced ({why}), and goes on: {error.Message}");
                await Task.WhenAny(old.Exited, Task.Delay(s_restartPauseMax, ct));
            }
            return old;
        }
        _its.Happened($"process {next.ProcessId} serves in the place of {old.ProcessId}: {why}");       // before it is seen: who looks then finds why
        lock (_lock)
        {
            _others.Remove(next);
            _others.Add(old);
            _current = next;
            Recycles++;
        }
        _its.Changed();
        _leaving.RemoveAll(static task => task.IsCompleted);
        _leaving.Add(LeaveAsync(old, hasSuccessor: true));
        return next;
    }

    private async Task LeaveAsync(AppInstance instance, bool hasSuccessor)
    {
        await TryMoveAsync(instance, hasSuccessor);
        await EndAsync(instance, hasSuccessor);
    }

    private async Task EndAsync(AppInstance instance, bool hasSuccessor)
    {
        instance.Terminate();
        var patience = _its.Settings.DrainTimeout + s_killPatience;
        if (await Task.WhenAny(instance.Exited, Task.Delay(patience)) != instance.Exited)
        {
            await instance.PrintStacksAsync();
            _its.Happened($"process {instance.ProcessId} was killed: it had not ended {patience.TotalSeconds:0.#} s after it was told to");
            instance.Kill();
            await WaitForEndAsync(instance);
        }
        if (hasSuccessor)
        {
            await instance.Listeners.PassOnAsync();      // it may have crashed over what it alone had been told of
        }
        while (!TryLetGo(instance))
        {
            await _its.Gate.WhenOpen;
        }
        instance.Dispose();
    }

    // One that waits for a file system, or a device, ends when that has answered: nobody waits for it so long.
    private async Task WaitForEndAsync(AppInstance instance)
    {
        if (await Task.WhenAny(instance.Exited, Task.Delay(s_endPatience)) != instance.Exited)
        {
            _its.Happened(string.Create(CultureInfo.InvariantCulture, $"process {instance.ProcessId} has been killed, and is still there: a file system or a device keeps it. It is left alone, and ends when that answers"));
        }
    }

    // What has been written down for another program stays open for it.
    private bool TryLetGo(AppInstance instance)
    {
        lock (_lock)
        {
            return _its.Gate.IsOpen && (_others.Remove(instance) || true);
        }
    }

    // One that cannot is drained without it: its connections are closed as they become idle.
    private async Task TryMoveAsync(AppInstance instance, bool hasSuccessor)
    {
        if (!hasSuccessor)
        {
            return;
        }
        try
        {
            await instance.MoveAsync();
        }
        catch (InstanceException) when (instance.Exited.IsCompleted)
        {
            // There is nothing left that it could give.
        }
        catch (InstanceException error)
        {
            _its.Happened($"process {instance.ProcessId} did not give its connections to those that go on: {error.Message}");
        }
    }

    // Null when the generation ends, or is given up.
    private async Task<AppInstance?> ReplaceAsync(CancellationToken ct)
    {
        _isEmpty = true;
        for (int attempt = 0; !ct.IsCancellationRequested; attempt++)
        {
            var before = Current;
            try
            {
                if (attempt > 0)
                {
                    await Task.Delay(Pause(attempt), ct);
                }
                var next = await StartAsync(ct);
                _its.Changed();
                await ListenAsync(next, ct);
                _its.Happened($"process {next.ProcessId} serves in its place");
                _isEmpty = false;
                Restarts++;
                _its.Changed();
                return next;
            }
            catch (Exception error) when (error is not OperationCanceledException)      // whatever it is: a place that nobody watches is never filled again
            {
                _its.Happened($"no process could be put in its place: {error.Message}");
                Current?.Kill();
                if (_its.IsGivenUp($"did not start: {error.Message}", Current == before ? ComeTo.Nothing : ComeTo.Start))
                {
                    return null;
                }
            }
            catch (OperationCanceledException)
            {
                return null;
            }
        }
        return null;
    }

    // 1, 2, 4 s ..., and up to a quarter more or less: what has crashed together does not start together.
    private static TimeSpan Pause(int attempt) =>
        TimeSpan.FromMilliseconds(Math.Min(s_restartPauseMax.TotalMilliseconds, 1_000 * Math.Pow(2, attempt - 1)) * (0.75 + (Random.Shared.NextDouble() / 2)));
}
