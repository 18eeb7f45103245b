// What is said when a process of an application cannot be started, and what it has open where it can.

using System.Runtime.Versioning;
using Millrace.Command.Running;
using Millrace.Command.Serving;
using Millrace.Platform;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Command;

public sealed class AppInstanceTests
{
    [Theory]
    [InlineData(SystemCalls.EMFILE, null, "LimitNOFILE=")]
    [InlineData(SystemCalls.ENFILE, "shop", "LimitNOFILE=")]
    [InlineData(SystemCalls.EAGAIN, null, "TasksMax=")]
    [InlineData(SystemCalls.ENOMEM, null, "TasksMax=")]
    [InlineData(SystemCalls.E2BIG, "shop", "\"environment\" are longer than")]
    [InlineData(2, null, "Publish the application again.")]
    [InlineData(1, "shop", "The user must exist")]
    public void The_cure_is_for_what_was_lacking(int errno, string? user, string cure) =>
        Assert.Contains(cure, AppInstance.Cure(errno, user), StringComparison.Ordinal);

    // Somebody has stopped the application while its next process was about to be started. What has the numbers of its sockets by then is another's, whom this process must not have.
    [Fact]
    [SupportedOSPlatform("linux")]
    public void A_process_whose_addresses_have_been_closed_is_not_started()
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        using var folder = new SocketFolder();
        AppListeners listeners = Open(folder);
        listeners.Dispose();
        FileStream[] others = [.. Enumerable.Range(0, 16).Select(i => new FileStream(folder.PathOf($"other-{i}"), FileMode.CreateNew))];

        string said = Assert.Throws<InstanceException>(() => AppInstance.Start(StartOf(folder, listeners, "sleep 30", _ => { })).Dispose()).Message;
        Assert.Equal("Its addresses have been closed meanwhile.", said);
        Assert.Throws<MillraceStartException>(() => listeners.CopyOfGives());
        Assert.Throws<MillraceStartException>(() => listeners.CopyOfTakes());
        Array.ForEach(others, static other => other.Dispose());
    }

    [Fact]
    [SupportedOSPlatform("linux")]
    public async Task A_process_has_what_is_listened_on_and_nothing_of_that_stays_open_twice()
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        using var folder = new SocketFolder();
        using AppListeners listeners = Open(folder);
        int[] before = [.. listeners.Listening, listeners.Gives, listeners.Takes];
        string[] sockets = [.. before.Select(SocketOf)];
        var lines = new List<string>();
        using (AppInstance process = AppInstance.Start(StartOf(folder, listeners, "for i in ${MILLRACE_SERVE_URLS##*:} $(echo $MILLRACE_SERVE_MOVE | tr , ' '); do readlink /proc/self/fd/$i; done", lines.Add)))
        {
            Assert.Equal("ended with exit code 0", await process.Exited.WaitAsync(TimeSpan.FromSeconds(20)));
        }
        Assert.Equal(sockets, lines);
        Assert.All(sockets, socket => Assert.Single(Directory.GetFiles("/proc/self/fd"), path => new FileInfo(path).LinkTarget == socket));
    }

    private static string SocketOf(int descriptor) => new FileInfo(SystemCalls.PathOf(descriptor)).LinkTarget!;

    private static AppListeners Open(SocketFolder folder) => AppListeners.Open(
        new AppSettings { Name = "app", Target = "", Urls = [folder.NewAddress("http")] }, new DaemonFolders(new DaemonPlaces(folder.PathOf("control.sock"), folder.PathOf("code"))));

    private static InstanceStart StartOf(SocketFolder folder, AppListeners listeners, string script, Action<string> printed)
    {
        var settings = new AppSettings { Name = "app", Target = "", Urls = [], Arguments = ["-c", script] };
        var output = new AppOutput(line =>
        {
            printed(line);
            return default;
        });
        return new InstanceStart("app-1-1", settings, new RunnableApp("/nowhere/App.dll", "/", "/bin/sh"), listeners, folder.PathOf(""), output) { Groups = new ControlGroups() };
    }
}
