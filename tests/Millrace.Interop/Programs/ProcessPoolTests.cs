// A pool of php-cgi processes behind MapFastCgi, and what becomes of it when they crash, hang, leak, or are left by their visitors. The scripts count how often they are called.
using System.Diagnostics;
using System.Globalization;
using System.IO.Pipelines;
using System.Security.Cryptography;
using Millrace.Interop.Command;
using Millrace.Interop.FrontEnds;
using Millrace.Workers;

namespace Millrace.Interop.Programs;

public sealed class ProcessPoolTests : IDisposable
{
    private readonly TemporaryDirectory _site = new("pool");
    private readonly HttpClient _client = new();

    public ProcessPoolTests()
    {
        Write("pid", "echo getmypid();");
        Write("crash", "posix_kill(getmypid(), 9); sleep(60);");
        Write("hang", "while (true) {}");
        Write("sleep", "usleep((int)$_GET['ms'] * 1000); echo 'slept';");
        Write("leak", "ini_set('memory_limit', '-1'); $kept = str_repeat('x', 300 << 20); sleep(60);");
        Write("hash", "echo hash('sha256', file_get_contents('php://input'));");
        Write("flood", "for ($i = 0; $i < 20000; $i++) error_log(\"line $i\"); echo 'flooded';");
    }

    private void Write(string name, string script) =>
        File.WriteAllText(Path.Combine(_site.Path, $"{name}.php"), $"<?php file_put_contents('{_site.Path}/{name}.count', '1', FILE_APPEND); {script}");

    private long Calls(string name) => new FileInfo(Path.Combine(_site.Path, $"{name}.count")) is { Exists: true } file ? file.Length : 0;

    public void Dispose()
    {
        _client.Dispose();
        _site.Dispose();
    }

    private Task<PhpApp> StartAsync(Action<ProcessPoolOptions>? configure = null)
    {
        var options = new ProcessPoolOptions { Command = "php-cgi", Min = 2, Max = 2 };
        configure?.Invoke(options);
        return PhpApp.StartAsync(null, onMillrace: true, "/{**path}", site => site.Root = _site.Path, options);
    }

    private async Task<(int Status, string Text)> GetAsync(PhpApp app, string target, HttpMethod? method = null, CancellationToken ct = default)
    {
        using var request = new HttpRequestMessage(method ?? HttpMethod.Get, $"http://{app.EndPoint}{target}");
        using HttpResponseMessage response = await _client.SendAsync(request, ct);
        return ((int)response.StatusCode, await response.Content.ReadAsStringAsync(ct));
    }

    private static long Ends(PhpApp app, WorkerEnd reason) => app.Pool.GetStatus().Ends.GetValueOrDefault(reason);

    internal static async Task UntilAsync(Func<bool> isSo)
    {
        var watch = Stopwatch.StartNew();
        while (!isSo())
        {
            Assert.True(watch.Elapsed < TimeSpan.FromSeconds(20), "That did not come to be.");
            await Task.Delay(20);
        }
    }

    [Fact]
    public async Task One_caller_has_one_process_and_the_pool_says_which()
    {
        await using PhpApp app = await StartAsync();
        (_, string first) = await GetAsync(app, "/pid.php");
        for (int i = 0; i < 1_000; i++)
        {
            Assert.Equal((200, first), await GetAsync(app, "/pid.php"));
        }

        WorkerPoolStatus status = app.Pool.GetStatus();
        Assert.Equal([1_001, 0], status.Hits);
        Assert.Equal(int.Parse(first, CultureInfo.InvariantCulture), status.Workers[0].ProcessId);
        Assert.InRange(status.Workers[0].Memory ?? 0, 1 << 20, 1 << 30);
        Assert.NotNull(status.Workers[0].ProcessorTime);
        Assert.DoesNotContain(app.Said.All, static line => line.StartsWith("16 ", StringComparison.Ordinal));
    }

    [Theory]
    [InlineData("GET", 2)]
    [InlineData("POST", 1)]
    public async Task A_process_that_dies_in_a_call_is_asked_again_elsewhere_once_and_only_where_that_is_safe_RFC9110_9_2_2(string method, int calls)
    {
        await using PhpApp app = await StartAsync();

        Assert.Equal(502, (await GetAsync(app, "/crash.php", new HttpMethod(method))).Status);

        Assert.Equal(calls, Calls("crash"));
        await UntilAsync(() => Ends(app, WorkerEnd.Exited) == calls);
        Assert.Equal(200, (await GetAsync(app, "/pid.php")).Status);
        await UntilAsync(() => app.Said.All.Count(static line => line.StartsWith("16 ", StringComparison.Ordinal) && line.Contains("signal 9 has ended it.", StringComparison.Ordinal)) == calls);
    }

    // What has been sent to a process that is just dying may not be sent twice unless it is safe: nobody knows what came of it.
    [Theory]
    [InlineData("GET", false)]
    [InlineData("GET", true)]
    [InlineData("POST", true)]
    public async Task A_process_that_is_killed_while_it_is_idle_is_replaced_and_no_request_notices(string method, bool hasEnded)
    {
        await using PhpApp app = await StartAsync();
        for (int i = 0; i < 20; i++)
        {
            (_, string before) = await GetAsync(app, "/pid.php");
            using var process = Process.GetProcessById(int.Parse(before, CultureInfo.InvariantCulture));
            process.Kill();
            if (hasEnded)
            {
                await process.WaitForExitAsync();
            }

            (int status, _) = await GetAsync(app, "/pid.php", new HttpMethod(method));
            Assert.True(status == 200, $"{status} behind {i}: {string.Join('\n', app.Said.All.TakeLast(5))}");
        }

        await UntilAsync(() => Ends(app, WorkerEnd.Exited) == 20);
    }

    [Fact]
    public async Task Processes_that_are_killed_together_are_replaced_and_no_request_notices()
    {
        const int Processes = 4;
        await using PhpApp app = await StartAsync(static options => (options.Min, options.Max) = (Processes, Processes));
        for (int i = 0; i < 5; i++)
        {
            foreach (WorkerStatus worker in app.Pool.GetStatus().Workers)
            {
                using var process = Process.GetProcessById(worker.ProcessId!.Value);
                process.Kill();
                await process.WaitForExitAsync();
            }

            (int status, _) = await GetAsync(app, "/pid.php", HttpMethod.Post);
            Assert.True(status == 200, $"{status} behind {i}: {string.Join('\n', app.Said.All.TakeLast(5))}");
            await UntilAsync(() => Ends(app, WorkerEnd.Exited) == (i + 1) * Processes && app.Pool.GetStatus().Workers.Count(static worker => worker.ProcessId is not null) == Processes);
        }
    }

    [Fact]
    public async Task A_NET_process_that_hangs_is_killed_at_its_limit_and_its_managed_stacks_are_in_the_log()
    {
        Write("pid", "");
        Write("hang", "");
        await using PhpApp app = await StartAsync(static options =>
        {
            (options.Command, options.Min, options.Max, options.CallLimit) = ("dotnet", 1, 1, TimeSpan.FromSeconds(3));
            options.Arguments.Add("exec");
            options.Arguments.Add(CommandProcess.AssemblyOf("tests/Millrace.Interop.Responder", "Millrace.Interop.Responder"));
            options.StackCommand = $"dotnet {CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command")} stacks";
        });
        (int status, string first) = await GetAsync(app, "/pid.php");
        Assert.Equal((200, $"process {app.Pool.GetStatus().Workers[0].ProcessId}"), (status, first));

        Assert.Equal(504, (await GetAsync(app, "/hang.php")).Status);

        await UntilAsync(() => app.Said.All.Any(static line => line.StartsWith("15 ", StringComparison.Ordinal)));
        string said = app.Said.All.First(static line => line.StartsWith("15 ", StringComparison.Ordinal));
        Assert.Contains("Report.WaitForThePrinter()", said, StringComparison.Ordinal);
        (status, string next) = await GetAsync(app, "/pid.php");
        Assert.Equal(200, status);
        Assert.NotEqual(first, next);
    }

    [Fact]
    public async Task A_call_that_hangs_is_answered_at_its_limit_and_its_process_is_killed_and_described()
    {
        await using PhpApp app = await StartAsync(static options => options.CallLimit = TimeSpan.FromSeconds(2));
        _ = await GetAsync(app, "/pid.php");

        Assert.Equal(504, (await GetAsync(app, "/hang.php")).Status);

        Assert.Equal(1, Calls("hang"));
        await UntilAsync(() => Ends(app, WorkerEnd.CallLimit) == 1 && app.Pool.GetStatus().Stuck.Count == 0);
        Assert.Equal(200, (await GetAsync(app, "/pid.php")).Status);
        await UntilAsync(() => app.Said.All.Any(static line => line.StartsWith("15 ", StringComparison.Ordinal)));
        string said = app.Said.All.First(static line => line.StartsWith("15 ", StringComparison.Ordinal));
        Assert.Contains("GET /hang.php", said, StringComparison.Ordinal);
        Assert.Contains("state R", said, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_call_that_hangs_is_answered_at_its_limit_and_waits_for_no_stacks()
    {
        await using PhpApp app = await StartAsync(static options => (options.CallLimit, options.StackCommand) = (TimeSpan.FromSeconds(2), "sleep 60"));     // its five seconds are for who reads the log
        _ = await GetAsync(app, "/pid.php");

        var watch = Stopwatch.StartNew();
        Assert.Equal(504, (await GetAsync(app, "/hang.php")).Status);
        Assert.InRange(watch.Elapsed.TotalSeconds, 1.9, 6.5);
    }

    [Theory]
    [InlineData(300, 5_000, 0)]
    [InlineData(60_000, 200, 1)]
    public async Task A_request_whose_visitor_has_left_is_waited_for_up_to_AbortLimit_before_its_process_has_another(int ms, int limit, int abandoned)
    {
        await using PhpApp app = await StartAsync(options => (options.Min, options.Max, options.AbortLimit) = (1, 1, TimeSpan.FromMilliseconds(limit)));
        (_, string before) = await GetAsync(app, "/pid.php");
        using (var leaving = new CancellationTokenSource())
        {
            Task<(int, string)> left = GetAsync(app, $"/sleep.php?ms={ms}", ct: leaving.Token);
            await UntilAsync(() => Calls("sleep") == 1);
            await leaving.CancelAsync();
            await Assert.ThrowsAnyAsync<OperationCanceledException>(() => left);
        }

        (int status, string after) = await GetAsync(app, "/pid.php");

        Assert.Equal(200, status);
        Assert.Equal(abandoned == 0, before == after);
        Assert.Equal(abandoned, Ends(app, WorkerEnd.Abandoned));
    }

    [Fact]
    public async Task A_process_above_MemoryMax_is_killed_and_one_below_is_not()
    {
        await using PhpApp app = await StartAsync(static options => options.MemoryMax = 200 << 20);

        Assert.Equal(502, (await GetAsync(app, "/leak.php", HttpMethod.Post)).Status);

        await UntilAsync(() => Ends(app, WorkerEnd.Memory) == 1);
        await Task.Delay(600);
        Assert.Equal(1, Ends(app, WorkerEnd.Memory));
        Assert.Equal(200, (await GetAsync(app, "/pid.php")).Status);
    }

    [Fact]
    public async Task A_process_above_RecycleAboveMemory_is_replaced_behind_its_call()
    {
        await using PhpApp app = await StartAsync(static options => options.RecycleAboveMemory = 1 << 20);
        (_, string before) = await GetAsync(app, "/pid.php");
        await UntilAsync(() => Ends(app, WorkerEnd.Memory) == 1);
        Assert.NotEqual(before, (await GetAsync(app, "/pid.php")).Text);
    }

    [Fact]
    public async Task A_swap_under_load_loses_no_request_and_leaves_no_old_process()
    {
        await using PhpApp app = await StartAsync();
        using var over = new CancellationTokenSource();
        Task<int>[] callers = [.. Enumerable.Range(0, 4).Select(async _ =>
        {
            int count = 0;
            while (!over.IsCancellationRequested)
            {
                Assert.Equal(200, (await GetAsync(app, "/pid.php", HttpMethod.Post)).Status);
                count++;
            }

            return count;
        })];
        for (int i = 0; i < 5; i++)
        {
            await app.Pool.SwapAsync();
        }

        await over.CancelAsync();
        Assert.All(await Task.WhenAll(callers), static count => Assert.True(count > 0));
        WorkerPoolStatus status = app.Pool.GetStatus();
        Assert.Equal(6, status.Generation);
        Assert.All(status.Workers, static worker => Assert.Equal(6, worker.Generation));
    }

    [Fact]
    public async Task A_program_that_ends_at_once_is_no_worker_and_says_how_it_has_ended()
    {
        await using var pool = new ProcessPool(new ProcessPoolOptions { Command = "/bin/sh", Arguments = { "-c", "echo no database >&2; exit 3" } });
        WorkerStartException failed = await Assert.ThrowsAsync<WorkerStartException>(() => pool.WaitUntilReadyAsync());
        Assert.Contains("it has ended with exit code 3. It said: no database", failed.InnerException!.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_program_that_is_not_there_is_said_so()
    {
        await using var pool = new ProcessPool(new ProcessPoolOptions { Command = "/no/such/program" });
        WorkerStartException failed = await Assert.ThrowsAsync<WorkerStartException>(() => pool.WaitUntilReadyAsync());
        Assert.Equal("/no/such/program cannot be started: No such file or directory.", failed.InnerException!.Message);
    }

    [Fact]
    public async Task A_program_that_does_not_answer_within_StartLimit_is_killed()
    {
        await using var pool = new ProcessPool(new ProcessPoolOptions { Command = "/bin/sleep", Arguments = { "600" }, StartLimit = TimeSpan.FromMilliseconds(300) });
        WorkerStartException failed = await Assert.ThrowsAsync<WorkerStartException>(() => pool.WaitUntilReadyAsync());
        Assert.Contains("has not answered FCGI_GET_VALUES", failed.InnerException!.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task End_of_the_pool_is_the_end_of_its_processes()
    {
        PhpApp app = await StartAsync();
        int[] children = [.. app.Pool.GetStatus().Workers.Select(static worker => worker.ProcessId!.Value)];
        Assert.All(children, static child => Assert.True(Directory.Exists($"/proc/{child}")));
        await app.DisposeAsync();
        Assert.All(children, static child => Assert.False(Directory.Exists($"/proc/{child}")));
    }

    [Fact]
    public async Task Kill_answers_the_caller_at_once_and_a_full_queue_is_503()
    {
        await using PhpApp app = await StartAsync(static options => (options.Min, options.Max, options.QueueMax) = (1, 1, 0));
        Task<(int Status, string)> killed = GetAsync(app, "/sleep.php?ms=60000", HttpMethod.Post);
        await UntilAsync(() => Calls("sleep") == 1);
        Assert.Equal(503, (await GetAsync(app, "/pid.php")).Status);

        Assert.True(app.Pool.Kill(1));

        Assert.Equal(502, (await killed).Status);
        await UntilAsync(() => app.Pool.GetStatus().Workers is [{ State: WorkerState.Idle }]);
        Assert.Equal(200, (await GetAsync(app, "/pid.php")).Status);
        Assert.Equal(1, Calls("sleep"));
    }

    [Fact]
    public async Task A_visitor_who_sends_slowly_holds_no_process()
    {
        await using PhpApp app = await StartAsync(static options => (options.Min, options.Max, options.WaitLimit) = (1, 1, TimeSpan.FromMilliseconds(500)));
        byte[] body = new byte[3_000_000];
        new Random(9).NextBytes(body);
        var pipe = new Pipe(new PipeOptions(pauseWriterThreshold: 0));
        using var request = new HttpRequestMessage(HttpMethod.Post, $"http://{app.EndPoint}/hash.php") { Content = new StreamContent(pipe.Reader.AsStream()) };
        request.Content.Headers.ContentLength = body.Length;
        Task<HttpResponseMessage> slow = _client.SendAsync(request);
        await pipe.Writer.WriteAsync(body.AsMemory(0, 2_000_000));
        for (var watch = Stopwatch.StartNew(); watch.Elapsed < TimeSpan.FromSeconds(2);)
        {
            Assert.Equal(200, (await GetAsync(app, "/pid.php")).Status);
        }
        Assert.Equal(0, Calls("hash"));

        await pipe.Writer.WriteAsync(body.AsMemory(2_000_000));
        await pipe.Writer.CompleteAsync();
        using HttpResponseMessage response = await slow;
        Assert.Equal(Convert.ToHexStringLower(SHA256.HashData(body)), await response.Content.ReadAsStringAsync());
    }

    [Fact]
    public async Task A_flood_on_STDERR_of_a_script_is_bounded_and_does_no_harm()
    {
        await using PhpApp app = await StartAsync();
        Assert.Equal((200, "flooded"), await GetAsync(app, "/flood.php"));
        Assert.True(app.Said.All.Sum(static line => line.Length) < 200_000);
        Assert.Equal(200, (await GetAsync(app, "/pid.php")).Status);
    }
}
