// In a host: registered, judged, started with it, seen by health checks and meters.

using System.Diagnostics.Metrics;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;

namespace Millrace.Workers.Tests;

public sealed class ServiceTests
{
    private static IHost Host(Action<WorkerPoolOptions<Probe>> configure, Func<IServiceProvider, Probe>? factory = null)
    {
        HostApplicationBuilder builder = Microsoft.Extensions.Hosting.Host.CreateEmptyApplicationBuilder(null);
        builder.Services.AddLogging();
        builder.Services.AddWorkerPool(factory, configure);
        builder.Services.AddHealthChecks().AddWorkerPool<Probe>();
        return builder.Build();
    }

    [Fact]
    public async Task A_pool_starts_and_ends_with_the_host()
    {
        Probe probe;
        IHost host = Host(static options => options.Min = 2);
        await host.StartAsync();
        var pool = host.Services.GetRequiredService<WorkerPool<Probe>>();
        Assert.Equal(2, pool.GetStatus().Workers.Count(static worker => worker.State == WorkerState.Idle));
        Assert.Same(pool, host.Services.GetRequiredService<IEnumerable<IWorkerPool>>().Single());
        probe = await pool.RunAsync(static (worker, _) => worker);
        await host.StopAsync();
        await ((IAsyncDisposable)host).DisposeAsync();
        Assert.NotEqual(0, probe.DisposedOn);
    }

    [Fact]
    public async Task Options_out_of_their_range_fail_the_start_and_are_named()
    {
        using IHost host = Host(static options => { options.Min = 5; options.Max = 4; options.WaitLimit = TimeSpan.Zero; });
        var error = await Assert.ThrowsAsync<OptionsValidationException>(() => host.StartAsync());
        Assert.Contains("Max is 4; it may be 5 to 1000.", error.Message, StringComparison.Ordinal);
        Assert.Contains("WaitLimit is 00:00:00;", error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_worker_that_cannot_be_made_fails_the_start_unless_nobody_waits_for_it()
    {
        using (IHost host = Host(static _ => { }, static _ => throw new FormatException("no licence")))
        {
            var error = await Assert.ThrowsAsync<WorkerStartException>(() => host.StartAsync());
            Assert.Contains("no licence", error.Message, StringComparison.Ordinal);
        }
        using IHost other = Host(static options => options.WaitAtStart = false, static _ => throw new FormatException("no licence"));
        await other.StartAsync();
        await other.StopAsync();
    }

    // ---- processes ----

    private static IHost ProcessHost(params (string Name, Action<ProcessPoolOptions> Configure)[] pools)
    {
        HostApplicationBuilder builder = Microsoft.Extensions.Hosting.Host.CreateEmptyApplicationBuilder(null);
        builder.Services.AddLogging();
        foreach (var (name, configure) in pools)
        {
            builder.Services.AddProcessPool(name, configure);
            builder.Services.AddHealthChecks().AddProcessPool(name);
        }
        return builder.Build();
    }

    private static void Sleep(ProcessPoolOptions options)
    {
        (options.Command, options.Min, options.Max, options.Ready) = ("sleep", 2, 2, ProcessReady.Starts);
        options.Arguments.Add("600");
    }

    [Fact]
    public async Task Pools_of_processes_start_and_end_with_the_host_each_under_its_name()
    {
        IHost host = ProcessHost(("a", Sleep), ("b", Sleep));
        await host.StartAsync();
        ProcessPool[] pools = [.. ((string[])["a", "b"]).Select(name => host.Services.GetRequiredKeyedService<ProcessPool>(name))];
        Assert.Equal(["a", "b"], pools.Select(static pool => pool.Name));
        Assert.Equal(["a", "b"], host.Services.GetServices<IWorkerPool>().Select(static pool => pool.Name));
        Assert.Same(pools[1], host.Services.GetRequiredService<ProcessPool>());
        int[] children = [.. pools.SelectMany(static pool => pool.GetStatus().Workers).Select(static worker => worker.ProcessId!.Value)];
        Assert.Equal(4, children.Distinct().Count(static child => Directory.Exists($"/proc/{child}")));
        HealthReport health = await host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync();
        Assert.Equal((HealthStatus.Healthy, 2), (health.Status, health.Entries.Count));
        await host.StopAsync();
        await ((IAsyncDisposable)host).DisposeAsync();
        Assert.DoesNotContain(children, static child => Directory.Exists($"/proc/{child}"));
    }

    [Fact]
    public async Task Options_of_a_pool_of_processes_are_judged_at_the_start()
    {
        using IHost host = ProcessHost(("a", static options => options.MemoryMax = 1));
        var error = await Assert.ThrowsAsync<OptionsValidationException>(() => host.StartAsync());
        Assert.Contains("Command is empty", error.Message, StringComparison.Ordinal);
        Assert.Contains("MemoryMax is 1;", error.Message, StringComparison.Ordinal);
    }

    // ---- each option, on both sides of its range ----

    [Theory]
    [InlineData(nameof(WorkerPoolOptions.Min), 0, -1)]
    [InlineData(nameof(WorkerPoolOptions.Max), 1_000, 1_001)]
    [InlineData(nameof(WorkerPoolOptions.QueueMax), 1_000_000, 1_000_001)]
    [InlineData(nameof(WorkerPoolOptions.QueueMax), 0, -1)]
    [InlineData(nameof(WorkerPoolOptions.StuckMax), 1_000, 1_001)]
    [InlineData(nameof(WorkerPoolOptions.StuckMax), 0, -1)]
    [InlineData(nameof(WorkerPoolOptions.RecycleAfterCalls), 1L, 0L)]
    [InlineData(nameof(WorkerPoolOptions.RecycleJitter), 0.9, 0.91)]
    [InlineData(nameof(WorkerPoolOptions.RecycleJitter), 0.0, -0.01)]
    [InlineData(nameof(WorkerPoolOptions.RecycleJitter), 0.5, double.NaN)]
    [InlineData(nameof(WorkerPoolOptions.Routing), WorkerRouting.RoundRobin, (WorkerRouting)2)]
    [InlineData(nameof(WorkerPoolOptions.GrowAfter), "01:00:00", "01:00:00.001")]
    [InlineData(nameof(WorkerPoolOptions.GrowAfter), "00:00:00", "-00:00:00.001")]
    [InlineData(nameof(WorkerPoolOptions.IdleLimit), "00:00:00.1", "00:00:00.099")]
    [InlineData(nameof(WorkerPoolOptions.IdleLimit), "-00:00:00.001", "30.00:00:01")]
    [InlineData(nameof(WorkerPoolOptions.WaitLimit), "00:00:00.001", "00:00:00")]
    [InlineData(nameof(WorkerPoolOptions.WaitLimit), "-00:00:00.001", "30.00:00:01")]
    [InlineData(nameof(WorkerPoolOptions.CallLimit), "00:00:00.001", "00:00:00")]
    [InlineData(nameof(WorkerPoolOptions.CallLimit), "-00:00:00.001", "30.00:00:01")]
    [InlineData(nameof(WorkerPoolOptions.CancelGrace), "01:00:00", "01:00:00.001")]
    [InlineData(nameof(WorkerPoolOptions.RecycleAfter), "00:00:00.1", "00:00:00.099")]
    [InlineData(nameof(WorkerPoolOptions.RecycleAfter), "-00:00:00.001", "30.00:00:01")]
    [InlineData(nameof(WorkerPoolOptions.StartLimit), "1.00:00:00", "1.00:00:01")]
    [InlineData(nameof(WorkerPoolOptions.EndLimit), "1.00:00:00", "-00:00:00.001")]
    [InlineData(nameof(WorkerPoolOptions.StartPause), "00:00:00.001", "00:00:00")]
    [InlineData(nameof(WorkerPoolOptions.StartPauseMax), "1.00:00:00", "1.00:00:01")]
    [InlineData(nameof(WorkerPoolOptions.DrainLimit), "00:00:00", "-00:00:00.001")]
    public void An_option_has_a_range(string name, object good, object bad)
    {
        var property = typeof(WorkerPoolOptions).GetProperty(name)!;
        object Value(object given) => given is string text ? TimeSpan.Parse(text, System.Globalization.CultureInfo.InvariantCulture) : given;
        var options = new WorkerPoolOptions<Probe>();
        property.SetValue(options, Value(good));
        Assert.Empty(options.Validate());
        property.SetValue(options, Value(bad));
        Assert.StartsWith(name + " ", Assert.Single(options.Validate()), StringComparison.Ordinal);
        Assert.Throws<ArgumentException>(() => new WorkerPool<Probe>(static () => new Probe(), options));
    }

    [Fact]
    public void Interruption_needs_a_thread()
    {
        var options = new WorkerPoolOptions<Probe> { InterruptStuck = true };
        Assert.Empty(options.Validate());
        options.ThreadBound = false;
        Assert.Single(options.Validate());
    }

    // ---- health ----

    [Fact]
    public async Task Health_says_how_the_pool_is()
    {
        using var gate = new Gate();
        IHost host = Host(static options => { options.Max = 1; options.QueueMax = 1; options.DrainLimit = TimeSpan.FromSeconds(60); });
        await host.StartAsync();
        var pool = host.Services.GetRequiredService<WorkerPool<Probe>>();
        var checks = host.Services.GetRequiredService<HealthCheckService>();
        async Task<(HealthStatus, string)> Ask() => (await checks.CheckHealthAsync()).Entries["Probe"] is var entry ? (entry.Status, entry.Description!) : default;

        Assert.Equal((HealthStatus.Healthy, "Pool Probe: 1 workers."), await Ask());
        await pool.HoldAsync();
        Assert.Equal((HealthStatus.Degraded, "Pool Probe: it is held."), await Ask());
        pool.Release();
        Task<int> call = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        Task<int> waits = pool.RunAsync(static (_, _) => 0);
        Assert.Equal((HealthStatus.Degraded, "Pool Probe: 1 calls wait."), await Ask());
        Assert.True(pool.Kill(1));
        await waits;
        Assert.Equal((HealthStatus.Degraded, "Pool Probe: 1 workers are stuck."), await Ask());
        gate.Open();
        await Assert.ThrowsAsync<WorkerKilledException>(() => call);
        await pool.DisposeAsync();
        Assert.Equal((HealthStatus.Unhealthy, "Pool Probe: it has ended."), await Ask());
        await ((IAsyncDisposable)host).DisposeAsync();
    }

    [Fact]
    public async Task Health_says_that_workers_cannot_be_made()
    {
        await using var pool = new WorkerPool<Probe>(static () => throw new FormatException("no licence"), new() { StartPause = TimeSpan.FromMinutes(1), StartPauseMax = TimeSpan.FromMinutes(1) });
        await Assert.ThrowsAsync<WorkerStartException>(() => pool.WaitUntilReadyAsync());
        HealthCheckResult result = await new WorkerPoolHealthCheck(pool, 10).CheckHealthAsync(new HealthCheckContext());
        Assert.Equal((HealthStatus.Unhealthy, "Pool Probe: workers cannot be made: no licence"), (result.Status, result.Description));
    }

    // ---- metrics ----

    [Fact]
    public async Task The_meter_counts_calls_and_workers_by_pool()
    {
        var sums = new Dictionary<string, long>();
        var times = new System.Collections.Concurrent.ConcurrentDictionary<string, double>();
        using var listener = new MeterListener
        {
            InstrumentPublished = static (instrument, listener) =>
            {
                if (instrument.Meter.Name == "Millrace.Workers")
                {
                    listener.EnableMeasurementEvents(instrument);
                }
            },
        };
        static string Key(Instrument instrument, ReadOnlySpan<KeyValuePair<string, object?>> tags) =>
            instrument.Name + string.Concat(tags.ToArray().Where(static tag => tag.Key != "pool").Select(static tag => $" {tag.Value}"));
        static bool IsOurs(ReadOnlySpan<KeyValuePair<string, object?>> tags) => tags.ToArray().Contains(new KeyValuePair<string, object?>("pool", "metered"));
        listener.SetMeasurementEventCallback<long>((instrument, value, tags, _) =>
        {
            if (IsOurs(tags))
            {
                sums[Key(instrument, tags)] = value;
            }
        });
        listener.SetMeasurementEventCallback<double>((instrument, value, tags, _) =>
        {
            if (IsOurs(tags))
            {
                times.AddOrUpdate(Key(instrument, tags), value, (_, sum) => sum + value);
            }
        });
        listener.Start();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Name = "metered", Min = 2, Max = 2, RecycleAfterCalls = 1, RecycleJitter = 0 });
        await pool.RunAsync(static (_, _) => Thread.Sleep(5));
        await Assert.ThrowsAsync<FormatException>(() => pool.RunAsync(static (_, _) => throw new FormatException()));
        await pool.HoldAsync();
        using var leaving = new CancellationTokenSource();
        Task left = pool.RunAsync(static (_, _) => 0, leaving.Token);
        Task waits = pool.RunAsync(static (_, _) => 0);
        await leaving.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => left);
        await pool.WaitUntilReadyAsync();
        listener.RecordObservableInstruments();
        Assert.Equal(2, sums["millrace.workers.calls"]);
        Assert.Equal(1, sums["millrace.workers.failures"]);
        Assert.Equal(1, sums["millrace.workers.waiting"]);
        Assert.Equal(2, sums["millrace.workers.count idle"]);
        Assert.Equal(0, sums["millrace.workers.count stuck"]);
        Assert.Equal(1, sums["millrace.workers.refused left"]);
        Assert.Equal(0, sums["millrace.workers.refused over-time"]);
        Assert.Equal(2, sums["millrace.workers.ends calls"]);
        await Eventually.TrueAsync(() => times.GetValueOrDefault("millrace.workers.call.duration") >= 0.004, "the time of a call");
        Assert.True(times.ContainsKey("millrace.workers.call.wait"));
        pool.Release();
        await waits;
    }
}
