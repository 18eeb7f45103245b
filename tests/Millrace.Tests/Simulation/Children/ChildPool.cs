// A pool of simulated children, with the rules of ProcessPool: the first that is free has the next call, one that has ended is replaced, and whoever takes too long is killed behind its caller's answer.

using Millrace.Connector;

namespace Millrace.Tests.Simulation.Children;

/// <summary>The pool has answered instead of the child.</summary>
internal sealed class PoolAnswerException(string why) : Exception(why);

internal sealed class ChildPool
{
    private static readonly TimeSpan s_callLimit = TimeSpan.FromSeconds(3);
    private static readonly TimeSpan s_cancelGrace = TimeSpan.FromMilliseconds(200);
    private static readonly TimeSpan s_abortLimit = TimeSpan.FromMilliseconds(300);
    private static readonly TimeSpan s_startPause = TimeSpan.FromMilliseconds(100);

    private readonly ChildrenWorld _world;
    private readonly Place[] _places;
    private readonly List<TaskCompletionSource<Place>> _queue = [];
    private int _lastChild;

    public ChildPool(ChildrenWorld world, int places)
    {
        _world = world;
        _places = [.. Enumerable.Range(0, places).Select(static _ => new Place())];
        Array.ForEach(_places, Start);
    }

    public IReadOnlyList<SimulatedChild> Children => [.. _places.Select(static place => place.Child).OfType<SimulatedChild>()];

    /// <summary>Every place has a child, and none is in use.</summary>
    public bool IsIdle => _queue.Count == 0 && Array.TrueForAll(_places, static place => place is { IsBusy: false, Child: { HasExited: false, IsEnding: false } });

    public async Task RunAsync(string id, Func<IProgramConnections, CancellationToken, Task<bool>> run, CancellationToken ct)
    {
        Place place = await TakeAsync(ct).ConfigureAwait(false);
        var answer = new TaskCompletionSource();
        place.Answer = answer;
        place.Request = id;
        _world.Of(id).Given++;
        _ = HoldAsync(place, run, answer, ct);
        await answer.Task.ConfigureAwait(false);
    }

    private async Task HoldAsync(Place place, Func<IProgramConnections, CancellationToken, Task<bool>> run, TaskCompletionSource answer, CancellationToken ct)
    {
        using var stop = CancellationTokenSource.CreateLinkedTokenSource(ct);
        place.Stop = stop;
        Exception? failure = null;
        using (ITimer limit = _world.Time.CreateTimer(_ => BreakOff(place, "it has taken too long"), null, s_callLimit, Timeout.InfiniteTimeSpan))
        {
            try
            {
                _ = await run(place.Connection!, stop.Token).ConfigureAwait(false);
            }
            catch (Exception error)
            {
                failure = error;
            }
        }

        place.Stop = null;
        place.Answer = null;
        Free(place);
        _ = failure is null ? answer.TrySetResult() : answer.TrySetException(failure);
    }

    // The caller is answered, the call is told, and if it has not ended soon its child is killed.
    private void BreakOff(Place place, string why)
    {
        if (place is not { Answer: { } answer, Stop: { } stop, Child: { } child })
        {
            return;
        }

        _world.Blame(place.Request, why);
        _ = answer.TrySetException(new PoolAnswerException(why));
        stop.Cancel();
        _ = _world.Time.CreateTimer(
            _ =>
            {
                if (place.Stop == stop)
                {
                    child.Die();
                }
            },
            null, s_cancelGrace, Timeout.InfiniteTimeSpan);
    }

    /// <summary>What an administrator does.</summary>
    public void Kill(int index)
    {
        Place place = _places[index % _places.Length];
        BreakOff(place, "it was killed");
        place.Child?.Die();
    }

    private async Task<Place> TakeAsync(CancellationToken ct)
    {
        if (_queue.Count == 0 && Array.Find(_places, static place => place is { IsBusy: false, Child.HasExited: false }) is { } free)
        {
            free.IsBusy = true;
            return free;
        }

        var waiting = new TaskCompletionSource<Place>();
        _queue.Add(waiting);
        using CancellationTokenRegistration leaving = ct.UnsafeRegister(
            _ =>
            {
                if (_queue.Remove(waiting))
                {
                    _ = waiting.TrySetCanceled(ct);
                }
            },
            null);
        return await waiting.Task.ConfigureAwait(false);
    }

    private void Free(Place place)
    {
        if (place.Child is not { HasExited: false })
        {
            place.IsBusy = false;
            Start(place);
            return;
        }

        place.IsBusy = _queue.Count > 0;
        if (place.IsBusy)
        {
            TaskCompletionSource<Place> next = _queue[0];
            _queue.RemoveAt(0);
            next.SetResult(place);
        }
    }

    private void Start(Place place)
    {
        place.Connection?.Dispose();
        place.Connection = null;
        place.Child = null;
        if (!_world.IsCalm && _world.Random.Chance(25))
        {
            _world.Note("a child crashes at its start");
            _ = _world.Time.CreateTimer(_ => Start(place), null, s_startPause, Timeout.InfiniteTimeSpan);
            return;
        }

        var child = new SimulatedChild(_world, ++_lastChild) { IsSurvived = _lastChild % 4 == 1 };
        place.Child = child;
        place.Connection = new ProcessConnection(child, s_abortLimit, _world.Time);
        _ = child.Exited.ContinueWith(
            _ =>
            {
                if (!place.IsBusy && place.Child == child)
                {
                    Start(place);
                }
            },
            CancellationToken.None, TaskContinuationOptions.ExecuteSynchronously, TaskScheduler.Default);
        place.IsBusy = true;
        Free(place);
    }

    public void Dispose() => Array.ForEach(_places, static place => place.Connection?.Dispose());

    private sealed class Place
    {
        public SimulatedChild? Child { get; set; }

        public ProcessConnection? Connection { get; set; }

        public bool IsBusy { get; set; }

        public string? Request { get; set; }

        /// <summary>Of its caller; null: it has no call.</summary>
        public TaskCompletionSource? Answer { get; set; }

        public CancellationTokenSource? Stop { get; set; }
    }
}
