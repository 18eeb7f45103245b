// What a build has started ends with it, and nobody else does; nor does anything of it stay open here.

using System.Diagnostics;
using System.Globalization;
using System.Runtime.Versioning;
using Millrace.Command.Running;
using Millrace.Platform;

namespace Millrace.Tests.Command;

[SupportedOSPlatform("linux")]
[Collection(Millrace.Tests.Stress.AloneCollection.Name)]
public sealed class ProcessTreeTests : IDisposable
{
    private static readonly TimeSpan s_long = TimeSpan.FromSeconds(20);

    private readonly string _folder = Directory.CreateTempSubdirectory("millrace-tree-").FullName;

    public void Dispose() => Directory.Delete(_folder, recursive: true);

    [Theory]
    [InlineData(null)]
    [InlineData("nobody")]
    public async Task All_that_a_process_has_started_ends_with_it_and_nobody_else_does(string? name)
    {
        if (!OperatingSystem.IsLinux() || (name is not null && OtherUser.Find(name) is null))
        {
            return;
        }

        using Process stranger = Process.Start("sleep", "100");
        using Process first = Start("sleep 100 & (sleep 100 & sleep 100 & echo ready; wait) & wait", name);
        Assert.Equal("ready", await first.StandardOutput.ReadLineAsync().WaitAsync(s_long));
        ProcessTree.Kill(first, OtherUser.Find(name));

        await first.WaitForExitAsync().WaitAsync(s_long);
        Assert.Equal(128 + Posix.SigKill, first.ExitCode);
        Assert.Null(await first.StandardOutput.ReadLineAsync().WaitAsync(s_long));      // none of them holds the pipe
        Assert.False(stranger.HasExited);
        stranger.Kill();
    }

    // Behind its end the number of a process may be another's, whose children it had never started.
    [Fact]
    public async Task A_process_that_has_been_waited_for_has_no_children_whoever_has_its_number()
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        using Process child = Process.Start("sleep", "100");
        using Process other = Process.Start("sleep", "100");
        int ours = Posix.OpenProcess(Environment.ProcessId);
        int others = Posix.OpenProcess(other.Id);
        Assert.True(ProcessTree.IsChild(child.Id, Environment.ProcessId, ours));
        Assert.False(ProcessTree.IsChild(child.Id, other.Id, others));
        Assert.True(ProcessTree.IsChild(child.Id, Environment.ProcessId, others));      // as if it had the number of this process
        other.Kill();
        await other.WaitForExitAsync().WaitAsync(s_long);

        Assert.False(ProcessTree.IsChild(child.Id, Environment.ProcessId, others));
        child.Kill();
        _ = SystemCalls.Close(ours);
        _ = SystemCalls.Close(others);
    }

    [Fact]
    public async Task Builds_that_leave_somebody_behind_who_has_their_pipes_leave_nothing_open_here()
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        string builder = Path.Combine(_folder, "builder");
        string left = Path.Combine(_folder, "left");
        await File.WriteAllTextAsync(builder, $"#!/bin/sh\n(setsid sleep 100 & echo $! >>{left})\nexec sleep 100\n");
        File.SetUnixFileMode(builder, (UnixFileMode)0x1ED);
        string[] behind = [];
        try
        {
            await BuildAsync(1);        // what is opened once for good
            int before = Open();
            for (int i = 2; i <= 5; i++)
            {
                await BuildAsync(i);
            }
            for (long begun = Environment.TickCount64; Open() > before && Environment.TickCount64 - begun < 5_000;)
            {
                await Task.Delay(20);
            }
            Assert.InRange(Open(), 0, before);
            Assert.All(behind, static id => Assert.True(Directory.Exists("/proc/" + id)));       // they still have the other ends
        }
        finally
        {
            Array.ForEach(behind, static id => _ = Posix.Kill(int.Parse(id, CultureInfo.InvariantCulture), Posix.SigKill));
        }

        async Task BuildAsync(int number)
        {
            using var end = new CancellationTokenSource();
            Task<string> build = ProjectBuild.BuildAsync(new ProjectBuild.Order("/Shop.csproj", User: null, Builder: builder), static _ => { }, "see there", end.Token);
            for (long begun = Environment.TickCount64; behind.Length < number && Environment.TickCount64 - begun < s_long.TotalMilliseconds;)
            {
                await Task.Delay(20, CancellationToken.None);
                behind = File.Exists(left) ? await File.ReadAllLinesAsync(left, CancellationToken.None) : [];
            }
            Assert.Equal(number, behind.Length);
            await end.CancelAsync();
            await Assert.ThrowsAnyAsync<OperationCanceledException>(() => build);
        }
    }

    private static int Open() => Directory.GetFiles("/proc/self/fd").Length;

    private static Process Start(string script, string? user)
    {
        var start = new ProcessStartInfo("/bin/sh", ["-c", script]) { RedirectStandardOutput = true, WorkingDirectory = "/" };
        if (OtherUser.Find(user) is { } other)
        {
            ProcessStart.Prepare();
            _ = ProcessStart.BecomeUser(start, other);
        }
        return ProcessStart.Now(start);
    }
}
