// Named signals between a handler and its test, which run in one process: a handler says how far it is, a test says when
// to go on. So no test depends on a pause being long enough.
using System.Collections.Concurrent;
using System.Threading.Channels;

namespace Millrace.Interop.Apps;

public sealed class Signals
{
    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(20);
    private readonly ConcurrentDictionary<string, Signal> _signals = new(StringComparer.Ordinal);

    public void Raise(string name) => Get(name).Raise();

    /// <summary>How often the signal was raised so far.</summary>
    public int Count(string name) => Get(name).Count;

    /// <summary>Waits for the next time the signal is raised that nobody waited for yet.</summary>
    /// <exception cref="TimeoutException">It was not raised in time.</exception>
    public async Task WaitAsync(string name, CancellationToken cancellation = default)
    {
        using var deadline = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
        deadline.CancelAfter(Patience);
        try
        {
            _ = await Get(name).Raised.Reader.ReadAsync(deadline.Token);
        }
        catch (OperationCanceledException) when (!cancellation.IsCancellationRequested)
        {
            throw new TimeoutException($"'{name}' was not signalled within {Patience.TotalSeconds} s.");
        }
    }

    private Signal Get(string name) => _signals.GetOrAdd(name, static _ => new Signal());

    private sealed class Signal
    {
        private int _count;

        public Channel<int> Raised { get; } = Channel.CreateUnbounded<int>();

        public int Count => Volatile.Read(ref _count);

        public void Raise() => Raised.Writer.TryWrite(Interlocked.Increment(ref _count));
    }
}
