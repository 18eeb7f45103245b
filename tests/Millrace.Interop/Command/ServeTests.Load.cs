// Deployments one after the other, one in five of them broken, under load over each way to the application, behind a real nginx. Every answer is checked.
// Meanwhile the daemon becomes another program ten times in a hundred, and is killed three times and started again. MILLRACE_DEPLOYMENTS is the number of deployments (100).

using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public sealed partial class ServeTests
{
    private const int Clients = 64;

    private static int Deployments => int.TryParse(Environment.GetEnvironmentVariable("MILLRACE_DEPLOYMENTS"), NumberStyles.None, CultureInfo.InvariantCulture, out int number) ? number : 100;

    [Fact]
    [Trait("Category", "Soak")]
    public async Task Deployments_of_which_one_in_five_is_broken_lose_no_request()
    {
        string folder = Publish("1");
        string shop = App("shop", $"fastcgi://unix:{Socket};{_shop}", "\"warmUp\": [\"/version\", \"/title\"]").Replace("60s", "20s", StringComparison.Ordinal);
        Write(shop.Replace(HostKinds, folder, StringComparison.Ordinal).Replace("\"settle\": \"100ms\"", "\"settle\": \"2s\"", StringComparison.Ordinal));
        await StartAsync();
        await using FrontEndServer kept = await NginxAsync(UpstreamConnections.KeptAlive);
        await using FrontEndServer closed = await NginxAsync(UpstreamConnections.ClosedAfterEachRequest);
        IPEndPoint[] ways = [IPEndPoint.Parse(_shop["http://".Length..]), kept.Buffered, closed.Buffered];

        // The same without deployments, for as long.
        long begun = Stopwatch.GetTimestamp();
        var before = await LoadAsync(ways, () => Task.Delay(TimeSpan.FromSeconds(Math.Min(60, Deployments))));
        Span[] during;
        List<(string What, Span Time)> done = [];
        int upgrades = 0;
        try
        {
            during = await LoadAsync(ways, async () =>
            {
                for (int i = 1; i <= Deployments; i++)
                {
                    int number = i;
                    await NoteAsync(i % 5 == 0 ? "broken deployments" : "deployments", () => DeployAsync(folder, number));
                    if (IsTurn(i, in100: 10))
                    {
                        await NoteAsync("upgrades", UpgradeAsync);
                        upgrades++;
                    }
                    if (IsTurn(i, in100: 3))
                    {
                        await NoteAsync("kills", () => KillAndStartAsync(_daemons[^1]));
                    }
                }
            });
        }
        catch (Exception error)
        {
            throw new IOException($"{error.Message}\n{await StatusAsync()}\n{string.Join('\n', _daemons.Select(static daemon => daemon.Error + daemon.Output))}\n{string.Join('\n', kept.ErrorLog().Concat(closed.ErrorLog()))}", error);
        }

        string figures = string.Create(CultureInfo.InvariantCulture, $"{Deployments} deployments, {upgrades} upgrades and {_daemons.Count - 1} kills in {Stopwatch.GetElapsedTime(begun).TotalSeconds:0} s.\nwithout them: {Figures(before)}\nwith all of them: {Figures(during)}");
        foreach (var kind in done.GroupBy(static each => each.What, static each => each.Time))
        {
            Span[] times = [.. kind.OrderBy(static time => time.From)];
            figures += $"\nduring {times.Length} {kind.Key}: {Figures([.. during.Where(each => times.Any(each.Overlaps))])}";
        }
        TestContext.Current.TestOutputHelper?.WriteLine(figures);
        Console.WriteLine(figures);
        Assert.Equal(Deployments - (Deployments / 5) + 1, int.Parse((await VersionAsync())[1..], CultureInfo.InvariantCulture));
        Assert.Empty(kept.ErrorLog());
        Assert.Empty(closed.ErrorLog());

        async Task NoteAsync(string what, Func<Task> task)
        {
            long from = Stopwatch.GetTimestamp();
            await task();
            done.Add((what, new Span(from, Stopwatch.GetTimestamp())));
        }
    }

    /// <summary>From when until when, in ticks of Stopwatch.</summary>
    internal readonly record struct Span(long From, long To)
    {
        public double Milliseconds => Stopwatch.GetElapsedTime(From, To).TotalMilliseconds;

        public bool Overlaps(Span other) => From < other.To && other.From < To;
    }

    // At least once, however few deployments there are.
    private static bool IsTurn(int number, int in100)
    {
        int of = Math.Max(1, Deployments * in100 / 100);
        return number * of / Deployments > (number - 1) * of / Deployments;
    }

    // The fifth of each five is broken, in one way after the other; the next one is right again.
    private async Task DeployAsync(string folder, int number)
    {
        string assembly = Path.Combine(folder, "Millrace.Interop.HostKinds.dll");
        byte[] whole = await System.IO.File.ReadAllBytesAsync(assembly);
        if (number % 5 != 0)
        {
            await System.IO.File.WriteAllTextAsync(Path.Combine(folder, "version.deps.json"), string.Create(CultureInfo.InvariantCulture, $"v{number - (number / 5) + 1}"));
            Assert.Equal((0, "shop: serving\n", ""), await DoAsync("reload", "shop"));
            return;
        }

        string right = await System.IO.File.ReadAllTextAsync(Path.Combine(folder, "version.deps.json"));
        switch (number / 5 % 6)
        {
            case 0:
                await System.IO.File.WriteAllBytesAsync(assembly, whole[..(whole.Length / 2)]);
                break;
            case 1:
                await System.IO.File.WriteAllBytesAsync(assembly, await System.IO.File.ReadAllBytesAsync(typeof(IPEndPoint).Assembly.Location));
                break;
            case var kind:
                await System.IO.File.WriteAllTextAsync(Path.Combine(folder, "version.deps.json"), (string[])["", "", "throws", "ends", "ill", "crashes"] is var faults ? faults[kind] : "");
                break;
        }
        var (exitCode, _, error) = await DoAsync("reload", "shop");
        Assert.True(exitCode == 1, $"a broken version was deployed: {error}");
        await System.IO.File.WriteAllBytesAsync(assembly, whole);
        await System.IO.File.WriteAllTextAsync(Path.Combine(folder, "version.deps.json"), right);
    }

    private Task<FrontEndServer> NginxAsync(UpstreamConnections connections, string? socket = null) => NginxAsync(socket ?? Socket, connections);

    /// <summary>nginx in front of a FastCGI socket.</summary>
    internal static async Task<FrontEndServer> NginxAsync(string socket, UpstreamConnections connections) =>
        await FrontEndServer.StartAsync(new NginxProgram(), new Upstream(new Combination(AppProtocol.FastCgi, Transport.Unix, connections), [$"fastcgi://unix:{socket}"]));

    /// <summary>Many clients that ask for /health and /echo over connections that are kept, and look at every answer.</summary>
    internal static async Task<Span[]> LoadAsync(IPEndPoint[] ways, Func<Task> meanwhile)
    {
        using var stop = new CancellationTokenSource();
        var clients = Enumerable.Range(0, Clients).Select(i => Task.Run(() => AskAsync(ways[i % ways.Length], i, stop.Token))).ToArray();
        var first = await Task.WhenAny([.. clients, meanwhile()]);
        await first;
        await stop.CancelAsync();
        return [.. (await Task.WhenAll(clients)).SelectMany(static each => each)];
    }

    private static string Figures(Span[] requests)
    {
        double[] milliseconds = [.. requests.Select(static each => each.Milliseconds).Order()];
        return string.Create(
            CultureInfo.InvariantCulture,
            $"{milliseconds.Length} requests, p50 {milliseconds[milliseconds.Length / 2]:0.0} ms, p99 {milliseconds[milliseconds.Length * 99L / 100]:0.0} ms, p99.9 {milliseconds[milliseconds.Length * 999L / 1000]:0.0} ms, maximum {milliseconds[^1]:0} ms");
    }

    // A connection that is kept: GET and POST in turns. A close, a refusal or a wrong answer ends the test.
    private static async Task<List<Span>> AskAsync(IPEndPoint way, int client, CancellationToken stop)
    {
        List<Span> asked = [];
        using var socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        await socket.ConnectAsync(way, CancellationToken.None);
        await using var stream = new NetworkStream(socket);
        using var reader = new StreamReader(stream, Encoding.ASCII);
        for (int i = 0; !stop.IsCancellationRequested; i++)
        {
            string body = i % 2 == 0 ? "" : string.Create(CultureInfo.InvariantCulture, $"{client} {i} {new string((char)('a' + (i % 26)), i % 3_000)}");
            string head = i % 2 == 0 ? "GET /health HTTP/1.1\r\nHost: a\r\n\r\n" : string.Create(CultureInfo.InvariantCulture, $"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {body.Length}\r\n\r\n");
            long begun = Stopwatch.GetTimestamp();
            await stream.WriteAsync(Encoding.ASCII.GetBytes(head + body), CancellationToken.None);
            string answer = await ReadAsync(reader, $"{way}, client {client}, request {i}, {DateTime.UtcNow:HH:mm:ss.fff}");
            asked.Add(new Span(begun, Stopwatch.GetTimestamp()));
            Assert.Equal(body, answer);
            await Task.Delay(20, CancellationToken.None);
        }
        return asked;
    }

    private static async Task<string> ReadAsync(StreamReader reader, string which, string status = "200 OK", bool mayEnd = false)
    {
        string line = await reader.ReadLineAsync(CancellationToken.None) ?? "the end of the connection";
        Assert.True(line == "HTTP/1.1 " + status, $"{which}: {line}");
        return await ReadRestAsync(reader, mayEnd);
    }

    // Fields and body of an answer; an IOException where the connection ends before they do.
    private static async Task<string> ReadRestAsync(StreamReader reader, bool mayEnd = false)
    {
        int length = -1;
        for (string? field; (field = await reader.ReadLineAsync(CancellationToken.None)) != "";)
        {
            Assert.True(mayEnd || field != "Connection: close");
            length = (field ?? throw new IOException("the connection has ended in a head")).StartsWith("Content-Length: ", StringComparison.Ordinal)
                ? int.Parse(field["Content-Length: ".Length..], CultureInfo.InvariantCulture) : length;
        }
        if (length <= 0)
        {
            return length == 0 ? "" : await ReadChunksAsync(reader);     // to read nothing would wait for more
        }
        char[] body = new char[length];
        return await reader.ReadBlockAsync(body, CancellationToken.None) == length ? new string(body) : throw new IOException("the connection has ended in a body");
    }

    private static async Task<string> ReadChunksAsync(StreamReader reader)
    {
        var text = new StringBuilder();
        while (int.Parse(await LineAsync(), NumberStyles.HexNumber, CultureInfo.InvariantCulture) is > 0 and int size)
        {
            char[] chunk = new char[size + 2];
            text.Append(chunk, 0, await reader.ReadBlockAsync(chunk, CancellationToken.None) == chunk.Length ? size : throw new IOException("the connection has ended in a chunk"));
        }
        await LineAsync();
        return text.ToString();

        async Task<string> LineAsync() => await reader.ReadLineAsync(CancellationToken.None) ?? throw new IOException("the connection has ended between chunks");
    }
}
