// The app as a child of `millrace run`: what it says and how it ends, whatever else holds its pipe. A shell stands in for it.

using System.Diagnostics;
using Millrace.Command;
using Millrace.Command.Running;

namespace Millrace.Tests.Command;

public sealed class AppProcessTests
{
    // Started as the app's child, it keeps the report pipe open for long.
    private const string Child = "sleep 20 </dev/null >/dev/null 2>&1 &";

    [Fact]
    public async Task End_of_an_app_is_noticed_though_its_child_keeps_the_report_open()
    {
        long start = Stopwatch.GetTimestamp();
        using var app = Start($"{Child} exit 3");

        Assert.Empty(await app.WaitForAddressesAsync(chosen: null));
        Assert.Equal(3, await app.WaitForExitAsync());
        Assert.InRange(Stopwatch.GetElapsedTime(start).TotalSeconds, 0, 10);
    }

    [Fact]
    public async Task What_an_app_said_before_it_ended_is_heard()
    {
        using var app = Start($"{Child} echo '?It has no licence.' >/proc/self/fd/$MILLRACE_RUN_REPORT; exit 1");

        var failure = await Assert.ThrowsAsync<CommandFailure>(() => app.WaitForAddressesAsync(chosen: null));

        Assert.Equal("It has no licence.", failure.Message);
    }

    [Fact]
    public async Task Addresses_are_heard_while_the_app_runs_on()
    {
        using var app = Start("echo 'http://127.0.0.1:5000;fastcgi://127.0.0.1:9000' >/proc/self/fd/$MILLRACE_RUN_REPORT; sleep 1");

        Assert.Equal(["http://127.0.0.1:5000", "fastcgi://127.0.0.1:9000"], await app.WaitForAddressesAsync(chosen: null));
        Assert.Equal(0, await app.WaitForExitAsync());
    }

    [Fact]
    public void App_that_cannot_be_started_is_refused_with_its_name()
    {
        var failure = Assert.Throws<CommandFailure>(() => AppProcess.Start(new AppStart(new RunnableApp("/nowhere/App.dll", "/", "/nowhere/App"), null, false, null, [])));

        Assert.StartsWith("/nowhere/App cannot be started", failure.Message, StringComparison.Ordinal);
    }

    private static AppProcess Start(string script) => AppProcess.Start(new AppStart(new RunnableApp("/nowhere/App.dll", "/", "/bin/sh"), null, false, null, ["-c", script]));
}
