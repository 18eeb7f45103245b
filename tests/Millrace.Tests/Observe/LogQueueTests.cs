// Messages of threads that must not wait for a logger: in order, bounded, and what was dropped is counted and said in its place.

using Millrace.Observe;

namespace Millrace.Tests.Observe;

public sealed class LogQueueTests
{
    private readonly List<string> _said = [];
    private readonly Queue<Action> _runs = new();
    private readonly LogQueue _queue;

    public LogQueueTests() => _queue = new LogQueue((count, limit) => _said.Add($"{count} of more than {limit}"), _runs.Enqueue);

    [Fact]
    public void Messages_are_said_in_order_and_not_by_who_adds_them()
    {
        Add(0, 50);
        Assert.Empty(_said);
        Run();
        Assert.Equal(Numbers(0, 50), _said);
        Add(50, 50);
        Run();
        Assert.Equal(Numbers(0, 100), _said);
        Assert.Empty(_runs);
    }

    [Fact]
    public void Where_the_queue_is_full_messages_are_dropped_and_that_is_said_at_the_end()
    {
        Add(0, LogQueue.MessagesMax);
        Add(LogQueue.MessagesMax, 7);
        Run();
        Assert.Equal([.. Numbers(0, LogQueue.MessagesMax), $"7 of more than {LogQueue.MessagesMax}"], _said);
    }

    [Fact]
    public void That_messages_were_dropped_stands_where_they_would_stand()
    {
        _queue.Add(() => Add(LogQueue.MessagesMax + 5, 1));      // the first makes room for one, and there is one more
        Add(0, LogQueue.MessagesMax + 5);
        Run();
        Assert.Equal([.. Numbers(0, LogQueue.MessagesMax - 1), $"6 of more than {LogQueue.MessagesMax}", $"{LogQueue.MessagesMax + 5}"], _said);
    }

    [Fact]
    public async Task Whoever_flushes_waits_for_what_is_queued_but_not_for_ever()
    {
        await _queue.FlushAsync(TimeSpan.FromSeconds(10));      // nothing is
        Add(0, 3);
        Task tooShort = _queue.FlushAsync(TimeSpan.FromMilliseconds(20));
        await tooShort.WaitAsync(TimeSpan.FromSeconds(10));
        Assert.Empty(_said);
        Task flush = _queue.FlushAsync(TimeSpan.FromSeconds(10));
        Run();
        await flush.WaitAsync(TimeSpan.FromSeconds(5));
        Assert.Equal(Numbers(0, 3), _said);
    }

    // On the thread pool its exception would end the process.
    [Fact]
    public void A_message_that_cannot_be_said_keeps_no_other_from_being_said()
    {
        _queue.Add(static () => throw new TypeInitializationException("Log", new InsufficientMemoryException()));
        Add(0, 3);
        Run();
        Add(3, 1);
        Run();
        Assert.Equal(Numbers(0, 4), _said);
    }

    [Fact]
    public void Where_there_was_no_memory_to_begin_with_it_messages_are_said_with_the_next()
    {
        int failures = 2;
        var runs = new Queue<Action>();
        var queue = new LogQueue((count, limit) => _said.Add($"{count} dropped"), run =>
        {
            if (failures-- > 0)
            {
                throw new InsufficientMemoryException();
            }

            runs.Enqueue(run);
        });
        queue.Add(() => _said.Add("0"));
        queue.Add(() => _said.Add("1"));
        queue.Drop();
        queue.Add(() => _said.Add("2"));
        runs.Dequeue()();
        Assert.Equal(["0", "1", "1 dropped", "2"], _said);
        Assert.Empty(runs);
    }

    private static IEnumerable<string> Numbers(int first, int count) => Enumerable.Range(first, count).Select(static i => $"{i}");

    private void Add(int first, int count)
    {
        foreach (string number in Numbers(first, count))
        {
            _queue.Add(() => _said.Add(number));
        }
    }

    private void Run()
    {
        while (_runs.TryDequeue(out Action? run))
        {
            run();
        }
    }
}
