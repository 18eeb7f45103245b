// Visitors and a flood over real sockets. Each page counts the visits of its session, so that it changes each time. Visitors that have used theirs twice come back at any time of the flood
// and behind it; new ones begin throughout it. Prints one JSON object for bench/run.

using System.Diagnostics;
using System.Globalization;
using System.Text.Json;

namespace Millrace.Bench.Sessions;

internal static class SocketFlood
{
    private const int Established = 1_000;
    private const int NewVisitors = 400;
    private const int Connections = 32;
    private const int OldCookies = 1_000;
    private const int Often = 5;

    public static async Task RunAsync(string kind, string address, int process, int requests)
    {
        (string attack, int networks) = kind.EndsWith("-one", StringComparison.Ordinal) ? (kind[..^4], 1) : (kind, 10_000);
        using var visits = new HttpConnection(address);
        long before = await MemoryAsync(visits);
        Visit[] established = await BeginAsync(visits, Established, returns: 2);
        var clock = Stopwatch.StartNew();
        int done = 0;
        string[] old = attack == "old" ? [.. await OldAsync(visits)] : [];
        Task flood = Task.WhenAll(Enumerable.Range(0, Connections).Select(_ => Task.Run(async () =>
        {
            using var connection = new HttpConnection(address);
            for (int number; (number = Interlocked.Increment(ref done)) <= requests;)
            {
                await StrikeAsync(connection, attack, number, networks, old);
            }
        })));
        (int establishedLost, List<Visit> newcomers) = await VisitThroughoutAsync(visits, established, () => (double)Volatile.Read(ref done) / requests);
        await flood;
        double seconds = clock.Elapsed.TotalSeconds;
        establishedLost += await CountLostAsync(visits, established);
        int newLost = await CountLostAsync(visits, newcomers);
        long after = await MemoryAsync(visits);
        Console.WriteLine(JsonSerializer.Serialize(new Dictionary<string, double>
        {
            ["seconds"] = seconds, ["established_lost"] = 100.0 * establishedLost / Established, ["new_lost"] = 100.0 * newLost / newcomers.Count, ["memory_mib"] = (after - before) / 1048576.0,
            ["rss_mib"] = Resident(process), ["requests"] = requests,
        }));
    }

    private static async Task StrikeAsync(HttpConnection connection, string attack, int number, int networks, string[] old)
    {
        string client = string.Create(CultureInfo.InvariantCulture, $"100.{number % networks >> 8}.{number % networks & 255}.1");
        if (attack == "old")
        {
            await connection.GetAsync("/read", old[number % old.Length], client);
            return;
        }
        (_, string? cookie) = await connection.GetAsync("/count", null, client);
        for (int i = 0; i < attack switch { "once" => 1, "many" => Often, _ => 0 }; i++)
        {
            cookie = (await connection.GetAsync("/count", cookie, client)).Cookie ?? cookie;
        }
    }

    // Cookies of sessions that have come back once, and that their clients keep on sending.
    private static async Task<IEnumerable<string>> OldAsync(HttpConnection connection) => (await BeginAsync(connection, OldCookies, returns: 1)).Select(static visit => visit.Cookie);

    private static async Task<(int Lost, List<Visit> Newcomers)> VisitThroughoutAsync(HttpConnection connection, Visit[] established, Func<double> progress)
    {
        var random = new Random(1);
        var newcomers = new List<Visit>();
        int lost = 0, returned = 0;
        for (double now; (now = progress()) < 1;)
        {
            if (newcomers.Count < now * NewVisitors)
            {
                newcomers.AddRange(await BeginAsync(connection, 1, returns: 0));
            }
            else if (returned < now * Established)
            {
                Visit visit = established[random.Next(established.Length)];
                lost += await visit.IsLostAsync(connection) ? 1 : 0;
                returned++;
            }
            else
            {
                await Task.Delay(1);
            }
        }
        return (lost, newcomers);
    }

    private static async Task<int> CountLostAsync(HttpConnection connection, IEnumerable<Visit> visits)
    {
        int lost = 0;
        foreach (Visit visit in visits)
        {
            lost += await visit.IsLostAsync(connection) ? 1 : 0;
        }
        return lost;
    }

    // What happens within one second counts as one use.
    private static async Task<Visit[]> BeginAsync(HttpConnection connection, int count, int returns)
    {
        var visits = new Visit[count];
        for (int i = 0; i < count; i++)
        {
            string client = string.Create(CultureInfo.InvariantCulture, $"80.{Random.Shared.Next(8)}.{Random.Shared.Next(256)}.1");
            (_, string? cookie) = await connection.GetAsync("/count", null, client);
            visits[i] = new Visit(cookie!, client);
        }
        for (int i = 0; i < returns; i++)
        {
            await Task.Delay(1_100);
            await CountLostAsync(connection, visits);
        }
        return visits;
    }

    private static async Task<long> MemoryAsync(HttpConnection connection) => long.Parse((await connection.GetAsync("/memory", null, "127.0.0.1")).Body, CultureInfo.InvariantCulture);

    private static double Resident(int process) => File.ReadLines($"/proc/{process}/status").Where(static line => line.StartsWith("VmRSS", StringComparison.Ordinal))
        .Select(static line => double.Parse(line.Split(':')[1].Replace("kB", "", StringComparison.Ordinal), CultureInfo.InvariantCulture) / 1024).Single();

    private sealed class Visit(string cookie, string client)
    {
        private int _visits = 1;
        private bool _isLost;

        public string Cookie { get; private set; } = cookie;

        // Once.
        public async Task<bool> IsLostAsync(HttpConnection connection)
        {
            if (_isLost)
            {
                return false;
            }
            (string body, string? cookie) = await connection.GetAsync("/count", Cookie, client);
            Cookie = cookie ?? Cookie;
            _visits++;
            _isLost = body != _visits.ToString(CultureInfo.InvariantCulture);
            return _isLost;
        }
    }
}
