// What the processes of one application print: the last lines are kept, and each goes to the daemon's own output, with the application's name.

using System.IO.Pipes;
using Microsoft.Win32.SafeHandles;
using Millrace.Command.Terminals;

namespace Millrace.Command.Serving;

/// <param name="write">Is given each line as it comes, and may take its time.</param>
internal sealed class AppOutput(Func<string, ValueTask> write)
{
    private const int LinesMax = 500;

    /// <summary>Characters of a line that are kept.</summary>
    public const int LineMax = 8192;

    /// <summary>Pipes that are read: two of each process, and of each that has ended while something that it has started goes on.</summary>
    public const int PipesMax = 512;

    /// <summary>Bytes of the last lines that another program is given when this one becomes that, as they are written down.</summary>
    public const int HandedOverMax = 1024 * 1024;

    private readonly Lock _lock = new();
    private readonly Queue<string> _lines = [];
    private readonly List<Action<string>> _followers = [];
    private readonly List<OutputPump> _pumps = [];
    private long _printed;

    /// <summary>What its pipes may hold of what has not been read.</summary>
    public PipeRoom Room { get; init; } = PipeRoom.OfProcess;

    /// <summary>Any thread.</summary>
    public async ValueTask AddAsync(string line)
    {
        line = CommandConsole.Readable(line);       // an application may print what a visitor has sent, and a terminal obeys it
        lock (_lock)
        {
            _printed++;
            _lines.Enqueue(line);
            if (_lines.Count > LinesMax)
            {
                _lines.Dequeue();
            }
            _followers.ForEach(follower => follower(line));
        }
        await write(line);
    }

    /// <summary>
    /// From now on prints what comes through a pipe, as long as anybody has its other end: a process, or what that has started and left behind. Of more than <see cref="PipesMax"/> the oldest is closed.
    /// </summary>
    /// <param name="pipe">The end that is read.</param>
    /// <param name="before">What has been read of it already, and not been printed.</param>
    public OutputPump Attach(PipeStream pipe, byte[] before)
    {
        var pump = new OutputPump(pipe, before, AddAsync, Room);
        OutputPump? oldest = null;
        lock (_lock)
        {
            _pumps.RemoveAll(static its => its.Ended.IsCompleted);
            _pumps.Add(pump);
            if (_pumps.Count > PipesMax)
            {
                oldest = _pumps[0];
                _pumps.RemoveAt(0);
            }
        }
        oldest?.Dispose();
        pump.Begin();
        return pump;
    }

    /// <summary>The same for pipes that this process has by their numbers, and for lines that have been printed before.</summary>
    public void Resume(IReadOnlyList<PipeState> pipes, IReadOnlyList<string> lines, long printed)
    {
        _printed = printed;
        foreach (string line in lines)
        {
            _lines.Enqueue(line);
        }
        foreach (var pipe in pipes)
        {
            _ = Attach(new AnonymousPipeClientStream(PipeDirection.In, new SafePipeHandle(pipe.Descriptor, ownsHandle: true)), pipe.Before);
        }
    }

    /// <summary>That of a pipe by its number; null where nothing comes through it any more.</summary>
    public OutputPump? Find(int descriptor) => Pumps.FirstOrDefault(pump => pump.Descriptor == descriptor);

    /// <summary>Nothing is read any more.</summary>
    /// <returns>What is to be read by another program.</returns>
    public async Task<IReadOnlyList<PipeState>> PauseAsync()
    {
        await Task.WhenAll(Pumps.Select(static pump => pump.PauseAsync()));
        return [.. Pumps.Where(static pump => pump.Descriptor >= 0).Select(static pump => new PipeState(pump.Descriptor, pump.Rest))];
    }

    /// <summary>No other program has come.</summary>
    public void GoOn() => Array.ForEach(Pumps, static pump => pump.GoOn());

    private OutputPump[] Pumps
    {
        get
        {
            lock (_lock)
            {
                return [.. _pumps];
            }
        }
    }

    /// <summary>The last lines, oldest first.</summary>
    public IReadOnlyList<string> Last(int count)
    {
        lock (_lock)
        {
            return [.. _lines.TakeLast(count)];
        }
    }

    /// <summary>As many of them as another program is given.</summary>
    public IReadOnlyList<string> HandedOver
    {
        get
        {
            var last = Last(int.MaxValue);
            int count = 0;
            for (long room = HandedOverMax; count < last.Count && (room -= StateJson.LengthOf(last[^(count + 1)])) >= 0;)
            {
                count++;
            }
            return [.. last.TakeLast(count)];
        }
    }

    /// <summary>How many lines there have been.</summary>
    public long Printed
    {
        get
        {
            lock (_lock)
            {
                return _printed;
            }
        }
    }

    /// <summary>The last lines, and from now on each line, as long as the answer is not disposed of. The follower must not wait.</summary>
    /// <param name="count">How many of those that have been.</param>
    /// <param name="after">Those behind so many, instead; null: the last.</param>
    /// <param name="follower">Is given each.</param>
    /// <param name="before">How many have been before the first that is given.</param>
    public IDisposable Follow(int count, long? after, Action<string> follower, out long before)
    {
        lock (_lock)
        {
            count = (int)Math.Clamp(_printed - after ?? count, 0, _lines.Count);
            before = _printed - count;
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
