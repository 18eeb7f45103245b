// Builds of one user, and of one project, one after the other.

using Millrace.Command.Running;
using Millrace.Command.Serving;

namespace Millrace.Tests.Command;

public sealed class BuildTurnTests : IDisposable
{
    private static readonly TimeSpan s_moment = TimeSpan.FromMilliseconds(300);

    private readonly string _project = Directory.CreateTempSubdirectory("millrace-turn-").FullName;

    public void Dispose() => Directory.Delete(_project, recursive: true);

    [Fact]
    public async Task Two_builds_of_this_process_take_turns_and_one_that_is_given_up_takes_none()
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        var first = await BuildTurn.TakeAsync([_project], user: null, CancellationToken.None);
        using var limit = new CancellationTokenSource(s_moment);
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => BuildTurn.TakeAsync([_project], user: null, limit.Token));
        var second = BuildTurn.TakeAsync([_project], user: null, CancellationToken.None);
        await Task.Delay(s_moment);
        Assert.False(second.IsCompleted);

        await first.DisposeAsync();
        await (await second).DisposeAsync();
    }

    [Fact]
    public async Task A_project_that_another_process_builds_is_waited_for()
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        Directory.CreateDirectory(Path.Combine(_project, "obj"));
        await (await BuildTurn.TakeAsync([_project], user: null, CancellationToken.None)).DisposeAsync();
        Task<BuildTurn> waiting;
        using (var other = File.OpenHandle(Path.Combine(_project, "obj/millrace.build.lock"), FileMode.Open, FileAccess.Read, FileShare.ReadWrite))
        {
            Assert.True(Posix.TryLock((int)other.DangerousGetHandle()));
            waiting = BuildTurn.TakeAsync([_project], user: null, CancellationToken.None);
            await Task.Delay(s_moment);
            Assert.False(waiting.IsCompleted);
        }
        await (await waiting).DisposeAsync();
    }

    [Fact]
    public async Task A_project_whose_folder_does_not_answer_keeps_its_turn_from_nobody()
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        var look = new PatientLook(s_moment);
        using var answers = new ManualResetEventSlim();
        await Assert.ThrowsAsync<StandstillException>(() => BuildTurn.TakeAsync([_project], user: null, CancellationToken.None, (folder, open) => look.AtAsync(
            folder,
            () =>
            {
                answers.Wait();
                return open();
            },
            CancellationToken.None)));
        await (await BuildTurn.TakeAsync([_project], user: null, CancellationToken.None).WaitAsync(TimeSpan.FromSeconds(30))).DisposeAsync();
        answers.Set();
    }
}
