// Looks at what may never answer.

using Millrace.Command.Serving;

namespace Millrace.Tests.Command;

public sealed class PatientLookTests
{
    private static readonly TimeSpan s_patience = TimeSpan.FromMilliseconds(300);
    private static readonly TimeSpan s_long = TimeSpan.FromSeconds(30);

    [Fact]
    public async Task A_look_that_stands_is_given_up_and_so_are_all_behind_it_until_it_has_come_to_an_end()
    {
        using var answers = new ManualResetEventSlim();
        var look = new PatientLook(s_patience);
        var late = new TaskCompletionSource<int>();
        var error = await Assert.ThrowsAsync<StandstillException>(() => look.AtAsync("/there", () => Wait(answers), CancellationToken.None, late.SetResult));
        Assert.StartsWith("/there has not answered for ", error.Message, StringComparison.Ordinal);

        int looked = 0;
        for (int i = 0; i < 3; i++)
        {
            await Assert.ThrowsAsync<StandstillException>(() => look.AtAsync("/there", () => ++looked, CancellationToken.None));
        }
        Assert.Equal(0, looked);

        answers.Set();
        Assert.Equal(1, await late.Task.WaitAsync(s_long));
        await LooksAgainAsync(look);
    }

    [Fact]
    public async Task What_goes_on_is_waited_for_however_long_it_takes()
    {
        var patience = TimeSpan.FromSeconds(2);
        var look = new PatientLook(patience);
        Assert.Equal(8, await look.AtAsync(
            "/there",
            () =>
            {
                int i = 0;
                for (; i < 8; i++)
                {
                    Thread.Sleep(patience / 6);
                    look.GoesOn();
                }
                return i;
            },
            CancellationToken.None));
    }

    [Fact]
    public async Task What_fails_fails_as_it_does_also_with_what_a_wait_would_fail_with()
    {
        var look = new PatientLook(s_long);
        for (int i = 0; i < 3; i++)
        {
            await Assert.ThrowsAsync<TimeoutException>(() => look.AtAsync<int>("/there", static () => throw new TimeoutException(), CancellationToken.None));
        }
        await LooksAgainAsync(look);
    }

    [Fact]
    public async Task Whoever_gives_up_gets_nothing_and_what_comes_is_disposed_of()
    {
        using var answers = new ManualResetEventSlim();
        using var given = new CancellationTokenSource();
        var look = new PatientLook(s_long);
        var late = new TaskCompletionSource<int>();
        var looking = look.AtAsync("/there", () => Wait(answers), given.Token, late.SetResult);
        await given.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => looking);
        answers.Set();
        Assert.Equal(1, await late.Task.WaitAsync(s_long));
    }

    // The end of the wait and the answer may come in the same moment: then it is late all the same, and not lost.
    [Fact]
    public async Task What_has_come_when_its_wait_is_over_is_disposed_of()
    {
        using var given = new CancellationTokenSource();
        var look = new PatientLook(s_long);
        var late = new TaskCompletionSource<int>();
        var looking = look.AtAsync(
            "/there",
            () =>
            {
                given.Cancel();
                return 1;
            },
            given.Token,
            late.SetResult);
        var first = await Task.WhenAny(looking, late.Task).WaitAsync(s_long);
        Assert.True(first == late.Task || looking.IsCanceled || looking.IsCompletedSuccessfully);
        if (!looking.IsCompletedSuccessfully)
        {
            Assert.Equal(1, await late.Task.WaitAsync(s_long));
        }
    }

    [Fact]
    public async Task Where_no_thread_is_left_that_is_said_and_the_next_look_finds_one()
    {
        var threads = new Threads { AreLeft = false };
        var look = new PatientLook(s_patience, threads);
        for (int i = 0; i < 3; i++)
        {
            var error = await Assert.ThrowsAsync<StandstillException>(() => look.AtAsync("/there", static () => 1, CancellationToken.None));
            Assert.Contains("no thread is left", error.Message, StringComparison.Ordinal);
        }
        threads.AreLeft = true;
        await LooksAgainAsync(look);
    }

    private static int Wait(ManualResetEventSlim answers)
    {
        answers.Wait();
        return 1;
    }

    private static async Task LooksAgainAsync(PatientLook look)
    {
        long giveUpAt = Environment.TickCount64 + (long)s_long.TotalMilliseconds;
        while (true)
        {
            try
            {
                Assert.Equal(2, await look.AtAsync("/there", static () => 2, CancellationToken.None));
                return;
            }
            catch (StandstillException) when (Environment.TickCount64 < giveUpAt)
            {
                await Task.Delay(10);       // that it has ended is not known yet
            }
        }
    }

    private sealed class Threads : TaskScheduler
    {
        public bool AreLeft { get; set; }

        protected override void QueueTask(Task task)
        {
            if (!AreLeft)
            {
                throw new InvalidOperationException("no memory");
            }
            new Thread(() => TryExecuteTask(task)).Start();
        }

        protected override bool TryExecuteTaskInline(Task task, bool taskWasPreviouslyQueued) => false;

        protected override IEnumerable<Task> GetScheduledTasks() => [];
    }
}
