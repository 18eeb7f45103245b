// What is counted is shown, under the names that docs/sessions.md lists.

using System.Diagnostics.Metrics;
using System.Text.RegularExpressions;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Millrace.Sessions.Tests.Site;

namespace Millrace.Sessions.Tests;

[Collection(AloneCollection.Name)]
public sealed partial class MeterTests
{
    [Fact]
    public async Task The_meter_shows_what_happens_to_sessions()
    {
        await using TestSite site = await TestSite.StartAsync();
        using var figures = new Figures();
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        await visitor.DoAsync("get a");
        await site.NewVisitor().DoAsync("big a 5000");
        Visitor attacker = site.NewVisitor();
        attacker.Cookie = "x";
        await attacker.DoAsync("get a");

        figures.Read();

        Assert.Equal(1, figures["millrace.sessions.created where=cookie"]);
        Assert.Equal(1, figures["millrace.sessions.created where=store"]);
        Assert.Equal(1, figures["millrace.sessions.promoted"]);
        Assert.Equal(2, figures["millrace.sessions.live"]);
        Assert.Equal(1, figures["millrace.sessions.cookies.refused reason=malformed"]);
        Assert.Equal(64 << 20, figures["millrace.sessions.budget"]);
        Assert.Equal(site.Store.Bytes, figures["millrace.sessions.bytes"]);

        site.Time.Advance(TimeSpan.FromMinutes(21));
        figures.Read();
        Assert.Equal(0, figures["millrace.sessions.live"]);
        Assert.Equal(2, figures["millrace.sessions.evicted reason=expired"]);
        Assert.Equal(1260, figures["millrace.sessions.evicted.age reason=expired"]);
    }

    [Fact]
    public async Task Every_instrument_stands_in_the_table_of_the_document()
    {
        await using TestSite site = await TestSite.StartAsync();
        using var figures = new Figures();
        await site.NewVisitor().DoAsync("set a 1");

        string document = await File.ReadAllTextAsync(Path.Combine(Root(), "docs/sessions.md"));
        IEnumerable<string> listed = Row().Matches(document).Select(static match => match.Groups[1].Value);

        Assert.NotEmpty(figures.Names);
        Assert.Equal(figures.Names.Order(StringComparer.Ordinal), listed.Order(StringComparer.Ordinal));
    }

    [Fact]
    public async Task Every_option_stands_in_the_table_of_the_document_with_its_default()
    {
        string document = await File.ReadAllTextAsync(Path.Combine(Root(), "docs/sessions.md"));
        var defaults = new Dictionary<string, string>
        {
            ["BudgetBytes"] = "64 MiB", ["SessionBytesMax"] = "256 KiB", ["SealedBytesMax"] = "1,024", ["SealValidity"] = "null", ["ConcurrentWrites"] = "LastWriteWins", ["ClientShare"] = "1/32",
        };

        IEnumerable<string> options = typeof(MillraceSessionOptions).GetProperties(System.Reflection.BindingFlags.DeclaredOnly | System.Reflection.BindingFlags.Instance | System.Reflection.BindingFlags.Public)
            .Select(static property => property.Name);
        Assert.Equal(options.Order(StringComparer.Ordinal), defaults.Keys.Order(StringComparer.Ordinal));
        Assert.All(defaults, option => Assert.Contains($"| `{option.Key}` | {option.Value} |", document, StringComparison.Ordinal));
    }

    [Fact]
    public async Task The_health_check_is_degraded_for_five_minutes_after_sessions_in_use_had_to_go()
    {
        await using TestSite site = await TestSite.StartAsync(build: static builder => builder.Services.AddHealthChecks().AddMillraceSession());
        HealthCheckService health = site.Services.GetRequiredService<HealthCheckService>();
        HealthReport well = await health.CheckHealthAsync();
        Assert.Equal(HealthStatus.Healthy, well.Status);
        Assert.Equal(0, well.Entries["sessions"].Data["live"]);

        site.Counters.Evicted(Millrace.Sessions.Stores.EvictionReason.Pressure, isEstablished: true);
        site.Counters.AgeOfEvicted(Millrace.Sessions.Stores.EvictionReason.Pressure, 60);

        Assert.Equal(HealthStatus.Degraded, (await health.CheckHealthAsync()).Status);
        site.Time.Advance(TimeSpan.FromMinutes(5) - TimeSpan.FromSeconds(1));
        Assert.Equal(HealthStatus.Degraded, (await health.CheckHealthAsync()).Status);
        site.Time.Advance(TimeSpan.FromSeconds(1));
        Assert.Equal(HealthStatus.Healthy, (await health.CheckHealthAsync()).Status);
    }

    private static string Root()
    {
        DirectoryInfo? folder = new(AppContext.BaseDirectory);
        while (!File.Exists(Path.Combine(folder!.FullName, "Millrace.slnx")))
        {
            folder = folder.Parent;
        }
        return folder.FullName;
    }

    [GeneratedRegex(@"^\| `(millrace\.sessions\.[a-z.]+)` \|", RegexOptions.Multiline)]
    private static partial Regex Row();

    // There is one meter at a time: these tests run alone.
    private sealed class Figures : IDisposable
    {
        private readonly MeterListener _listener = new();
        private readonly Dictionary<string, double> _values = [];

        public Figures()
        {
            _listener.InstrumentPublished = (instrument, listener) =>
            {
                if (instrument.Meter.Name == "Millrace.Sessions")
                {
                    Names.Add(instrument.Name);
                    listener.EnableMeasurementEvents(instrument);
                }
            };
            _listener.SetMeasurementEventCallback<long>((instrument, value, tags, _) => Note(instrument, value, tags));
            _listener.SetMeasurementEventCallback<int>((instrument, value, tags, _) => Note(instrument, value, tags));
            _listener.SetMeasurementEventCallback<double>((instrument, value, tags, _) => Note(instrument, value, tags));
            _listener.Start();
        }

        public HashSet<string> Names { get; } = [];

        public double this[string name] => _values[name];

        public void Read() => _listener.RecordObservableInstruments();

        public void Dispose() => _listener.Dispose();

        private void Note(Instrument instrument, double value, ReadOnlySpan<KeyValuePair<string, object?>> tags)
        {
            string name = tags.IsEmpty ? instrument.Name : $"{instrument.Name} {tags[0].Key}={tags[0].Value}";
            lock (_values)
            {
                _values[name] = value;
            }
        }
    }
}
