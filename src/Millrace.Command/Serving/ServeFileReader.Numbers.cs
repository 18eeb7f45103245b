// Settings that are numbers, times and amounts: each has its range, and what lies beyond is a mistake with the range in its sentence.

using System.Globalization;
using System.Text.Json;

namespace Millrace.Command.Serving;

internal sealed partial class ServeFileReader
{
    private const int MistakesMax = 1_000;      // nobody reads more, and each takes memory

    public static readonly string[] LimitNames = ["memory", "descriptors", "processes", "cpu"];

    public static readonly string[] RecycleNames = ["requests", "age", "memory"];

    private static readonly TimeSpan s_timeMin = TimeSpan.FromMilliseconds(100);
    private static readonly TimeSpan s_idleMin = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan s_timeMax = TimeSpan.FromHours(24);

    // "limits": { "memory": "512m", "descriptors": 4096, "processes": 200, "cpu": 0.5 }
    private AppLimits LimitsOf(PlacedValue value)
    {
        if (Members(value, "\"limits\"", LimitNames) is not { } its)
        {
            return AppLimits.None;
        }
        RequireAny(value, its, "limits", LimitNames);
        return KernelLimitsOf(its) with { Memory = its.TryGetValue("memory", out var memory) ? SizeOf(memory, "memory") : null };
    }

    private AppLimits KernelLimitsOf(Dictionary<string, PlacedValue> its) =>
        new(
            Memory: null,
            its.TryGetValue("descriptors", out var descriptors) ? NumberOf(descriptors, "descriptors", AppLimits.DescriptorsMin, AppLimits.DescriptorsMax) : null,
            its.TryGetValue("processes", out var processes) ? NumberOf(processes, "processes", AppLimits.ProcessesMin, AppLimits.ProcessesMax) : null,
            its.TryGetValue("cpu", out var cpu) ? ShareOf(cpu, "cpu") : null);

    // "recycle": { "requests": 100000, "age": "24h", "memory": "400m" }
    private AppRecycling RecyclingOf(PlacedValue value, long requestsMin = AppRecycling.RequestsMin)
    {
        if (Members(value, "\"recycle\"", RecycleNames) is not { } its)
        {
            return AppRecycling.None;
        }
        RequireAny(value, its, "recycle", RecycleNames);
        return new AppRecycling(
            its.TryGetValue("requests", out var requests) ? LongOf(requests, "requests", requestsMin, AppRecycling.RequestsMax) : null,
            its.ContainsKey("age") ? TimeOf(its, "age", AppRecycling.AgeMin, AppRecycling.AgeMin, AppRecycling.AgeMax) : null,
            its.TryGetValue("memory", out var memory) ? SizeOf(memory, "memory") : null);
    }

    // What ends a process must not come before what replaces it.
    private void RequireRecycledFirst(Dictionary<string, PlacedValue> members, AppSettings app)
    {
        if (app.Recycling.Memory >= app.Limits.Memory && members["recycle"].Members.FirstOrDefault(static its => its.Name == "memory") is { } place)
        {
            Add(place.Value.Place, $"A process that \"limits\" keeps to {Size.Text(app.Limits.Memory.Value)} never comes to {Size.Text(app.Recycling.Memory.Value)}. Recycle it earlier.");
        }
    }

    private void RequireOnDemand(Dictionary<string, PlacedValue> members)
    {
        if (members.TryGetValue("idle", out var idle) && members.GetValueOrDefault("onDemand") is null or { Kind: JsonValueKind.False })
        {
            Add(idle.Place, "An application that is stopped when it is idle is started by whoever comes then: say \"onDemand\": true as well.");
        }
    }

    private void RequireAny(PlacedValue value, Dictionary<string, PlacedValue> its, string name, string[] known)
    {
        if (its.Count == 0 && value.Members.Count == 0)
        {
            Add(value.Place, $"\"{name}\" is empty. Name one of {string.Join(", ", known)}, or take it out.");
        }
    }

    private int NumberOf(PlacedValue value, string name, int min, int max) => (int)LongOf(value, name, min, max);

    private long LongOf(PlacedValue value, string name, long min, long max)
    {
        string range = string.Create(CultureInfo.InvariantCulture, $"a whole number from {min} to {max}");
        if (!Require(value, JsonValueKind.Number, name, range))
        {
            return min;
        }
        if (long.TryParse(value.Text, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out long number) && number >= min && number <= max)
        {
            return number;
        }
        Add(value.Place, $"\"{name}\" is {value.Text}; it must be {range}.");
        return min;
    }

    private double ShareOf(PlacedValue value, string name)
    {
        string range = string.Create(CultureInfo.InvariantCulture, $"a number of processors from {AppLimits.CpuMin} to {AppLimits.CpuMax}, such as 0.5 for half of one");
        if (!Require(value, JsonValueKind.Number, name, range))
        {
            return AppLimits.CpuMax;
        }
        if (double.TryParse(value.Text, NumberStyles.Float, CultureInfo.InvariantCulture, out double number) && number is >= AppLimits.CpuMin and <= AppLimits.CpuMax)
        {
            return number;
        }
        Add(value.Place, $"\"{name}\" is {value.Text}; it must be {range}.");
        return AppLimits.CpuMax;
    }

    private long SizeOf(PlacedValue value, string name, long min = AppLimits.MemoryMin)
    {
        const string what = "an amount with its unit, such as \"512m\" or \"2g\"";
        if (!Require(value, JsonValueKind.String, name, what))
        {
            return AppLimits.MemoryMax;
        }
        if (Size.TryParse(value.Text, out long bytes) && bytes >= min && bytes <= AppLimits.MemoryMax)
        {
            return bytes;
        }
        Add(value.Place, $"\"{name}\" is \"{value.Text}\"; it must be {what}, from {Size.Text(min)} to {Size.Text(AppLimits.MemoryMax)}.");
        return AppLimits.MemoryMax;
    }

    private bool IsTrue(PlacedValue value, string name)
    {
        if (value.Kind is not (JsonValueKind.True or JsonValueKind.False))
        {
            Add(value.Place, $"\"{name}\" is true or false, without quotes, and this is {value.KindText}.");
        }
        return value.Kind == JsonValueKind.True;
    }

    private TimeSpan TimeOf(Dictionary<string, PlacedValue>? times, string name, TimeSpan fallback) => TimeOf(times, name, fallback, s_timeMin, s_timeMax);

    private TimeSpan TimeOf(Dictionary<string, PlacedValue>? times, string name, TimeSpan fallback, TimeSpan min, TimeSpan max)
    {
        const string what = "a time with its unit, such as \"500ms\", \"30s\", \"5m\" or \"1h\"";
        if (times is null || !times.TryGetValue(name, out var value) || !Require(value, JsonValueKind.String, name, what))
        {
            return fallback;
        }
        if (Duration.TryParse(value.Text, out TimeSpan time) && time >= min && time <= max)
        {
            return time;
        }
        Add(value.Place, $"\"{name}\" is \"{value.Text}\"; it must be {what}, from {Duration.Text(min)} to {Duration.Text(max)}.");
        return fallback;
    }

    // It goes into addresses, where these characters have a meaning.
    private string? UserOf(PlacedValue value)
    {
        if (TextOf(value, "user", "the name of a user") is not { } name)
        {
            return null;
        }
        if (name.FirstOrDefault("&?#/:;, ".Contains) is var wrong and not '\0')
        {
            Add(value.Place, $"\"{name}\" cannot be the name of a user: '{wrong}' is not allowed in one.");
            return null;
        }
        return name;
    }

    private void Add(Place place, string sentence)
    {
        if (_mistakes.Count <= MistakesMax)
        {
            _mistakes.Add(new Mistake(place, _mistakes.Count < MistakesMax ? sentence : "There are more mistakes. Mend these first."));
        }
    }
}
