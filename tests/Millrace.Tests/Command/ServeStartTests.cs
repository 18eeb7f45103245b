// When whoever has started the daemon is told that it serves.

using Millrace.Command.Verbs;

namespace Millrace.Tests.Command;

public sealed class ServeStartTests
{
    // systemd would end the daemon, and with it the applications that serve.
    [Fact]
    public async Task An_application_that_never_comes_does_not_keep_the_daemon_from_being_ready()
    {
        var never = new TaskCompletionSource();
        var told = new TaskCompletionSource();
        int times = 0;
        Task started = ServeVerb.TellWhenStartedAsync(never.Task, TimeSpan.FromMilliseconds(20), () =>
        {
            times++;
            told.TrySetResult();
        });
        await told.Task.WaitAsync(TimeSpan.FromSeconds(30), CancellationToken.None);
        Assert.False(started.IsCompleted);

        never.SetResult();
        await started.WaitAsync(TimeSpan.FromSeconds(30), CancellationToken.None);
        Assert.Equal(2, times);
    }

    [Fact]
    public async Task Who_has_started_the_daemon_is_told_once_when_all_have_started()
    {
        int times = 0;
        await ServeVerb.TellWhenStartedAsync(Task.CompletedTask, TimeSpan.FromHours(1), () => times++);
        Assert.Equal(1, times);
    }
}
