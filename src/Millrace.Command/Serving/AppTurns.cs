// What is asked of an application is done one thing after the other. A stop, a hold, a restart, or a file that says something else by now, does not wait for a generation that is on its way, or is about
// to be: a build alone may take minutes. That one is given up.

using System.Diagnostics.CodeAnalysis;

namespace Millrace.Command.Serving;

/// <param name="whyItEnds">What is the matter when nothing more is done for it.</param>
/// <param name="done">Is called behind each thing, before the next.</param>
[SuppressMessage("Reliability", "CA1001", Justification = "Whoever comes behind the end asks for a turn, and its token, and is told. They have no timers and no wait handles.")]
internal sealed class AppTurns(string whyItEnds, Action done)
{
    private const string Abandoned = "somebody has had it stopped, held or begun anew meanwhile";

    private readonly SemaphoreSlim _one = new(1);
    private readonly CancellationTokenSource _ending = new();
    private readonly Lock _lock = new();
    private CancellationTokenSource _wanted = new();     // whatever is on its way; fresh when nobody waits any more to end it
    private int _ends;
    private int _givenUp;       // the deployment that whoever is next has ended; 0: none

    /// <summary>Nothing more is done for it, but to end it.</summary>
    public CancellationToken Ending => _ending.Token;

    public bool IsEnding => _ending.IsCancellationRequested;

    /// <summary>Whoever is next wants something else than what is on its way.</summary>
    public bool IsUnwanted => Volatile.Read(ref _ends) > 0;

    public string WhyGivenUp => IsEnding ? whyItEnds : Abandoned;

    /// <summary>What ends whatever is begun now: a stop, a hold, or the end of the application.</summary>
    public CancellationTokenSource WhileWanted()
    {
        lock (_lock)
        {
            return CancellationTokenSource.CreateLinkedTokenSource(_ending.Token, _wanted.Token);
        }
    }

    /// <summary>A deployment is given up for whoever is next, who is told.</summary>
    public void GiveUp(int deployment) => _givenUp = deployment;

    /// <summary>The last thing. What is asked behind it finds it ended, and must not open its addresses again: they may be another application's by then.</summary>
    public async Task EndAsync(Func<Task<string?>> action)
    {
        await _ending.CancelAsync().ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        await DoAsync(action, isEnd: true);
    }

    public Task<string?> DoAsync(Func<Task<string?>> action) => DoAsync(action, isEnd: false);

    private async Task<string?> DoAsync(Func<Task<string?>> action, bool isEnd)
    {
        await _one.WaitAsync();
        try
        {
            return isEnd || !IsEnding ? await action() is { } why ? Sentence.Of(why) : null : whyItEnds;
        }
        finally
        {
            done();
            _one.Release();
        }
    }

    /// <summary>Those who have asked before, and wait for their turn, find that nobody wants it any more.</summary>
    /// <param name="action">Is told which deployment has been given up for it; 0: none.</param>
    public async Task<string?> DoInsteadAsync(Func<int, Task<string?>> action)
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
            int givenUp = _givenUp;
            _givenUp = 0;
            return await action(givenUp);
        });
    }

    /// <summary>Where nothing is under way: has what comes wait.</summary>
    public bool TryBeQuiet() => _one.Wait(TimeSpan.Zero);

    /// <summary>What comes is done again.</summary>
    public void EndQuiet() => _one.Release();
}
