// What is known of a life with children: time, chance, every connection, and of each request how often it went out, who has begun with it, and what happened to it.

using System.Globalization;
using System.Text.RegularExpressions;

namespace Millrace.Tests.Simulation.Children;

internal sealed partial class ChildrenWorld(SeededRandom random, bool traces)
{
    private readonly List<string> _trace = [];
    private readonly Dictionary<string, RequestFacts> _requests = [];

    public SeededRandom Random => random;

    public SimulatedTime Time { get; } = new();

    public List<ChildConnection> Connections { get; } = [];

    /// <summary>Children answer, and nothing else happens.</summary>
    public bool IsCalm { get; set; }

    public ulong Fingerprint { get; private set; } = 14_695_981_039_346_656_037;

    public int Notes { get; private set; }

    public void Note(string what)
    {
        Notes++;
        foreach (char c in what)
        {
            Fingerprint = (Fingerprint ^ c) * 1_099_511_628_211;
        }

        if (traces)
        {
            _trace.Add(string.Create(CultureInfo.InvariantCulture, $"{Time.NowMs,7} {what}"));
        }
    }

    public string Trace(int lines) => string.Join('\n', _trace.TakeLast(lines));

    public ChildConnection NewConnection()
    {
        var connection = new ChildConnection(this, random.Chance(30) ? random.Between(200, 4_000) : 200_000);
        Connections.Add(connection);
        return connection;
    }

    public RequestFacts Of(string id) => _requests.TryGetValue(id, out RequestFacts? facts) ? facts : _requests[id] = new RequestFacts();

    /// <summary>Bytes of it have gone over one more connection.</summary>
    public void Sent(string id, bool wasUsed)
    {
        Of(id).Sent++;
        Of(id).WasKept = wasUsed;
        Note($"{id} is sent");
    }

    public void Begun(string id, SimulatedChild child, Deed deed)
    {
        Of(id).Begun++;
        Of(id).Deeds.Add(deed);
        Note($"child {child.Number} begins with {id}: {deed}");
    }

    public void Blame(string? id, string why)
    {
        if (id is not null)
        {
            Of(id).Happened.Add(why);
            Note($"{id}: {why}");
        }
    }

    public static string? IdIn(string text) => IdPattern.Match(text) is { Success: true } match ? match.Value : null;

    // ---- the right answer ----

    public string HeadOf(string id) => Of(id).HasLength ? $"X-Id: {id}\r\nContent-Length: {BodyOf(id).Length}\r\n\r\n" : $"X-Id: {id}\r\n\r\n";

    public string BodyOf(string id) => $"{id}{new string('x', Of(id).Size)}{id}";

    [GeneratedRegex("id[0-9]{6}")]
    private static partial Regex IdPattern { get; }
}

internal sealed class RequestFacts
{
    /// <summary>Connections over which bytes of it have gone.</summary>
    public int Sent { get; set; }

    /// <summary>Whether the last of them had been used before.</summary>
    public bool WasKept { get; set; }

    /// <summary>Children that have begun with it.</summary>
    public int Begun { get; set; }

    /// <summary>Children that it was given to.</summary>
    public int Given { get; set; }

    public List<Deed> Deeds { get; } = [];

    public List<string> Happened { get; } = [];

    public int Size { get; set; }

    public bool HasLength { get; set; }

    public bool HasCause => Happened.Count > 0 || Deeds.Any(static deed => deed is not (Deed.Answers or Deed.AnswersEarly));

    public override string ToString() => $"sent {Sent} times, begun {Begun} times, given to {Given}: {string.Join(", ", Deeds)}; {string.Join(", ", Happened)}";
}
