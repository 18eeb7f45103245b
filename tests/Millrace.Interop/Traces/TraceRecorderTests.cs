// Records what each front end sends the application, for tests/traces; Millrace.Tests replays it from there.
//
//   MILLRACE_RECORD_TRACES=1    writes tests/traces/NAME-WHAT.bin; without it the recordings are only looked at
//
// A new front end is one more line in Sources.
using Millrace.Interop.Apps;
using Millrace.Interop.Client;
using Millrace.Interop.Command;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Traces;

public sealed class TraceRecorderTests
{
    private static readonly Dictionary<string, (FrontEndProgram Program, Combination Combination)> s_sources = new()
    {
        ["nginx-fastcgi"] = (new NginxProgram(), new(AppProtocol.FastCgi, Transport.Unix, UpstreamConnections.KeptAlive)),
        ["haproxy-fastcgi"] = (new HaproxyProgram(multiplexes: true), new(AppProtocol.FastCgi, Transport.Unix, UpstreamConnections.KeptAlive)),
        ["haproxy-http"] = (new HaproxyProgram(), new(AppProtocol.Http, Transport.Unix, UpstreamConnections.KeptAlive)),
        ["caddy-fastcgi"] = (new CaddyProgram(), new(AppProtocol.FastCgi, Transport.Unix, UpstreamConnections.ClosedAfterEachRequest)),
        ["caddy-http"] = (new CaddyProgram(), new(AppProtocol.Http, Transport.Unix, UpstreamConnections.KeptAlive)),
        ["apache-fastcgi"] = (new ApacheProgram(), new(AppProtocol.FastCgi, Transport.Tcp, UpstreamConnections.KeptAlive)),
        ["apache-http"] = (new ApacheProgram(), new(AppProtocol.Http, Transport.Tcp, UpstreamConnections.KeptAlive)),
        ["lighttpd-fastcgi"] = (new LighttpdProgram(), new(AppProtocol.FastCgi, Transport.Unix, UpstreamConnections.ClosedAfterEachRequest)),
        ["lighttpd-http"] = (new LighttpdProgram(), new(AppProtocol.Http, Transport.Unix, UpstreamConnections.ClosedAfterEachRequest)),
        ["h2o-fastcgi"] = (new H2oProgram(), new(AppProtocol.FastCgi, Transport.Unix, UpstreamConnections.KeptAlive)),
        ["h2o-http"] = (new H2oProgram(), new(AppProtocol.Http, Transport.Unix, UpstreamConnections.KeptAlive)),
        ["nginx-http"] = (new NginxProgram(), new(AppProtocol.Http, Transport.Unix, UpstreamConnections.KeptAlive)),
    };

    private static readonly Dictionary<string, Func<IFrontEnd, EndToEndApp, Task>> s_scenarios = new()
    {
        ["requests"] = SendRequestsAsync,
        ["upload"] = UploadAsync,
        ["chunked"] = UploadChunkedAsync,
        ["abort"] = AbortAsync,
    };

    public static TheoryData<string, string> All
    {
        get
        {
            var all = new TheoryData<string, string>();
            foreach (string source in s_sources.Keys)
            {
                foreach (string scenario in s_scenarios.Keys)
                {
                    all.Add(source, scenario);
                }
            }

            return all;
        }
    }

    [Theory]
    [MemberData(nameof(All))]
    public async Task Front_end_sends_what_can_be_recorded_and_replayed(string source, string scenario)
    {
        (FrontEndProgram program, Combination combination) = s_sources[source];
        using var directory = new TemporaryDirectory("trace");
        string scheme = combination.Protocol == AppProtocol.FastCgi ? "fastcgi" : "http";
        await using EndToEndApp app = await EndToEndApp.StartAsync(
            combination.Transport == Transport.Tcp ? $"{scheme}://127.0.0.1:0" : $"{scheme}://unix:{directory.Path}/app.sock");
        await using var relay = new RecordingRelay(app.Address, directory.Path);
        await using (FrontEndServer frontEnd = await FrontEndServer.StartAsync(program, new Upstream(combination, [relay.Address])))
        {
            await s_scenarios[scenario](frontEnd, app);
        }

        IReadOnlyList<byte[]> recorded = await relay.RecordedAsync();
        Assert.NotEmpty(recorded);
        string folder = Path.Combine(CommandProcess.Repository, "tests", "traces");
        for (int i = 0; i < recorded.Count; i++)
        {
            AssertBegins(combination.Protocol, recorded[i]);
            if (Writes)
            {
                Directory.CreateDirectory(folder);
                await File.WriteAllBytesAsync(Path.Combine(folder, $"{source}-{scenario}{(i == 0 ? "" : $"-{i + 1}")}.bin"), recorded[i]);
            }
        }

        Assert.True(File.Exists(Path.Combine(folder, $"{source}-{scenario}.bin")), $"{source} was never recorded: MILLRACE_RECORD_TRACES=1 ./check interop --filter TraceRecorder");
    }

    // A record of version 1 that begins a request or asks for values; or a request line.
    private static void AssertBegins(AppProtocol protocol, byte[] bytes)
    {
        if (protocol == AppProtocol.FastCgi)
        {
            Assert.Equal(1, bytes[0]);
            Assert.Contains(bytes[1], new byte[] { 1, 9 });
        }
        else
        {
            string line = System.Text.Encoding.ASCII.GetString(bytes.AsSpan(0, bytes.AsSpan().IndexOf("\r\n"u8)));
            Assert.Matches("^(GET|HEAD|POST) /[^ ]* HTTP/1\\.[01]$", line);
        }
    }

    private static async Task SendRequestsAsync(IFrontEnd frontEnd, EndToEndApp app)
    {
        using WireClient client = await WireClient.ConnectAsync(frontEnd.Buffered);
        WireResponse first = await client.GetAsync(
            "/env/a%20b/%C3%BC?x=1&y=%2F", "Host: www.example.org:8080", "Accept: text/html", "Cookie: a=1; b=2", "X-Many: one", "X-Many: two", "User-Agent: trace/1.0");
        Assert.Equal(200, first.Status);
        WireResponse second = await client.SendAsync("POST", "/echo", "a=1&b=%20"u8.ToArray(), "Content-Type: application/x-www-form-urlencoded");
        Assert.Equal("a=1&b=%20", second.Text);
        Assert.Equal(200, (await client.SendAsync("HEAD", "/hello")).Status);
    }

    private static async Task UploadAsync(IFrontEnd frontEnd, EndToEndApp app)
    {
        using WireClient client = await WireClient.ConnectAsync(frontEnd.Buffered);
        WireResponse response = await client.SendAsync("POST", "/hash", DeterministicBytes.Create(40_000));
        Assert.Equal(200, response.Status);
    }

    // Where a front end wants a length of what it passes on as it comes (411), it collects the same body.
    private static async Task UploadChunkedAsync(IFrontEnd frontEnd, EndToEndApp app)
    {
        if (await UploadChunkedAsync(frontEnd.Streaming) == 411)
        {
            Assert.Equal(200, await UploadChunkedAsync(frontEnd.Buffered));
        }
    }

    private static bool Writes => Environment.GetEnvironmentVariable("MILLRACE_RECORD_TRACES") == "1";

    // The answer is not judged: a front end may refuse what it cannot pass on, after it has begun to.
    private static async Task<int> UploadChunkedAsync(System.Net.IPEndPoint endPoint)
    {
        using WireClient client = await WireClient.ConnectAsync(endPoint);
        await client.WriteHeadAsync("POST", "/hash", "Transfer-Encoding: chunked");
        Task<WireHead> answer = client.ReadHeadAsync();
        if (await Task.WhenAny(answer, Task.Delay(50)) == answer)
        {
            return (await answer).Status;
        }

        await client.WriteChunkAsync(DeterministicBytes.Create(10));
        await Task.Delay(50);
        await client.WriteChunkAsync(DeterministicBytes.Create(3_000));
        await client.WriteChunkAsync(ReadOnlyMemory<byte>.Empty);
        return (await answer).Status;
    }

    private static async Task AbortAsync(IFrontEnd frontEnd, EndToEndApp app)
    {
        using (WireClient client = await WireClient.ConnectAsync(frontEnd.Buffered))
        {
            await client.WriteHeadAsync("GET", "/abort/silent?tag=trace");
            await app.Signals.WaitAsync("trace started");
        }

        try
        {
            using var patience = new CancellationTokenSource(TimeSpan.FromSeconds(Writes ? 5 : 1));
            await app.Signals.WaitAsync("trace aborted", patience.Token);
        }
        catch (OperationCanceledException)
        {
            // A front end that looks at its clients only when it has bytes for them: the handler ends by itself.
            app.Signals.Raise("trace release");
            await app.Signals.WaitAsync("trace ended");
        }
    }
}
