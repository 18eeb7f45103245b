// What the application has served, from the meters of its server and of hosting. Counts are sums that the server keeps anyway, read when the daemon asks. How long requests
// take is measured by hosting, or by the router for what it passes on without it, and only as long as the daemon goes on asking: a request pays nothing for it otherwise.

using System.Diagnostics.Metrics;
using System.Globalization;
using System.Text;

namespace Millrace.StartupHooks;

internal static class Traffic
{
    /// <summary>Of a duration of d microseconds: log2(d), in eighths.</summary>
    private const int PerOctave = 8;

    private const int Buckets = 32 * PerOctave;
    private static readonly TimeSpan s_measuresFor = TimeSpan.FromSeconds(5);

    private static readonly Lock s_lock = new();
    private static readonly long[] s_durations = new long[Buckets];
    private static readonly List<Instrument> s_timed = [];
    private static MeterListener? s_listener;
    private static Timer? s_end;
    private static bool s_measures;
    private static long s_begun;
    private static long s_answered;

    /// <summary>Requests begun, and those of them that are not yet answered: "1200 3".</summary>
    public static string Count()
    {
        lock (s_lock)
        {
            s_listener ??= Listen();
            (s_begun, s_answered) = (0, 0);
            s_listener.RecordObservableInstruments();
            return string.Create(CultureInfo.InvariantCulture, $"{s_begun} {Math.Max(0, s_begun - s_answered)}");
        }
    }

    /// <summary>The same, and how many requests have taken how long.</summary>
    public static string Measure()
    {
        lock (s_lock)
        {
            var text = new StringBuilder(Count());
            s_end ??= new Timer(static _ => End());
            s_end.Change(s_measuresFor, Timeout.InfiniteTimeSpan);
            if (!s_measures)
            {
                s_measures = true;
                s_timed.ForEach(static instrument => s_listener!.EnableMeasurementEvents(instrument));
            }
            for (int i = 0; i < Buckets; i++)
            {
                if (Volatile.Read(ref s_durations[i]) is > 0 and var count)
                {
                    text.Append(CultureInfo.InvariantCulture, $" {i}:{count}");
                }
            }
            return text.ToString();
        }
    }

    private static void End()
    {
        lock (s_lock)
        {
            s_measures = false;
            s_timed.ForEach(static instrument => s_listener!.DisableMeasurementEvents(instrument));
        }
    }

    private static MeterListener Listen()
    {
        var listener = new MeterListener
        {
            InstrumentPublished = static (instrument, listener) =>
            {
                if (instrument is { Meter.Name: "Millrace", Name: "millrace.requests" or "millrace.responses" })
                {
                    listener.EnableMeasurementEvents(instrument);
                }
                else if (instrument is { Meter.Name: "Microsoft.AspNetCore.Hosting", Name: "http.server.request.duration" } or { Meter.Name: "Millrace.Router", Name: "millrace.router.duration" })
                {
                    AddTimed(instrument, listener);
                }
            },
        };
        listener.SetMeasurementEventCallback<long>(static (instrument, value, _, _) =>
        {
            if (instrument.Name == "millrace.requests")
            {
                s_begun += value;
            }
            else
            {
                s_answered += value;
            }
        });
        listener.SetMeasurementEventCallback<double>(static (_, seconds, _, _) => Interlocked.Increment(ref s_durations[Math.Clamp((int)(Math.Log2(Math.Max(1, seconds * 1e6)) * PerOctave), 0, Buckets - 1)]));
        listener.Start();
        return listener;
    }

    // A host that is built later has one of its own.
    private static void AddTimed(Instrument instrument, MeterListener listener)
    {
        lock (s_lock)
        {
            s_timed.Add(instrument);
            if (s_measures)
            {
                listener.EnableMeasurementEvents(instrument);
            }
        }
    }
}
