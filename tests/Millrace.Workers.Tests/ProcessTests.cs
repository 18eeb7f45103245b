// Processes of a pool as far as no FastCGI program is needed: options, and that none is left when the pool cannot end them itself. The rest is in Millrace.Interop/Programs.

using System.Diagnostics;
using System.Globalization;
using System.Net.Sockets;
using Millrace.Workers.Processes;

namespace Millrace.Workers.Tests;

public sealed class ProcessTests
{
    [Fact]
    public async Task Children_that_have_not_been_taken_away_are_killed_when_the_pool_has_gone()
    {
        string folder = Directory.CreateTempSubdirectory("millrace-guardian-").FullName;
        using Process guarded = Process.Start("sleep", "600");
        using Process free = Process.Start("sleep", "600");
        using (var guardian = new Guardian(folder))
        {
            guardian.Add(free.Id);
            guardian.Add(guarded.Id);
            guardian.Remove(free.Id);
        }

        await guarded.WaitForExitAsync().WaitAsync(TimeSpan.FromSeconds(10));
        Assert.Equal(137, guarded.ExitCode);
        Assert.False(free.HasExited);
        Assert.False(Directory.Exists(folder));
        free.Kill();
    }

    // The same object may be filled anew for the next pool: each process of this one is what the pool was made for.
    [Fact]
    public async Task What_is_changed_in_its_options_later_is_no_matter_of_a_pool()
    {
        string folder = Directory.CreateTempSubdirectory("millrace-options-").FullName;
        string said = Path.Combine(folder, "said");
        try
        {
            var options = new ProcessPoolOptions { Command = "sh", Ready = ProcessReady.Starts, Min = 0, Max = 1, Arguments = { "-c", $"printf %s \"$SECRET\" >'{said}.new'; mv '{said}.new' '{said}'; exec sleep 600" } };
            options.Environment["SECRET"] = "of the first";
            await using var pool = new ProcessPool(options);
            options.Environment["SECRET"] = "of the second";
            options.Arguments.Clear();
            options.Command = "/nowhere";
            await pool.RunAsync(async (process, ct) =>
            {
                while (!File.Exists(said))
                {
                    await Task.Delay(10, ct);
                }
                return 0;
            }).WaitAsync(TimeSpan.FromSeconds(20));
            Assert.Equal(("of the first", "sh", ""), (await File.ReadAllTextAsync(said), pool.Name, options.Name));
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }

    [Fact]
    public async Task A_program_that_never_answers_is_told_of_by_its_own_limit_and_not_by_the_pools()
    {
        using var said = new Said();
        await using var pool = new ProcessPool(new ProcessPoolOptions { Command = "sleep", Arguments = { "600" }, Min = 1, Max = 1, StartLimit = TimeSpan.FromMilliseconds(300), StartPause = TimeSpan.FromHours(1), StartPauseMax = TimeSpan.FromHours(1) }, said);
        var error = await Assert.ThrowsAsync<WorkerStartException>(() => pool.WaitUntilReadyAsync(TestContext.Current.CancellationToken).WaitAsync(TimeSpan.FromSeconds(30)));
        Assert.Contains("has not answered FCGI_GET_VALUES on its descriptor 0 within 0.3 s (StartLimit)", error.Message, StringComparison.Ordinal);
        Assert.Equal((1, 0), (pool.GetStatus().Ends.GetValueOrDefault(WorkerEnd.StartFailed), pool.GetStatus().Ends.GetValueOrDefault(WorkerEnd.StartLimit)));
        Assert.Empty(pool.GetStatus().Stuck);
        Assert.Equal(0, said.Count(4));
    }

    // Each call would start the next one, and with 50 of them that is 50 programs in a moment.
    [Theory]
    [InlineData(50)]
    [InlineData(0)]
    public async Task A_program_that_ends_at_once_is_started_again_behind_the_pause_however_many_calls_wait(int calls)
    {
        string file = Path.GetTempFileName();
        using var leaving = new CancellationTokenSource();
        await using (var pool = new ProcessPool(new ProcessPoolOptions
        {
            Command = "sh", Arguments = { "-c", $"echo started >>'{file}'; exit 1" }, Ready = ProcessReady.Starts, Min = calls == 0 ? 1 : 0, Max = 1, StartPause = TimeSpan.FromSeconds(1), DrainLimit = TimeSpan.Zero,
        }))
        {
            Task[] all = [.. Enumerable.Range(0, calls).Select(_ => pool.RunAsync(static async (process, _) => await process.WaitForExitAsync(TimeSpan.FromSeconds(20)) ? throw new IOException("It has ended.") : 0, leaving.Token))];
            await Task.Delay(TimeSpan.FromSeconds(2), TestContext.Current.CancellationToken);
            Assert.InRange((await File.ReadAllLinesAsync(file, TestContext.Current.CancellationToken)).Length, 1, 3);
            Assert.Equal("it has ended with exit code 1.", pool.GetStatus().StartFailure);
            await leaving.CancelAsync();
            await Task.WhenAll(all).ContinueWith(static _ => { }, TaskScheduler.Default);
        }
        File.Delete(file);
    }

    [Fact]
    public async Task A_process_that_cannot_be_looked_at_is_killed_all_the_same()
    {
        using var said = new Said();
        await using var pool = new ProcessPool(new ProcessPoolOptions { Command = "sleep", Arguments = { "600" }, Ready = ProcessReady.Starts, Max = 1, Describe = static (_, _) => throw new AggregateException("no right") }, said);
        var began = new TaskCompletionSource<WorkerProcess>(TaskCreationOptions.RunContinuationsAsynchronously);
        Task call = pool.RunAsync((process, _) =>
        {
            began.SetResult(process);
            return new TaskCompletionSource<int>().Task;        // one that heeded its token would leave the process to be disposed of
        });
        WorkerProcess killed = await began.Task;
        Assert.True(pool.Kill(1));
        await Assert.ThrowsAsync<WorkerKilledException>(() => call);
        Assert.True(await killed.WaitForExitAsync(TimeSpan.FromSeconds(20)));
        await Eventually.TrueAsync(() => said.Count(15) == 1, "the message");
        Assert.Contains($"What process {killed.ProcessId} was doing could not be seen: no right", said.All.Single(static message => message.Id == 15).Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_process_that_is_still_starting_is_killed_when_that_is_asked_for()
    {
        string file = Path.GetTempFileName();
        using var said = new Said();
        await using (var pool = new ProcessPool(new ProcessPoolOptions { Command = "sh", Arguments = { "-c", $"echo $$ >>'{file}'; exec sleep 600" }, Min = 1, Max = 1, StuckMax = 1 }, said))
        {
            for (int i = 1; i <= 4; i++)
            {
                string[] ids = [];
                await Eventually.TrueAsync(() => (ids = File.ReadAllLines(file)).Length == i, "it has begun");
                Assert.Equal(WorkerState.Starting, Assert.Single(pool.GetStatus().Workers).State);
                Assert.True(pool.Kill(1));
                await Eventually.TrueAsync(() => !Directory.Exists($"/proc/{ids[^1]}") && pool.GetStatus().Stuck.Count == 0, "it has ended");
            }
            await Eventually.TrueAsync(() => said.Count(15) == 4, "the messages");
            Assert.Equal(4, pool.GetStatus().Ends[WorkerEnd.Killed]);
        }
        Assert.DoesNotContain(said.All, static message => message.Id is 3 or 4 or 5 or 6 or 21);
        File.Delete(file);
    }

    [Fact]
    public async Task That_more_are_stuck_than_may_be_is_not_said_of_processes_that_are_being_killed()
    {
        const int Processes = 4;
        using var said = new Said();
        var looked = new TaskCompletionSource<string>();
        await using var pool = new ProcessPool(new ProcessPoolOptions { Command = "sleep", Arguments = { "600" }, Ready = ProcessReady.Starts, Min = Processes, Max = Processes, StuckMax = 1, Describe = (_, _) => looked.Task }, said);
        await pool.WaitUntilReadyAsync(TestContext.Current.CancellationToken);
        int begun = 0;
        Task[] calls = [.. Enumerable.Range(0, Processes).Select(_ => pool.RunAsync((process, _) =>
        {
            Interlocked.Increment(ref begun);
            return process.WaitForExitAsync(Eventually.Limit);
        }))];
        await Eventually.TrueAsync(() => Volatile.Read(ref begun) == Processes, "all are busy");
        Assert.All(Enumerable.Range(1, Processes), id => Assert.True(pool.Kill(id)));
        Assert.Equal(Processes, pool.GetStatus().Stuck.Count);
        looked.SetResult("");

        foreach (Task call in calls)
        {
            await Assert.ThrowsAsync<WorkerKilledException>(() => call);
        }
        await Eventually.TrueAsync(() => pool.GetStatus() is { Stuck.Count: 0, Workers.Count: Processes }, "others have taken their places");
        await Eventually.TrueAsync(() => said.Count(15) == Processes, "the messages");
        Assert.Equal(0, said.Count(6));
    }

    [Fact]
    public async Task That_more_are_stuck_than_may_be_is_said_of_what_a_kill_does_not_end()
    {
        var time = new ManualTime();
        using var said = new Said();
        var end = new TaskCompletionSource<int>();
        await using var pool = new WorkerPool<Deathless>(static () => new Deathless(), new() { Max = 1, StuckMax = 0, ThreadBound = false, EndLimit = TimeSpan.FromSeconds(30), TimeProvider = time }, said);
        var began = new TaskCompletionSource();
        Task call = pool.RunAsync((_, _) =>
        {
            began.SetResult();
            return end.Task;
        });
        await began.Task;
        Assert.True(pool.Kill(1));
        await Assert.ThrowsAsync<WorkerKilledException>(() => call);
        await Eventually.TrueAsync(() => said.Count(15) == 1, "it was killed");
        pool.Pass(time, TimeSpan.FromSeconds(29));
        Assert.Equal(0, said.Count(6));
        pool.Pass(time, TimeSpan.FromSeconds(1));
        await Eventually.TrueAsync(() => said.Count(6) == 1, "it is stuck");
        end.SetResult(0);
        await Eventually.TrueAsync(() => pool.GetStatus().Stuck.Count == 0, "it comes back and ends");
    }

    private sealed class Deathless : IMortal
    {
        public Task<Death> Death { get; } = new TaskCompletionSource<Death>().Task;

        public WorkerEnd Wish => WorkerEnd.None;

        public bool IsUntried => false;

        public int ProcessId => Environment.ProcessId;

        public Task<string> KillAsync(WorkerEnd reason) => Task.FromResult("");
    }

    // Whoever tidies up /tmp may remove what is locked as well, and a stranger make something in its place.
    [Fact]
    public async Task Where_the_folder_of_the_sockets_is_removed_there_is_another_and_the_guardian_empties_that()
    {
        using var folder = new SocketFolder();
        PlacedSocket first = folder.Listen(1, out int listener);
        Posix.Close(listener);
        string before = folder.Path;
        string after;
        using (var guardian = new Guardian(before))
        {
            folder.Moved = guardian.MoveTo;
            Directory.Delete(before, recursive: true);
            Directory.CreateDirectory(before);
            File.WriteAllText(before + "/a stranger's", "");

            PlacedSocket second = folder.Listen(1, out listener);
            after = folder.Path;
            Assert.NotEqual(before, after);
            using (var client = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified))
            {
                await client.ConnectAsync(second.EndPoint);
            }
            Assert.Equal(second.Path.Split('/')[^1], Path.GetFileName(Assert.Single(Directory.GetFileSystemEntries(after))));
            first.Remove();
            Assert.Single(Directory.GetFileSystemEntries(after));
            Posix.Close(listener);
        }
        Assert.False(Directory.Exists(after));
        Assert.True(File.Exists(before + "/a stranger's"));
        Directory.Delete(before, recursive: true);
    }

    [Fact]
    public async Task The_folder_of_the_sockets_is_locked_so_that_nobody_tidies_it_up()
    {
        using var folder = new SocketFolder();
        Assert.Equal(1, await TryLockAsync(folder.Path));
        Directory.Delete(folder.Path);
        folder.Listen(1, out int listener).Remove();
        Posix.Close(listener);
        Assert.Equal(1, await TryLockAsync(folder.Path));
        folder.Dispose();
        Assert.Equal(0, await TryLockAsync(folder.Path));
        Directory.Delete(folder.Path);

        static async Task<int> TryLockAsync(string path)
        {
            using Process flock = Process.Start("flock", ["--nonblock", "--exclusive", path, "true"]);
            await flock.WaitForExitAsync();
            return flock.ExitCode;
        }
    }

    [Fact]
    public async Task Stacks_are_asked_for_where_the_process_itself_listens_and_not_where_somebody_has_put_a_socket_of_that_name()
    {
        Assert.Contains("Its stacks:\nasked ", await ProcessFacts.DescribeAsync(Environment.ProcessId, "echo asked"), StringComparison.Ordinal);

        using Process child = Process.Start("sleep", "600");
        string path = Path.Join(Path.GetTempPath(), $"dotnet-diagnostic-{child.Id}-1-socket");
        using var planted = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        planted.Bind(new UnixDomainSocketEndPoint(path));
        planted.Listen();
        string facts = await ProcessFacts.DescribeAsync(child.Id, "echo asked");
        child.Kill();
        File.Delete(path);
        Assert.Contains($"Its process is {child.Id}, ", facts, StringComparison.Ordinal);
        Assert.DoesNotContain("asked", facts, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_process_that_is_down_but_for_what_its_parent_has_to_ask_is_ending_and_one_that_runs_is_not_proc_pid_stat_5()
    {
        // The child of one that asks for no child's end.
        using Process parent = Process.Start(new ProcessStartInfo("sh", ["-c", "sleep 600 & echo $!; exec sleep 600"]) { RedirectStandardOutput = true })!;
        int child = int.Parse((await parent.StandardOutput.ReadLineAsync(TestContext.Current.CancellationToken))!, CultureInfo.InvariantCulture);
        Assert.False(ProcessFacts.IsEnding(child));

        using (var process = Process.GetProcessById(child))
        {
            process.Kill();
        }

        Assert.True(SpinWait.SpinUntil(() => ProcessFacts.IsEnding(child), TimeSpan.FromSeconds(30)));
        Assert.False(ProcessFacts.IsEnding(parent.Id));
        parent.Kill();
        await parent.WaitForExitAsync(TestContext.Current.CancellationToken);
        Assert.False(ProcessFacts.IsEnding(parent.Id));
    }

    [Fact]
    public void Defaults_with_a_command_are_right() => Assert.Empty(new ProcessPoolOptions { Command = "php-cgi" }.Validate());

    [Theory]
    [InlineData(nameof(ProcessPoolOptions.MemoryMax), 1L << 20, 1L << 40)]
    [InlineData(nameof(ProcessPoolOptions.RecycleAboveMemory), 1L << 20, 1L << 40)]
    public void Bytes_have_limits_on_both_sides(string name, long min, long max)
    {
        Assert.Empty(With(name, min).Validate());
        Assert.Empty(With(name, max).Validate());
        Assert.StartsWith($"{name} is ", Assert.Single(With(name, min - 1).Validate()), StringComparison.Ordinal);
        Assert.StartsWith($"{name} is ", Assert.Single(With(name, max + 1).Validate()), StringComparison.Ordinal);
    }

    [Fact]
    public void Times_have_limits_on_both_sides()
    {
        TimeSpan hour = TimeSpan.FromHours(1);
        Assert.Empty(With(nameof(ProcessPoolOptions.AbortLimit), TimeSpan.Zero).Validate());
        Assert.Empty(With(nameof(ProcessPoolOptions.AbortLimit), hour).Validate());
        Assert.Single(With(nameof(ProcessPoolOptions.AbortLimit), hour + TimeSpan.FromTicks(1)).Validate());
        Assert.Single(With(nameof(ProcessPoolOptions.AbortLimit), TimeSpan.FromTicks(-1)).Validate());
        Assert.Empty(With(nameof(ProcessPoolOptions.StopLimit), TimeSpan.Zero).Validate());
        Assert.Empty(With(nameof(ProcessPoolOptions.StopLimit), TimeSpan.FromSeconds(29)).Validate());
        Assert.Single(With(nameof(ProcessPoolOptions.StopLimit), TimeSpan.FromSeconds(30)).Validate());
    }

    [Fact]
    public void What_makes_no_sense_is_said()
    {
        Assert.StartsWith("Command is empty", Assert.Single(new ProcessPoolOptions().Validate()), StringComparison.Ordinal);
        Assert.StartsWith("ThreadBound is for", Assert.Single(new ProcessPoolOptions { Command = "a", ThreadBound = true }.Validate()), StringComparison.Ordinal);
        Assert.StartsWith("WorkingDirectory is", Assert.Single(new ProcessPoolOptions { Command = "a", WorkingDirectory = "/no/such" }.Validate()), StringComparison.Ordinal);
        Assert.StartsWith("Environment has", Assert.Single(new ProcessPoolOptions { Command = "a", Environment = { ["A=B"] = "" } }.Validate()), StringComparison.Ordinal);
    }

    private static ProcessPoolOptions With(string name, object value)
    {
        var options = new ProcessPoolOptions { Command = "a" };
        typeof(ProcessPoolOptions).GetProperty(name)!.SetValue(options, value);
        return options;
    }
}
