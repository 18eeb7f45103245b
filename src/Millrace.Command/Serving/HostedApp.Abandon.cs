// A stop, a hold, a restart, or a file that says something else by now, does not wait for a generation that is on its way, or is about to be: a build alone may take minutes. That one is given up.

namespace Millrace.Command.Serving;

internal sealed partial class HostedApp
{
    private const string Abandoned = "somebody has had it stopped, held or begun anew meanwhile";

    private CancellationTokenSource _wanted = new();     // whatever is on its way; fresh when nobody waits any more to end it
    private int _ends;

    // Those who have asked before, and wait for their turn, find that nobody wants it any more.
    private async Task<string?> DoInsteadAsync(Func<Task<string?>> action)
    {
        CancellationTokenSource wanted;
        lock (_lock)
        {
            _ends++;
            wanted = _wanted;
        }
        await wanted.CancelAsync().ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        return await DoAsync(async () =>
        {
            lock (_lock)
            {
                if (--_ends == 0)
                {
                    _wanted = new CancellationTokenSource();
                }
            }
            return await action();
        });
    }

    /// <summary>Has what is on its way given up, or about to be; ends when it has been.</summary>
    public Task GiveUpAsync() => DoInsteadAsync(static () => Task.FromResult<string?>(null));

    /// <summary>What ends whatever is begun now: a stop, a hold, or the end of the application.</summary>
    private CancellationTokenSource WhileWanted()
    {
        lock (_lock)
        {
            return CancellationTokenSource.CreateLinkedTokenSource(_ending.Token, _wanted.Token);
        }
    }

    private bool IsUnwanted => Volatile.Read(ref _ends) > 0;

    private string WhyGivenUp => _ending.IsCancellationRequested ? _voice.WhyItEnds : Abandoned;
}
