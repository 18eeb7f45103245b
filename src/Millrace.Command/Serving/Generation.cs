// One state of an application's files and settings, and the processes that run it. It is started beside the one before it, is asked for its
// health and warmed up while nobody else can reach it, accepts when all its processes are ready, and is drained when the next one accepts. A
// process of it that crashes or hangs is replaced, sooner at first and later when it goes on.
//
//   Starting ---> Ready ---> Serving ---> Draining ---> Ended
//       \___________\___________\____________________/

using System.Globalization;

namespace Millrace.Command.Serving;

internal sealed class Generation : IDisposable
{
    private static readonly TimeSpan s_askAgain = TimeSpan.FromMilliseconds(100);
    private static readonly TimeSpan s_killPatience = TimeSpan.FromSeconds(5);
    private static readonly TimeSpan s_restartPauseMax = TimeSpan.FromSeconds(30);
    private const int CrashesMax = 5;
    private const int WarmUpRoundsMax = 20;
    private static readonly TimeSpan s_crashWindow = TimeSpan.FromSeconds(60);

    private readonly Func<string, InstanceStart> _describe;
    private readonly AppSettings _settings;
    private readonly Action<string> _happened;
    private readonly CodeSnapshot? _code;
    private readonly CancellationTokenSource _ending = new();
    private readonly AppInstance?[] _instances;
    private readonly List<Task> _slots = [];
    private readonly List<DateTimeOffset> _crashes = [];
    private readonly Lock _lock = new();
    private readonly TaskCompletionSource<string> _failed = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _started;

    /// <param name="number">Counted from 1.</param>
    /// <param name="settings">Those of the application.</param>
    /// <param name="describe">What to start for a process, by its id.</param>
    /// <param name="happened">Is told what happens, a sentence each.</param>
    /// <param name="code">What its processes run from; goes with it. Null: the files themselves.</param>
    public Generation(int number, AppSettings settings, Func<string, InstanceStart> describe, Action<string> happened, CodeSnapshot? code)
    {
        Number = number;
        _settings = settings;
        _describe = describe;
        _happened = happened;
        _code = code;
        _instances = new AppInstance?[settings.Instances];
    }

    public int Number { get; }

    public AppSettings Settings => _settings;

    /// <summary>Ends with the reason when its processes crash again and again, and it is given up.</summary>
    public Task<string> Failed => _failed.Task;

    /// <summary>Processes that have been started in the place of another.</summary>
    public int Restarts { get; private set; }

    public IReadOnlyList<AppInstance> Instances
    {
        get
        {
            lock (_lock)
            {
                return [.. _instances.OfType<AppInstance>()];
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
            await Task.WhenAll(Enumerable.Range(0, _instances.Length).Select(slot => StartOneAsync(slot, limit.Token)));
            await Task.WhenAll(settles ? Instances.Select(instance => SettleAsync(instance, limit.Token)) : []);
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
        await Task.WhenAll(Instances.Select(instance => instance.ListenAsync(ct)));      // one that takes its time takes none of the others'
        for (int slot = 0; slot < _instances.Length; slot++)
        {
            int its = slot;
            _slots.Add(Task.Run(() => WatchSlotAsync(its), CancellationToken.None));
        }
    }

    /// <summary>Ends all processes: what they serve is answered first, for as long as the application's drain time says.</summary>
    /// <param name="hasSuccessor">Whether a generation serves that takes connections over.</param>
    public async Task DrainAsync(bool hasSuccessor)
    {
        await _ending.CancelAsync();
        await Task.WhenAll(_slots);
        var instances = Instances;
        foreach (var instance in instances)
        {
            if (hasSuccessor)
            {
                await TryMoveAsync(instance);
            }
            instance.Terminate();
        }
        var exits = Task.WhenAll(instances.Select(static instance => instance.Exited));
        if (await Task.WhenAny(exits, Task.Delay(_settings.DrainTimeout + s_killPatience)) != exits)
        {
            _happened($"generation {Number} was killed: it had not ended {_settings.DrainTimeout.TotalSeconds:0.#} s after it was told to");
            KillAll();
            await exits;
        }
        DisposeAll();
    }

    // One that cannot is drained without it: its connections are closed as they become idle.
    private async Task TryMoveAsync(AppInstance instance)
    {
        try
        {
            await instance.MoveAsync();
        }
        catch (InstanceException error)
        {
            _happened($"process {instance.ProcessId} did not give its connections to the next generation: {error.Message}");
        }
    }

    /// <summary>Ends all processes now.</summary>
    public void KillAll()
    {
        foreach (var instance in Instances)
        {
            instance.Kill();
        }
    }

    public void Dispose()
    {
        _ending.Cancel();
        DisposeAll();
        _code?.Dispose();
        _ending.Dispose();
    }

    private void DisposeAll()
    {
        foreach (var instance in Instances)
        {
            instance.Dispose();
        }
    }

    // ---- one process ----

    private async Task<AppInstance> StartOneAsync(int slot, CancellationToken ct)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct);
        limit.CancelAfter(_settings.StartTimeout);
        var instance = AppInstance.Start(_describe(string.Create(CultureInfo.InvariantCulture, $"{_settings.Name}-{Number}-{Interlocked.Increment(ref _started)}")));
        lock (_lock)
        {
            _instances[slot]?.Dispose();
            _instances[slot] = instance;
        }
        try
        {
            await instance.WaitForStartAsync(limit.Token);
            await WaitForHealthAsync(instance, limit.Token);
            await WarmUpAsync(instance, limit.Token);
            return instance;
        }
        catch (OperationCanceledException) when (!ct.IsCancellationRequested)
        {
            string why = await WhyNotReadyAsync(instance);
            throw new InstanceException(string.Create(CultureInfo.InvariantCulture, $"Process {instance.ProcessId} was not ready {_settings.StartTimeout.TotalSeconds:0.#} s after its start ({why})."));
        }
    }

    private async Task<string> WhyNotReadyAsync(AppInstance instance)
    {
        if (_settings.Health is not { } path)
        {
            return "it does not listen, or does not answer its warm-up paths";
        }
        int? status = await instance.AskAsync(path, TimeSpan.FromSeconds(1), CancellationToken.None);
        return status is null ? $"{path} is not answered" : string.Create(CultureInfo.InvariantCulture, $"{path} answers {status}");
    }

    private async Task WaitForHealthAsync(AppInstance instance, CancellationToken ct)
    {
        while (_settings.Health is { } path && !IsRight(await instance.AskAsync(path, _settings.StartTimeout, ct)))
        {
            ThrowIfEnded(instance);
            await Task.Delay(s_askAgain, ct);
        }
        ThrowIfEnded(instance);
    }

    private async Task SettleAsync(AppInstance instance, CancellationToken ct)
    {
        long until = Environment.TickCount64 + (long)_settings.SettleTimeout.TotalMilliseconds;
        while (Environment.TickCount64 < until)
        {
            await Task.Delay(s_askAgain, ct);
            ThrowIfEnded(instance);
            if (_settings.Health is { } path && !IsRight(await instance.AskAsync(path, _settings.StartTimeout, ct)))
            {
                ThrowIfEnded(instance);
                throw new InstanceException($"Process {instance.ProcessId} did not stay well: {await WhyNotReadyAsync(instance)}.");
            }
        }
    }

    // Until the answers come steadily: the first request of each path compiles what it needs.
    private async Task WarmUpAsync(AppInstance instance, CancellationToken ct)
    {
        double before = double.MaxValue;
        for (int round = 0; round < WarmUpRoundsMax && _settings.WarmUp.Count > 0; round++)
        {
            long begun = System.Diagnostics.Stopwatch.GetTimestamp();
            foreach (string path in _settings.WarmUp)
            {
                if (await instance.AskAsync(path, _settings.StartTimeout, ct) is not { } status || status >= 500)
                {
                    ThrowIfEnded(instance);
                    throw new InstanceException($"The warm-up path {path} has failed.");
                }
            }
            double took = System.Diagnostics.Stopwatch.GetElapsedTime(begun).TotalMilliseconds;
            if (round > 1 && took > before * 0.8)
            {
                return;
            }
            before = took;
        }
    }

    private static void ThrowIfEnded(AppInstance instance)
    {
        if (instance.Exited.IsCompleted)
        {
            throw new InstanceException($"Process {instance.ProcessId} {instance.Exited.Result}.");
        }
    }

    private static bool IsRight(int? status) => status is >= 200 and < 400;

    // ---- while it serves ----

    private async Task WatchSlotAsync(int slot)
    {
        var instance = _instances[slot]!;
        while (!_ending.IsCancellationRequested)
        {
            if (await WatchAsync(instance) is not { } how)
            {
                return;
            }
            _happened($"process {instance.ProcessId} {how}");
            if (IsGivenUp(how))
            {
                return;
            }
            if (await ReplaceAsync(slot) is not { } next)
            {
                return;
            }
            instance = next;
        }
    }

    // How it has ended; null when the generation ends.
    private async Task<string?> WatchAsync(AppInstance instance)
    {
        var ending = Task.Delay(Timeout.InfiniteTimeSpan, _ending.Token);
        var hung = HasHungAsync(instance);
        var first = await Task.WhenAny(instance.Exited, hung, ending);
        if (_ending.IsCancellationRequested)
        {
            return null;
        }
        if (first == hung && !instance.Exited.IsCompleted)
        {
            instance.Kill();
            await instance.Exited;
            return string.Create(CultureInfo.InvariantCulture, $"was killed: {_settings.Health} was without a right answer for {_settings.HangTimeout.TotalSeconds:0.#} s");
        }
        return await instance.Exited;
    }

    private async Task HasHungAsync(AppInstance instance)
    {
        if (_settings.Health is not { } path)
        {
            await Task.WhenAny(Task.Delay(Timeout.InfiniteTimeSpan, _ending.Token));
            return;
        }
        TimeSpan period = TimeSpan.FromMilliseconds(Math.Clamp(_settings.HangTimeout.TotalMilliseconds / 5, 50, 5_000));
        TimeSpan fair = TimeSpan.FromMilliseconds(Math.Min(_settings.HangTimeout.TotalMilliseconds, 1_000));
        long lastRight = System.Diagnostics.Stopwatch.GetTimestamp();
        TimeSpan Left() => _settings.HangTimeout - System.Diagnostics.Stopwatch.GetElapsedTime(lastRight);
        try
        {
            while (true)
            {
                await Task.Delay(period, _ending.Token);
                bool isRight = IsRight(await instance.AskAsync(path, Left() > fair ? Left() : fair, _ending.Token));

                // Its time may have passed while the daemon itself stood still (a machine that sleeps, SIGSTOP): the last question is asked and answered in time that is.
                isRight = isRight || (Left() <= TimeSpan.Zero && IsRight(await instance.AskAsync(path, fair, _ending.Token)));
                if (isRight)
                {
                    lastRight = System.Diagnostics.Stopwatch.GetTimestamp();
                }
                else if (Left() <= TimeSpan.Zero)
                {
                    return;
                }
            }
        }
        catch (OperationCanceledException)
        {
            // The generation ends.
        }
    }

    private bool IsGivenUp(string how)
    {
        lock (_lock)
        {
            var now = DateTimeOffset.UtcNow;
            _crashes.Add(now);
            _crashes.RemoveAll(crash => now - crash > s_crashWindow);
            if (_crashes.Count < CrashesMax)
            {
                return false;
            }
        }
        _failed.TrySetResult(string.Create(CultureInfo.InvariantCulture, $"{CrashesMax} processes ended within {s_crashWindow.TotalSeconds:0} s, the last {how}"));
        return true;
    }

    // Null when the generation ends.
    private async Task<AppInstance?> ReplaceAsync(int slot)
    {
        for (int attempt = 0; !_ending.IsCancellationRequested; attempt++)
        {
            try
            {
                if (attempt > 0)
                {
                    await Task.Delay(Pause(attempt), _ending.Token);
                }
                var next = await StartOneAsync(slot, _ending.Token);
                await next.ListenAsync(_ending.Token);
                Restarts++;
                _happened($"process {next.ProcessId} serves in its place");
                return next;
            }
            catch (Exception error) when (error is not OperationCanceledException)      // whatever it is: a slot that nobody watches is never filled again
            {
                _happened($"no process could be put in its place: {error.Message}");
                _instances[slot]?.Kill();
                if (IsGivenUp("did not start"))
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
