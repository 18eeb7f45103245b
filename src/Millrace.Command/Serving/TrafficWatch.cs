// How much an application has to do, while somebody wants to know: its processes are asked once a second, and what the last seconds make is the answer.

using System.Diagnostics;
using System.Globalization;

namespace Millrace.Command.Serving;

/// <param name="instances">Its processes, as they are at the moment.</param>
internal sealed class TrafficWatch(Func<IReadOnlyList<AppInstance>> instances)
{
    private const int SamplesMax = 6;       // with a second between two
    private static readonly TimeSpan s_period = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan s_wantedFor = TimeSpan.FromSeconds(4);

    private readonly Lock _lock = new();
    private readonly Queue<Sample> _samples = [];
    private long _wanted;
    private bool _watches;

    private sealed record Sample(long At, Dictionary<int, Measured> Processes);

    /// <summary>Null until there are two samples.</summary>
    public TrafficStatus? Traffic
    {
        get
        {
            lock (_lock)
            {
                return _samples.Count < 2 || !_watches ? null : Between(_samples.Peek(), _samples.Last());
            }
        }
    }

    /// <summary>Somebody wants to know, for a few seconds from now on.</summary>
    public void Want()
    {
        lock (_lock)
        {
            _wanted = Stopwatch.GetTimestamp();
            if (!_watches)
            {
                _watches = true;
                _samples.Clear();
                _ = Task.Run(WatchAsync);
            }
        }
    }

    private async Task WatchAsync()
    {
        while (true)
        {
            var asked = await Task.WhenAll(instances().Select(static async instance => (instance.ProcessId, Measured: await instance.MeasureAsync(s_patience, CancellationToken.None))));
            lock (_lock)
            {
                _samples.Enqueue(new Sample(Stopwatch.GetTimestamp(), asked.Where(static its => its.Measured is not null).ToDictionary(static its => its.ProcessId, static its => its.Measured!)));
                if (_samples.Count > SamplesMax)
                {
                    _samples.Dequeue();
                }
                if (Stopwatch.GetElapsedTime(_wanted) > s_wantedFor)
                {
                    _watches = false;
                    return;
                }
            }
            await Task.Delay(s_period);
        }
    }

    // A process that was not there at the beginning counts from its first request.
    private static TrafficStatus Between(Sample first, Sample last)
    {
        long requests = 0;
        long running = 0;
        long[] durations = new long[Measured.Buckets];
        foreach (var (process, now) in last.Processes)
        {
            var then = first.Processes.GetValueOrDefault(process);
            requests += Math.Max(0, now.Count.Requests - (then?.Count.Requests ?? 0));
            running += now.Count.Running;
            for (int i = 0; i < durations.Length; i++)
            {
                durations[i] += Math.Max(0, now.Durations[i] - (then?.Durations[i] ?? 0));
            }
        }
        double seconds = Stopwatch.GetElapsedTime(first.At, last.At).TotalSeconds;
        return new TrafficStatus(Math.Round(requests / seconds, 1), running, Measured.Percentile(durations, 0.5), Measured.Percentile(durations, 0.99));
    }
}

/// <summary>What a process says of its requests and of how long they took, over its channel. It may be anybody's program: what makes no sense is no answer.</summary>
/// <param name="Count">Begun, and under way.</param>
/// <param name="Durations">Requests by the eighth of the octave of their microseconds.</param>
internal sealed record Measured(RequestCount Count, long[] Durations)
{
    public const int PerOctave = 8;
    public const int Buckets = 32 * PerOctave;

    /// <summary>REQUESTS RUNNING INDEX:COUNT INDEX:COUNT ...</summary>
    public static Measured? Read(string text)
    {
        if (RequestCount.Read(text) is not { } count)
        {
            return null;
        }
        long[] durations = new long[Buckets];
        foreach (string pair in text.Split(' ').Skip(2))
        {
            if (pair.Split(':') is not [var index, var number]
                || !int.TryParse(index, NumberStyles.None, CultureInfo.InvariantCulture, out int at) || at >= Buckets
                || !long.TryParse(number, NumberStyles.None, CultureInfo.InvariantCulture, out durations[at]))
            {
                return null;
            }
        }
        return new Measured(count, durations);
    }

    /// <summary>Milliseconds within which so large a part of the requests was answered, to a twentieth or so; null where there are none.</summary>
    public static double? Percentile(long[] durations, double part)
    {
        double left = durations.Sum(static count => (double)count) * part;
        if (left <= 0)
        {
            return null;
        }
        int i = 0;
        for (; i < durations.Length - 1 && left > durations[i]; i++)
        {
            left -= durations[i];
        }
        return Math.Round(Math.Pow(2, (i + 0.5) / PerOctave) / 1_000, 3);
    }
}
