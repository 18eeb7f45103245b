// What a process may use, and when it is replaced while it is well: by the kernel where the daemon may make control groups, else by looking.

using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text.Json;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    private const string KeptByTheKernel = "memory 256m kept by the kernel; descriptors 1000 kept by the kernel; processes 200 kept by the kernel; cpu 0.5 kept by the kernel";

    [Fact]
    public async Task A_process_is_kept_to_its_limits_or_it_is_said_that_it_is_not()
    {
        Write(App("shop", _shop, """ "limits": { "memory": "256m", "descriptors": 1000, "processes": 200, "cpu": 0.5 } """), App("blog", _blog));
        var daemon = await StartAsync();
        JsonElement shop = AppOf("shop", await StatusAsync());
        int process = ProcessesOf("shop", await StatusAsync()).Single();
        string limits = shop.GetProperty("limits").GetString()!;

        Assert.Equal(["1000", "1000"], LimitOf(process, "Max open files"));
        Assert.NotEqual(["1000", "1000"], LimitOf(ProcessesOf("blog", await StatusAsync()).Single(), "Max open files"));
        Assert.Contains("shop: limits of each process: " + limits, daemon.Output, StringComparison.Ordinal);
        Assert.Contains("    limits: " + limits, (await DoAsync("status")).Output, StringComparison.Ordinal);
        Assert.Equal(JsonValueKind.Null, AppOf("blog", await StatusAsync()).GetProperty("limits").ValueKind);
        if (limits != KeptByTheKernel)
        {
            Assert.Matches(@"^memory 256m looked at once a second, and a process with more is replaced \(.+\); descriptors 1000 kept by the kernel; processes 200 NOT in force \(.+\); cpu 0.5 NOT in force \(.+\)$", limits);
            return;
        }

        string own = string.Create(CultureInfo.InvariantCulture, $"/millrace-{daemon.Id}/shop-1-1");
        Assert.Contains(own, await System.IO.File.ReadAllTextAsync($"/proc/{process}/cgroup"), StringComparison.Ordinal);
        Assert.DoesNotContain(own, await System.IO.File.ReadAllTextAsync($"/proc/{daemon.Id}/cgroup"), StringComparison.Ordinal);
        Assert.All(Directory.GetDirectories($"/proc/{daemon.Id}/task"), task => Assert.DoesNotContain(own, System.IO.File.ReadAllText(task + "/cgroup"), StringComparison.Ordinal));
        Assert.Equal("192 1", await _client.GetStringAsync(_shop + "/most"));        // known to the runtime from its start

        await Assert.ThrowsAsync<HttpRequestException>(() => _client.PostAsync(_shop + "/grow/512", null));
        await WaitForAsync(async () => (await StatusAsync()).Contains("was ended by the kernel: it had come to its limit of memory, 256m", StringComparison.Ordinal));
        Assert.NotEqual(process.ToString(CultureInfo.InvariantCulture), await _client.GetStringAsync(_shop + "/process"));

        string[] folders = [.. Directory.GetDirectories("/sys/fs/cgroup", $"millrace-{daemon.Id}", SearchOption.AllDirectories)];
        Assert.NotEmpty(folders);
        Assert.All(folders, static folder => Assert.Single(Directory.GetDirectories(folder)));
        Assert.Equal(0, (await DoAsync("shutdown")).ExitCode);
        Assert.Equal(0, await daemon.WaitForExitAsync());
        Assert.DoesNotContain(folders, Directory.Exists);
    }

    private static string[] LimitOf(int process, string name) =>
        [.. System.IO.File.ReadAllLines($"/proc/{process}/limits").Single(line => line.StartsWith(name, StringComparison.Ordinal))[name.Length..].Split(' ', StringSplitOptions.RemoveEmptyEntries).Take(2)];

    // Beside it one that is never over its bound, and clients who must not notice.
    [Fact]
    public async Task Without_control_groups_a_process_that_holds_too_much_is_replaced_and_nobody_notices()
    {
        Write(App("shop", $"fastcgi://unix:{Socket};{_shop}", """ "limits": { "memory": "300m", "cpu": 0.5 } """), App("blog", _blog, """ "limits": { "memory": "1g" } """));
        string command = $"dotnet '{CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command")}' serve '{File}'";
        _daemons.Add(Environment.IsPrivilegedProcess
            ? CommandProcess.StartProgram("unshare", "--mount", "sh", "-c", "for tree in $(awk '$3 ~ /^cgroup/ { print $2 }' /proc/mounts); do umount \"$tree\"; done; exec " + command)
            : CommandProcess.Millrace("serve", File));
        await _daemons[0].WaitForErrorAsync("millrace: serving ");
        await WaitForStatusAsync("shop", "serving");
        await WaitForStatusAsync("blog", "serving");
        string why = Environment.IsPrivilegedProcess ? "there are no control groups here" : ".+";
        Assert.Matches($@"^memory 300m looked at once a second, and a process with more is replaced \({why}\); cpu 0.5 NOT in force \({why}\)$", AppOf("shop", await StatusAsync()).GetProperty("limits").GetString()!);
        string blog = await _client.GetStringAsync(_blog + "/process");

        await UnderLoadAsync(async () =>
        {
            string process = await _client.GetStringAsync(_shop + "/process");
            Assert.Equal(HttpStatusCode.OK, (await _client.PostAsync(_shop + "/grow/300", null)).StatusCode);
            await WaitForAsync(async () => await _client.GetStringAsync(_shop + "/process") != process);
            Assert.Contains(AppOf("shop", await StatusAsync()).GetProperty("events").EnumerateArray(), happened => happened.GetProperty("what").GetString()!.Contains($"serves in the place of {process}: it holds ", StringComparison.Ordinal));
        });

        JsonElement shop = AppOf("shop", await StatusAsync());
        Assert.Equal((1, 0, 1), (shop.GetProperty("recycles").GetInt32(), shop.GetProperty("restarts").GetInt32(), shop.GetProperty("generation").GetInt32()));
        Assert.Equal(blog, await _client.GetStringAsync(_blog + "/process"));
    }

    [Theory]
    [InlineData("\"requests\": 1000", "it has served \\d+ requests")]
    [InlineData("\"age\": \"10s\"", "it has served for \\d+s")]
    [InlineData("\"memory\": \"32m\"", "it holds \\d+ MiB")]
    public async Task A_process_that_has_served_enough_is_replaced_and_nobody_notices(string bound, string why)
    {
        Write(App("shop", $"fastcgi://unix:{Socket};{_shop}", "\"instances\": 2", $"\"recycle\": {{ {bound} }}"));
        await StartAsync();
        int[] before = [.. ProcessesOf("shop", await StatusAsync())];

        await UnderLoadAsync(() => WaitForAsync(async () => !ProcessesOf("shop", await StatusAsync()).Intersect(before).Any()));

        string status = await StatusAsync();
        Assert.Equal(2, ProcessesOf("shop", status).Distinct().Count());
        Assert.Equal((0, 1), (AppOf("shop", status).GetProperty("restarts").GetInt32(), AppOf("shop", status).GetProperty("generation").GetInt32()));
        Assert.All(before, process => Assert.Matches($"serves in the place of {process}: {why}", status));
        await WaitForAsync(() => Task.FromResult(!before.Any(static process => Directory.Exists($"/proc/{process}"))));
    }

    // A bound that nothing comes to, and one that is there only for a failure to be seen: the code cannot be started again.
    [Fact]
    public async Task A_process_that_cannot_be_replaced_goes_on()
    {
        string flag = Path.Combine(_directory.Path, "ends");
        Write(App("shop", _shop, $$""" "environment": { "ENDS_WHILE": "{{flag}}" }, "recycle": { "age": "10s" } """), App("blog", _blog, """ "recycle": { "age": "720h", "requests": 1000000000000, "memory": "1024g" } """));
        await StartAsync();
        string[] processes = [await _client.GetStringAsync(_shop + "/process"), await _client.GetStringAsync(_blog + "/process")];
        await System.IO.File.WriteAllTextAsync(flag, "");

        await WaitForAsync(async () => (await StatusAsync()).Contains("and goes on: The process ended with exit code 3 before it listened.", StringComparison.Ordinal));
        await Task.Delay(TimeSpan.FromSeconds(2));

        Assert.Equal(processes, (string[])[await _client.GetStringAsync(_shop + "/process"), await _client.GetStringAsync(_blog + "/process")]);
        Assert.Equal(("serving", 0), (AppOf("shop", await StatusAsync()).GetProperty("state").GetString(), AppOf("shop", await StatusAsync()).GetProperty("recycles").GetInt32()));

        // One that ends meanwhile is replaced at once.
        System.IO.File.Delete(flag);
        using (var process = System.Diagnostics.Process.GetProcessById(int.Parse(processes[0], CultureInfo.InvariantCulture)))
        {
            process.Kill();
            await process.WaitForExitAsync();
        }
        Assert.NotEqual(processes[0], await _client.GetStringAsync(_shop + "/process").WaitAsync(TimeSpan.FromSeconds(20)));
    }

    [Theory]
    [InlineData("\"limits\": { \"cpu\": 2 }", true)]
    [InlineData("\"limits\": { \"descriptors\": 1000 }", false)]
    public async Task The_unit_lets_the_daemon_make_groups_where_a_limit_needs_one(string limit, bool needs)
    {
        await System.IO.File.WriteAllTextAsync(File, $"{{ \"control\": \"/run/millrace/control.sock\", \"snapshots\": \"/var/cache/millrace\", \"apps\": [ {App("shop", _shop, limit)} ] }}");
        string unit = (await CommandProcess.RunAsync("unit", File)).Output;

        Assert.Equal(needs, unit.Contains("\nDelegate=memory pids cpu\n", StringComparison.Ordinal));
        Assert.Equal(needs && Environment.IsPrivilegedProcess, unit.Contains("\nProtectControlGroups=no\n", StringComparison.Ordinal));
        if (System.IO.File.Exists("/usr/bin/systemd-analyze"))
        {
            string written = Path.Combine(_directory.Path, "millrace.service");
            await System.IO.File.WriteAllTextAsync(written, unit);
            await using var verify = CommandProcess.StartProgram("systemd-analyze", "verify", written);
            await verify.WaitForExitAsync();
            Assert.DoesNotContain(verify.Error.Split('\n'), line => line.StartsWith(written, StringComparison.Ordinal));
        }
    }

    // Connections that are kept, over both protocols; a close, a refusal or a wrong answer ends the test.
    private async Task UnderLoadAsync(Func<Task> meanwhile)
    {
        using var stop = new CancellationTokenSource();
        var clients = Enumerable.Range(0, 6).Select(i => Task.Run(() => i % 2 == 0 ? AskOverHttpAsync(i, stop.Token) : AskOverFastCgiAsync(i, stop.Token))).ToArray();
        await await Task.WhenAny([.. clients, meanwhile()]);
        await stop.CancelAsync();
        Assert.All(await Task.WhenAll(clients), static count => Assert.InRange(count, 10, int.MaxValue));
    }

    // Its question would wait behind them, and be without an answer until the process is killed.
    [Fact]
    public async Task Visitors_who_take_their_time_keep_nobody_from_asking_how_the_application_is_MaxConcurrentRequests()
    {
        string asks = FreeAddress();
        Write(App("shop", $"{_shop};{asks}?gate=off", """ "environment": { "Millrace__MaxConcurrentRequests": "1" } """).Replace("\"hang\": \"5s\"", "\"hang\": \"2s\"", StringComparison.Ordinal));
        await StartAsync();
        string process = await _client.GetStringAsync(_shop + "/process");
        using var slow = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { ReceiveTimeout = 20_000 };
        await slow.ConnectAsync("127.0.0.1", new Uri(_shop).Port);
        await slow.SendAsync("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n"u8.ToArray());
        for (int i = 0; i < 10; i++)
        {
            await slow.SendAsync(new byte[500]);
            await Task.Delay(500);
            Assert.Equal(process, await _client.GetStringAsync(asks + "/process"));
        }
        byte[] answer = new byte[12];
        Assert.Equal(12, slow.Receive(answer));
        Assert.Equal("HTTP/1.1 200", System.Text.Encoding.ASCII.GetString(answer));
        Assert.Equal(0, AppOf("shop", await StatusAsync()).GetProperty("restarts").GetInt32());
    }
}
