// What a daemon prints, for a reader who may stand still: a terminal that is paused, a collector of logs that hangs. A thread of its own writes, and
// nobody else waits for it: who prints much is slowed down to the reader's pace, and loses lines when the reader does not read at all.

using System.Globalization;
using System.Text;

namespace Millrace.Command.Terminals;

internal sealed class SteadyOutput
{
    private const int LinesMax = 1_000;
    private const int StuckMs = 1_000;
    private const int LookAgainMs = 10;

    private readonly Stream _output;
    private readonly Stream _error;
    private readonly Queue<Line> _first = [];       // is the lock of all that follows, and is waited on
    private readonly Queue<Line> _lines = [];
    private long _writingSinceMs;       // 0: nothing is being written
    private long _lost;

    /// <param name="output">Where lines go.</param>
    /// <param name="error">Where sentences go.</param>
    public SteadyOutput(Stream output, Stream error)
    {
        (_output, _error) = (output, error);
        new Thread(WriteAll) { IsBackground = true, Name = "output" }.Start();
    }

    private readonly record struct Line(bool IsError, string Text);

    /// <summary>A line of which there may be any number. Waits while many others wait to be written, and drops it where nobody reads them.</summary>
    public async ValueTask PrintAsync(string text)
    {
        while (!TryAdd(new Line(IsError: false, text)))
        {
            await Task.Delay(LookAgainMs);
        }
    }

    /// <summary>A line that must not wait, ahead of all that do.</summary>
    public void Print(string text) => AddFirst(new Line(IsError: false, text));

    /// <summary>The same where sentences go.</summary>
    public void PrintError(string text) => AddFirst(new Line(IsError: true, text));

    /// <summary>As <see cref="CommandConsole.Say"/>, and does not wait.</summary>
    public void Say(string sentence) => AddFirst(new Line(IsError: true, $"millrace: {CommandConsole.Readable(sentence, keepsLines: true)}"));

    /// <summary>Waits until everything is written, and no longer than that.</summary>
    public async Task FlushAsync(TimeSpan patience)
    {
        long giveUpAt = Environment.TickCount64 + (long)patience.TotalMilliseconds;
        while (!IsIdle() && Environment.TickCount64 < giveUpAt)
        {
            await Task.Delay(LookAgainMs);
        }
    }

    private bool IsIdle()
    {
        lock (_first)
        {
            return _first.Count == 0 && _lines.Count == 0 && _writingSinceMs == 0;
        }
    }

    // True: it has its place, or is lost.
    private bool TryAdd(Line line)
    {
        lock (_first)
        {
            if (_lines.Count < LinesMax)
            {
                _lines.Enqueue(line);
                Monitor.Pulse(_first);
                return true;
            }
            bool isStuck = _writingSinceMs > 0 && Environment.TickCount64 - _writingSinceMs > StuckMs;
            _lost += isStuck ? 1 : 0;
            return isStuck;
        }
    }

    private void AddFirst(Line line)
    {
        lock (_first)
        {
            if (_first.Count < LinesMax)
            {
                _first.Enqueue(line);
                Monitor.Pulse(_first);
            }
        }
    }

    private void WriteAll()
    {
        while (true)
        {
            Write(Next());
        }
    }

    private Line Next()
    {
        lock (_first)
        {
            _writingSinceMs = 0;
            while (true)
            {
                if (_first.TryDequeue(out Line line) || TryTakeLost(out line) || _lines.TryDequeue(out line))
                {
                    _writingSinceMs = Math.Max(1, Environment.TickCount64);
                    return line;
                }
                Monitor.Wait(_first);
            }
        }
    }

    private bool TryTakeLost(out Line line)
    {
        line = new Line(IsError: true, string.Create(CultureInfo.InvariantCulture, $"millrace: {_lost} lines of the applications were not printed: nobody read them. `millrace logs` has the last"));
        bool isAny = _lost > 0;
        _lost = 0;
        return isAny;
    }

    // Nobody may read what the daemon prints, and a disk may be full; it goes on.
    private void Write(Line line)
    {
        try
        {
            (line.IsError ? _error : _output).Write(Encoding.UTF8.GetBytes(line.Text + "\n"));
        }
        catch (IOException)
        {
        }
    }
}
