// What handlers tell the tests: named events, each of which happens once. Names are made by the tests, one per test.

using System.Collections.Concurrent;

namespace Millrace.Browser.Site;

public sealed class Notes
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(10);

    private readonly ConcurrentDictionary<string, TaskCompletionSource> _events = new();

    public void Happened(string name) => Event(name).TrySetResult();

    /// <exception cref="TimeoutException">It has not happened within ten seconds.</exception>
    public Task WaitFor(string name) => Event(name).Task.WaitAsync(s_patience);

    private TaskCompletionSource Event(string name) =>
        _events.GetOrAdd(name, static _ => new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously));
}
