// What the processes of one application print: the last lines are kept, and each goes to the daemon's own output, with the application's name.

using Millrace.Command.Terminals;

namespace Millrace.Command.Serving;

/// <param name="write">Is given each line as it comes, and may take its time.</param>
internal sealed class AppOutput(Func<string, ValueTask> write)
{
    private const int LinesMax = 500;

    /// <summary>Characters of a line that are kept.</summary>
    public const int LineMax = 8192;

    private readonly Lock _lock = new();
    private readonly Queue<string> _lines = [];
    private readonly List<Action<string>> _followers = [];

    /// <summary>Any thread.</summary>
    public async ValueTask AddAsync(string line)
    {
        line = CommandConsole.Readable(line);       // an application may print what a visitor has sent, and a terminal obeys it
        lock (_lock)
        {
            _lines.Enqueue(line);
            if (_lines.Count > LinesMax)
            {
                _lines.Dequeue();
            }
            _followers.ForEach(follower => follower(line));
        }
        await write(line);
    }

    /// <summary>The last lines, oldest first.</summary>
    public IReadOnlyList<string> Last(int count)
    {
        lock (_lock)
        {
            return [.. _lines.TakeLast(count)];
        }
    }

    /// <summary>The last lines, and from now on each line, as long as the answer is not disposed of. The follower must not wait.</summary>
    public IDisposable Follow(int count, Action<string> follower)
    {
        lock (_lock)
        {
            foreach (string line in _lines.TakeLast(count))
            {
                follower(line);
            }
            _followers.Add(follower);
        }
        return new Following(this, follower);
    }

    private sealed class Following(AppOutput output, Action<string> follower) : IDisposable
    {
        public void Dispose()
        {
            lock (output._lock)
            {
                output._followers.Remove(follower);
            }
        }
    }
}
