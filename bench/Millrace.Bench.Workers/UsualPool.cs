// What one writes when there is no pool at hand: a semaphore that counts free workers, a bag of them, and for each a thread with a blocking queue.

using System.Collections.Concurrent;

internal sealed class UsualPool<TWorker> : IDisposable
{
    private readonly SemaphoreSlim _places;
    private readonly ConcurrentBag<Seat> _free = [];
    private readonly List<Seat> _all = [];

    public UsualPool(Func<TWorker> factory, int count)
    {
        _places = new SemaphoreSlim(count);
        for (int i = 0; i < count; i++)
        {
            var seat = new Seat(factory);
            _all.Add(seat);
            _free.Add(seat);
        }
    }

    public async Task<TResult> RunAsync<TResult>(Func<TWorker, CancellationToken, TResult> callback, CancellationToken ct)
    {
        await _places.WaitAsync(ct);
        _ = _free.TryTake(out Seat? seat);
        try
        {
            var answer = new TaskCompletionSource<TResult>(TaskCreationOptions.RunContinuationsAsynchronously);
            seat!.Work.Add(worker =>
            {
                try
                {
                    answer.SetResult(callback(worker, ct));
                }
                catch (Exception error)
                {
                    answer.SetException(error);
                }
            }, ct);
            return await answer.Task;
        }
        finally
        {
            _free.Add(seat!);
            _ = _places.Release();
        }
    }

    public void Dispose()
    {
        foreach (Seat seat in _all)
        {
            seat.Work.CompleteAdding();
            seat.Thread.Join();
            seat.Work.Dispose();
        }
        _places.Dispose();
    }

    private sealed class Seat
    {
        public Seat(Func<TWorker> factory)
        {
            Thread = new Thread(() =>
            {
                TWorker worker = factory();
                foreach (var work in Work.GetConsumingEnumerable())
                {
                    work(worker);
                }
            }) { IsBackground = true };
            Thread.Start();
        }

        public BlockingCollection<Action<TWorker>> Work { get; } = [];

        public Thread Thread { get; }
    }
}
