// SIGHUP, SIGUSR1 and SIGUSR2 in a process with a server: whose they are, and what becomes of them. With a process of its own, under load:
// Millrace.Interop/Command/SignalTests.cs.

using System.Diagnostics;
using System.Globalization;
using System.Runtime.InteropServices;
using Microsoft.Extensions.Logging;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

[Collection(AloneCollection.Name)]
public sealed class SignalTests : IDisposable
{
    private const int UserSignal1 = 10;
    private const int UserSignal2 = 12;

    private readonly SocketFolder _folder = new();
    private readonly CollectedLog _log = new();

    public void Dispose()
    {
        _log.Dispose();
        _folder.Dispose();
    }

    [Theory]
    [InlineData(null, true)]
    [InlineData(true, true)]
    [InlineData(false, false)]
    public async Task Under_a_host_they_do_nothing_but_a_line_in_the_log_unless_that_is_switched_off(bool? option, bool taken)
    {
        Assert.False(IsCaught(UserSignal1) || IsCaught(UserSignal2), "somebody else has them: nothing can be shown");
        await using (HostedApp app = await HostedApp.StartAsync(
            static _ => { }, builder => builder.Logging.AddProvider(_log).AddFilter("Microsoft", LogLevel.None), options => options.IgnoreSignals = option))
        {
            Assert.Equal((taken, taken), (IsCaught(UserSignal1), IsCaught(UserSignal2)));
            if (taken)
            {
                Send("USR1");
                Send("USR2");
                Assert.True(ProcessState.Becomes(() => _log.Lines.Count(static line => line.Contains("has come, and does nothing here", StringComparison.Ordinal)) == 2), string.Join('\n', _log.Lines));
                Assert.Equal(404, app.Get("/").Status);
            }
        }

        Assert.False(IsCaught(UserSignal1) || IsCaught(UserSignal2));
    }

    [Fact]
    public async Task Those_of_the_application_stay_its_own()
    {
        using var came = new SemaphoreSlim(0);
        using PosixSignalRegistration own = PosixSignalRegistration.Create((PosixSignal)UserSignal1, context =>
        {
            context.Cancel = true;
            came.Release();
        });
        await using HostedApp app = await HostedApp.StartAsync(static _ => { }, builder => builder.Logging.AddProvider(_log).AddFilter("Microsoft", LogLevel.None));
        Send("USR1");
        Assert.True(await came.WaitAsync(10_000));
        Send("USR2");
        Assert.True(ProcessState.Becomes(() => _log.Lines.Any(static line => line.Contains("SIGUSR2 has come", StringComparison.Ordinal))));
        Assert.DoesNotContain(_log.Lines, static line => line.Contains("SIGUSR1", StringComparison.Ordinal));
    }

    [Fact]
    public async Task The_last_of_several_servers_gives_them_back()
    {
        HostedApp first = await HostedApp.StartAsync(static _ => { });
        HostedApp second = await HostedApp.StartAsync(static _ => { });
        await first.DisposeAsync();
        Assert.True(IsCaught(UserSignal1));
        await second.DisposeAsync();
        Assert.False(IsCaught(UserSignal1));
    }

    [Theory]
    [InlineData(null, false)]
    [InlineData(false, false)]
    [InlineData(true, true)]
    public async Task A_server_for_plain_handlers_takes_them_only_where_it_is_asked_to(bool? option, bool taken)
    {
        await using (MillraceServer server = await MillraceServer.StartAsync(
            _folder.NewAddress(), static (_, _) => { }, new MillraceOptions { IgnoreSignals = option }, _log.CreateLogger("Millrace")))
        {
            Assert.Equal(taken, IsCaught(UserSignal1));
            if (taken)
            {
                Send("USR1");
                Assert.True(ProcessState.Becomes(() => _log.Lines.Any(static line => line.Contains("SIGUSR1 has come", StringComparison.Ordinal))));
            }
        }

        Assert.False(IsCaught(UserSignal1));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_server_that_cannot_be_started_gives_them_back(bool isHosted)
    {
        await Assert.ThrowsAsync<MillraceStartException>(() => isHosted
            ? HostedApp.StartAsync(static _ => { }, address: "http://unix:/no/such/directory/s")
            : MillraceServer.StartAsync("http://unix:/no/such/directory/s", static (_, _) => { }, new MillraceOptions { IgnoreSignals = true }));
        Assert.False(IsCaught(UserSignal1) || IsCaught(UserSignal2));
    }

    private static void Send(string signal)
    {
        using Process kill = Process.Start("kill", ["-s", signal, Environment.ProcessId.ToString(CultureInfo.InvariantCulture)]);
        kill.WaitForExit();
        Assert.Equal(0, kill.ExitCode);
    }

    private static bool IsCaught(int signal)
    {
        string caught = File.ReadLines("/proc/self/status").Single(static line => line.StartsWith("SigCgt:", StringComparison.Ordinal));
        return (ulong.Parse(caught.AsSpan("SigCgt:".Length).Trim(), NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture) & (1UL << (signal - 1))) != 0;
    }
}
