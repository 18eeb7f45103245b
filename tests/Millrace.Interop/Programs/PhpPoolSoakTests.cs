// A pool of real php-cgi processes behind MapFastCgi, on bad days, for as long as one likes: scripts crash, hang, leak, flood, break off; processes are killed from outside, stopped, end at once when they
// are started, or are no php-cgi at all; visitors leave; and the administrator kills, recycles, resizes, swaps and holds. Nobody has a wrong answer, none is left without a reason in the log, nothing that may
// not be sent twice is, no place of the pool is lost, and nothing grows.
//
// MILLRACE_SOAK_MINUTES says how long (1); the figures go to the file MILLRACE_SOAK_REPORT names.

using System.Diagnostics;
using System.Globalization;
using System.Runtime.InteropServices;
using Millrace.Tests.Soak;
using Millrace.Workers;

namespace Millrace.Interop.Programs;

[Collection(AloneCollection.Name)]
public sealed partial class PhpPoolSoakTests
{
    private const int Visitors = 10;
    private const int Places = 4;
    private const int SamplesMin = 20;
    private static readonly TimeSpan s_long = TimeSpan.FromMinutes(5);
    private static readonly TimeSpan s_sampleEveryMax = TimeSpan.FromSeconds(15);
    private static readonly TimeSpan s_patience = TimeSpan.FromMinutes(2);

    private static readonly WorkerEnd[] s_expectedEnds =
    [
        WorkerEnd.Exited, WorkerEnd.CallLimit, WorkerEnd.Memory, WorkerEnd.Killed, WorkerEnd.Calls, WorkerEnd.Swapped, WorkerEnd.Abandoned, WorkerEnd.StartFailed,
    ];

    private readonly SoakAccounts _accounts = new();
    private readonly Random _random = new(1);

    [Fact]
    [Trait("Category", "Soak")]
    public async Task A_pool_of_real_processes_loses_nothing_on_bad_days_and_nothing_grows()
    {
        var length = TimeSpan.FromMinutes(double.Parse(Environment.GetEnvironmentVariable("MILLRACE_SOAK_MINUTES") ?? "1", CultureInfo.InvariantCulture));
        using var site = new SoakSite();
        var samples = new SoakSamples();
        string sums;
        await using (PhpApp app = await StartAsync(site))
        {
            site.IsWild = true;
            using var client = new HttpClient { Timeout = s_patience };
            bool isOver = false;
            bool IsOver() => Volatile.Read(ref isOver);
            Task[] visits = [.. Enumerable.Range(0, Visitors).Select(i => Task.Run(() => VisitAsync(new SoakVisitor(client, new Uri($"http://{app.EndPoint}/"), _accounts, seed: i), IsOver)))];
            Task trouble = Task.Run(() => TroubleAsync(app.Pool, site, IsOver));

            await WatchAsync(app, site, samples, length, [.. visits, trouble]);
            Volatile.Write(ref isOver, true);
            await Task.WhenAll([.. visits, trouble]);
            site.IsWild = false;
            await EveryPlaceIsThereAsync(app, site, client);
            await UntilAsync(() =>
            {
                _accounts.Take(app.Said.TakeAll());
                return _accounts.Settle();
            });
            sums = $"{_accounts.Sums}; ends: {string.Join(", ", app.Pool.GetStatus().Ends.Select(static pair => $"{pair.Key} {pair.Value}"))}";
            Report(length, sums, samples);
            Assert.Empty(_accounts.WrongAnswers);
            IReadOnlyDictionary<WorkerEnd, long> ends = app.Pool.GetStatus().Ends;
            Assert.All(s_expectedEnds, reason => Assert.True(ends.GetValueOrDefault(reason) > 0, $"nothing has ended for {reason}: {sums}"));
        }

        await UntilAsync(() => [.. site.Processes().Select(static process => $"process {process} is left")]);
        CheckMarks(site, sums);
        Assert.True(samples.Growth is null, $"{samples.Growth} grew: {samples.Summary}");
    }

    private static Task<PhpApp> StartAsync(SoakSite site)
    {
        var options = new ProcessPoolOptions
        {
            Command = "/bin/sh", Name = "php", Min = 2, Max = Places,
            CallLimit = TimeSpan.FromSeconds(3), WaitLimit = TimeSpan.FromSeconds(10), QueueMax = 8, AbortLimit = TimeSpan.FromMilliseconds(300), IdleLimit = TimeSpan.FromSeconds(2),
            StartLimit = TimeSpan.FromSeconds(10), StartPauseMax = TimeSpan.FromSeconds(1), StopLimit = TimeSpan.FromSeconds(2), EndLimit = TimeSpan.FromSeconds(10),
            RecycleAfterCalls = 40, RecycleAfter = TimeSpan.FromSeconds(30), RecycleAboveMemory = 60 << 20, MemoryMax = 110 << 20,
            Environment = { ["SOAK_FOLDER"] = site.Folder },
        };
        foreach (string argument in site.Start)
        {
            options.Arguments.Add(argument);
        }

        return PhpApp.StartAsync(null, onMillrace: true, "/{**path}", its => its.Root = site.Root, options);
    }

    private static async Task VisitAsync(SoakVisitor visitor, Func<bool> isOver)
    {
        while (!isOver())
        {
            await visitor.StepAsync();
            await Task.Delay(5);
        }
    }

    // ---- trouble ----

    private async Task TroubleAsync(ProcessPool pool, SoakSite site, Func<bool> isOver)
    {
        while (!isOver())
        {
            try
            {
                await TroubleAsync(pool, site).WaitAsync(s_patience);
            }
            catch (WorkerStartException)
            {
                // The one on trial was none that starts.
            }

            await Task.Delay(_random.Next(600));
        }
    }

    private async Task TroubleAsync(ProcessPool pool, SoakSite site)
    {
        int[] processes = [.. pool.GetStatus().Workers.Select(static worker => worker.ProcessId).OfType<int>()];
        switch (_random.Next(12))
        {
            case <= 4 when processes.Length > 0:
                _ = Kill(processes[_random.Next(processes.Length)], signal: 9);
                break;
            case 5 when processes.Length > 0:
                _ = Kill(processes[_random.Next(processes.Length)], signal: 19);     // SIGSTOP: to others it hangs
                break;
            case 6:
                _ = pool.Kill(_random.Next(1, Places + 2));
                break;
            case 7:
                _ = pool.Recycle(_random.Next(1, Places + 2));
                break;
            case 8:
                int min = _random.Next(1, Places);
                pool.Resize(min, _random.Next(min, Places + 2));
                break;
            case 9:
                await pool.SwapAsync();
                break;
            case 10:
                using (var limit = new CancellationTokenSource(TimeSpan.FromMilliseconds(_random.Next(500))))
                {
                    await pool.HoldAsync(limit.Token).ContinueWith(static _ => { }, TaskScheduler.Default);
                    pool.Release();
                }

                break;
            default:
                Assert.InRange(site.Processes().Length, 0, 4 * Places);
                break;
        }
    }

    [LibraryImport("libc", EntryPoint = "kill")]
    private static partial int Kill(int process, int signal);

    // ---- what is to be so ----

    // The first tenth is for warming up, a third of a short soak.
    private async Task WatchAsync(PhpApp app, SoakSite site, SoakSamples samples, TimeSpan length, Task[] actors)
    {
        TimeSpan warmUp = length > s_long ? length / 10 : length / 3;
        TimeSpan every = TimeSpan.FromTicks(Math.Min(s_sampleEveryMax.Ticks, (length - warmUp).Ticks / (2 * SamplesMin)));
        var watch = Stopwatch.StartNew();
        for (TimeSpan next = warmUp; watch.Elapsed < length && !actors.Any(static actor => actor.IsFaulted);)
        {
            await Task.Delay(100);
            _accounts.Take(app.Said.TakeAll());
            _ = _accounts.Settle();
            if (watch.Elapsed > next)
            {
                samples.Add(SoakSample.Take());
                next += every;
            }
        }
    }

    // As many calls as there are places wait for each other: every one of them has a process.
    private async Task EveryPlaceIsThereAsync(PhpApp app, SoakSite site, HttpClient client)
    {
        app.Pool.Resize(Places, Places);
        await UntilAsync(async () =>
        {
            site.ForgetMeeting();
            string[] answers = await Task.WhenAll(Enumerable.Range(0, Places).Select(async _ =>
            {
                string id = SoakVisitor.NewId(isSafe: true);
                using HttpResponseMessage response = await client.GetAsync(new Uri($"http://{app.EndPoint}/meet.php/{id}?of={Places}"));
                if (!response.IsSuccessStatusCode)
                {
                    _accounts.Failed(id, "meet", (int)response.StatusCode);     // one of them had been stopped before
                }

                return $"{(int)response.StatusCode} {await response.Content.ReadAsStringAsync()}";
            }));
            return [.. answers.Where(static answer => !answer.StartsWith("200 ok", StringComparison.Ordinal))];
        });
        await UntilAsync(() => app.Pool.GetStatus() is { Waiting: 0, Running: 0, Stuck.Count: 0, Workers: { Count: Places } workers } && workers.All(static worker => worker.State == WorkerState.Idle) ? [] : [app.Pool.GetStatus().ToString()]);
    }

    // A process of its own has counted what it was asked: "u" may not be sent twice, "s" not three times.
    private static void CheckMarks(SoakSite site, string sums)
    {
        var counts = new Dictionary<string, int>();
        foreach (string id in site.ReadMarks())
        {
            counts[id] = counts.GetValueOrDefault(id) + 1;
        }

        Assert.Empty(counts.Where(static pair => pair.Value > (pair.Key[0] == 'u' ? 1 : 2)).Select(pair => $"{pair.Key} was sent {pair.Value} times; {sums}"));
        Assert.True(counts.Count > 100);
    }

    private static void Report(TimeSpan length, string sums, SoakSamples samples)
    {
        string text = string.Create(CultureInfo.InvariantCulture, $"soak of a pool of php-cgi of {length.TotalMinutes:F0} min: {sums}; {samples.Summary}");
        if (Environment.GetEnvironmentVariable("MILLRACE_SOAK_REPORT") is { Length: > 0 } path)
        {
            File.AppendAllText(path, text + "\n");
        }
    }

    private static Task UntilAsync(Func<string[]> whatIsLacking) => UntilAsync(() => Task.FromResult(whatIsLacking()));

    private static async Task UntilAsync(Func<Task<string[]>> whatIsLacking)
    {
        for (var watch = Stopwatch.StartNew(); ; await Task.Delay(100))
        {
            string[] lacking = await whatIsLacking();
            if (lacking.Length == 0)
            {
                return;
            }

            Assert.True(watch.Elapsed < s_patience, string.Join('\n', lacking.Take(20)));
        }
    }
}

/// <summary>Tests that look at what the process holds run by themselves, after all others.</summary>
[CollectionDefinition(Name, DisableParallelization = true)]
[System.Diagnostics.CodeAnalysis.SuppressMessage("Naming", "CA1711", Justification = "It is a collection of tests.")]
public sealed class AloneCollection
{
    public const string Name = "alone";
}
