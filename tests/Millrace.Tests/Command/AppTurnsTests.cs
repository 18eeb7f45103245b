// What gives up what, where one thing is done after the other.

using Millrace.Command.Serving;

namespace Millrace.Tests.Command;

public sealed class AppTurnsTests : IDisposable
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(20);

    private readonly AppTurns _turns = new("it ends", static () => { });
    private readonly SemaphoreSlim _begun = new(0);

    public void Dispose() => _begun.Dispose();

    private async Task<string?> WaitAsync(CancellationTokenSource patience)
    {
        using var its = patience;
        _begun.Release();
        await Task.Delay(Timeout.InfiniteTimeSpan, its.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        return _turns.WhyGivenUp;
    }

    [Fact]
    public async Task Whoever_would_have_it_serve_ends_the_wait_for_what_is_in_progress_and_no_deployment()
    {
        var stop = _turns.DoInsteadAsync(_ => WaitAsync(_turns.WhilePatient()));
        await _begun.WaitAsync(s_patience);
        Assert.Null(await _turns.DoSoonAsync(static () => Task.FromResult<string?>(null)).WaitAsync(s_patience));
        Assert.Equal("somebody has had it stopped, held or begun anew meanwhile", await stop.WaitAsync(s_patience));

        var deployment = _turns.DoAsync(() => WaitAsync(_turns.WhileWanted()));
        await _begun.WaitAsync(s_patience);
        var start = _turns.DoSoonAsync(static () => Task.FromResult<string?>(null));
        await Task.Delay(200);
        Assert.False(deployment.IsCompleted || start.IsCompleted);
        Assert.Null(await _turns.DoInsteadAsync(static _ => Task.FromResult<string?>(null)).WaitAsync(s_patience));
        Assert.NotNull(await deployment.WaitAsync(s_patience));
        Assert.Null(await start.WaitAsync(s_patience));
    }

    // The next one begins with all its patience.
    [Fact]
    public async Task A_wait_that_begins_behind_whoever_was_in_a_hurry_is_not_ended_by_him()
    {
        Assert.Null(await _turns.DoSoonAsync(static () => Task.FromResult<string?>(null)));
        var stop = _turns.DoInsteadAsync(_ => WaitAsync(_turns.WhilePatient()));
        await _begun.WaitAsync(s_patience);
        await Task.Delay(200);
        Assert.False(stop.IsCompleted);
        Assert.Null(await _turns.DoInsteadAsync(static _ => Task.FromResult<string?>(null)).WaitAsync(s_patience));
        Assert.NotNull(await stop.WaitAsync(s_patience));
    }
}
