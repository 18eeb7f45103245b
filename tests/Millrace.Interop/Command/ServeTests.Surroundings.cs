// What a daemon finds where it is started, or is told by whoever starts it, that is not as it should be.

using System.Net.Sockets;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    [Fact]
    public async Task A_service_manager_that_does_not_read_holds_up_neither_applications_nor_the_end()
    {
        string path = Path.Combine(_directory.Path, "notify");
        using var manager = new Socket(AddressFamily.Unix, SocketType.Dgram, ProtocolType.Unspecified);
        manager.Bind(new UnixDomainSocketEndPoint(path));
        using (var another = new Socket(AddressFamily.Unix, SocketType.Dgram, ProtocolType.Unspecified) { Blocking = false })
        {
            await another.ConnectAsync(new UnixDomainSocketEndPoint(path));
            for (bool isFull = false; !isFull;)
            {
                try
                {
                    another.Send("WATCHDOG=1"u8);
                }
                catch (SocketException error) when (error.SocketErrorCode == SocketError.WouldBlock)
                {
                    isFull = true;
                }
            }
        }
        Write(App("shop", _shop));
        var daemon = CommandProcess.MillraceWith(["NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=200000", "FDSTORE=1024"], "serve", File);
        _daemons.Add(daemon);
        await daemon.WaitForErrorAsync("millrace: serving ");
        await WaitForStatusAsync("shop", "serving");
        daemon.Signal(1);
        await daemon.WaitForErrorAsync("applications deployed");
        await daemon.WaitForErrorAsync("the service manager does not read what it is told");
        Assert.Equal("", await _client.GetStringAsync(_shop + "/title"));

        daemon.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await daemon.WaitForExitAsync());
        Assert.Single(daemon.Error.Split('\n'), static line => line.Contains("the service manager does not read", StringComparison.Ordinal));
    }

    // The longest path that fits into no address of a socket, and periods that are none.
    [Theory]
    [InlineData(108, "200000")]
    [InlineData(20, "1")]
    [InlineData(20, "9223372036854775807")]
    public async Task A_service_manager_that_cannot_be_is_none(int length, string period)
    {
        Write(App("shop", _shop));
        var daemon = CommandProcess.MillraceWith(["NOTIFY_SOCKET=/" + new string('n', length - 1), "WATCHDOG_USEC=" + period], "serve", File);
        _daemons.Add(daemon);
        await daemon.WaitForErrorAsync("millrace: serving ");
        daemon.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await daemon.WaitForExitAsync());
    }

    [Fact]
    public async Task Ends_of_processes_are_seen_also_where_whoever_starts_the_daemon_ignores_those_of_his()
    {
        Write(App("shop", _shop));
        string command = CommandProcess.AssemblyOf("src/Millrace.Command", "Millrace.Command");
        var daemon = CommandProcess.StartProgram("bash", "-c", $"trap '' CHLD; exec dotnet {command} serve {File}");
        _daemons.Add(daemon);
        await daemon.WaitForOutputAsync("shop: generation 1 serves");
        string first = await _client.GetStringAsync(_shop + "/process");
        using (var process = System.Diagnostics.Process.GetProcessById(int.Parse(first, System.Globalization.CultureInfo.InvariantCulture)))
        {
            process.Kill();
        }
        await daemon.WaitForOutputAsync(" was ended by signal 9");
        Assert.NotEqual(first, await _client.GetStringAsync(_shop + "/process"));

        daemon.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await daemon.WaitForExitAsync());
    }

    // It is a file when it is looked at, and a pipe when it is read.
    [Fact]
    public async Task A_file_that_becomes_a_pipe_while_it_is_read_keeps_nobody_waiting()
    {
        string[] names = [Path.Combine(_directory.Path, "one"), Path.Combine(_directory.Path, "other")];
        Write(App("shop", _shop));
        string text = await System.IO.File.ReadAllTextAsync(File);
        using var stop = new CancellationTokenSource();
        await System.IO.File.WriteAllTextAsync(names[0], text, CancellationToken.None);
        await using (var pipe = CommandProcess.StartProgram("mkfifo", names[1]))
        {
            Assert.Equal(0, await pipe.WaitForExitAsync());
        }
        var changing = Task.Run(() =>
        {
            for (int i = 0; !stop.IsCancellationRequested; i++)
            {
                System.IO.File.Delete(File + ".next");
                System.IO.File.CreateSymbolicLink(File + ".next", names[i % 2]);
                System.IO.File.Move(File + ".next", File, overwrite: true);
            }
        }, CancellationToken.None);
        var defaults = new Millrace.Command.Serving.DaemonPlaces(Control, _directory.Path);
        var reading = Task.Factory.StartNew(() =>
        {
            for (long begun = Environment.TickCount64; Environment.TickCount64 - begun < 5_000;)
            {
                _ = Millrace.Command.Serving.ServeFileSource.TryRead(File, defaults, out _);
            }
        }, CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
        await reading.WaitAsync(Patience, CancellationToken.None);
        await stop.CancelAsync();
        await changing;
    }

    // It comes while the daemon is told to end, which systemd starts again.
    [Fact]
    public async Task Who_starts_an_application_while_the_daemon_is_started_again_is_served_by_the_next_one()
    {
        using var manager = new FakeManager(Path.Combine(_directory.Path, "notify"));
        Write(App("shop", _shop, "\"onDemand\": true"));
        var daemon = StartUnder(manager);
        await daemon.WaitForOutputAsync("shop: waits for its first visitor");
        var visit = _client.GetAsync(_shop + "/title");
        await daemon.WaitForOutputAsync("shop: somebody has come");
        daemon.Signal(CommandProcess.SigTerm);
        Assert.Equal(0, await daemon.WaitForExitAsync());
        Assert.DoesNotContain("generation 1 serves", daemon.Output, StringComparison.Ordinal);
        await Task.Delay(300);
        Assert.False(visit.IsCompleted);

        StartUnder(manager);
        using var answer = await visit;
        Assert.Equal(System.Net.HttpStatusCode.OK, answer.StatusCode);
    }
}
