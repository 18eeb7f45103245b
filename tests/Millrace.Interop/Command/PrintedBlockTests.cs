// The configuration that `millrace config` prints, pasted into a real web server's, which is all a user does with it. Only the
// port is changed: a test may not listen on 80. One class for each web server and protocol, at the end and in the files beside.

using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using Millrace.Interop.Apps;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public abstract partial class PrintedBlockTests(string scheme) : IAsyncLifetime
{
    private readonly TemporaryDirectory _directory = new("printed", searchable: true);
    private CommandProcess? _app;
    private FrontEndProcess? _frontEnd;
    private HttpClient? _client;

    public async ValueTask InitializeAsync()
    {

        // Some web servers run as another user.
        string address = $"{scheme}://unix:{_directory.Path}/s?mode=666";
        _app = CommandProcess.Millrace("run", CommandProcess.AssemblyOf("samples/Hello", "Hello"), "--urls", address);
        await _app.WaitForOutputAsync("Hosting environment");
        string block = await PrintAsync(_app, address);
        (_frontEnd, IPEndPoint place) = await StartFrontEndAsync(block, _directory.Path);
        _client = new HttpClient { BaseAddress = new Uri(string.Create(CultureInfo.InvariantCulture, $"http://{place}/")) };
    }

    private async Task<(FrontEndProcess FrontEnd, IPEndPoint Place)> StartFrontEndAsync(string block, string directory)
    {
        int port = FreePort();
        string configuration = Path.Combine(directory, "configuration");
        await File.WriteAllTextAsync(configuration, Wrap(OnPort(block, port), directory));
        (string program, string[] arguments) = CommandLine(directory, configuration);
        var start = new ProcessStartInfo(program, arguments);
        start.Environment["HOME"] = start.Environment["XDG_CONFIG_HOME"] = start.Environment["XDG_DATA_HOME"] = directory;
        var place = new IPEndPoint(IPAddress.Loopback, port);
        return (await FrontEndProcess.StartAsync(start, place), place);
    }

    public async ValueTask DisposeAsync()
    {
        _client?.Dispose();
        await (_frontEnd?.DisposeAsync() ?? default);
        await (_app?.DisposeAsync() ?? default);
        _directory.Dispose();
        GC.SuppressFinalize(this);
    }

    [Fact]
    public async Task Pages_of_the_sample_come_through()
    {
        Assert.Equal("Hello, World!", await _client!.GetStringAsync("hello"));
        Assert.Contains("<h1>Hello</h1>", await _client.GetStringAsync(""), StringComparison.Ordinal);
        Assert.Contains("100 ms", await _client.GetStringAsync("block"), StringComparison.Ordinal);
        Assert.Equal(HttpStatusCode.NotFound, (await _client.GetAsync("nowhere")).StatusCode);
    }

    [Fact]
    public async Task Upload_of_several_megabytes_comes_through()
    {
        byte[] content = DeterministicBytes.Create(5_000_001);
        using var form = new MultipartFormDataContent { { new ByteArrayContent(content), "file", "a.bin" } };

        var answer = await _client!.PostAsync("upload", form);

        Assert.Equal($"a.bin: 5000001 bytes, SHA-256 {Convert.ToHexStringLower(SHA256.HashData(content))}\n", await answer.Content.ReadAsStringAsync());
    }

    [Fact]
    public async Task Streamed_lines_arrive_as_they_are_flushed()
    {
        await using var body = await _client!.GetStreamAsync("stream");
        using var reader = new StreamReader(body);

        Assert.Equal("line 1 of 10", await reader.ReadLineAsync());
        long first = Stopwatch.GetTimestamp();
        for (int i = 2; i <= 10; i++)
        {
            Assert.Equal($"line {i} of 10", await reader.ReadLineAsync());
        }

        // Sent 300 ms apart: collected lines would arrive together, after the tenth.
        Assert.True(Stopwatch.GetElapsedTime(first).TotalMilliseconds > 1_000);
    }

    /// <summary>The name on the command line of `millrace config`.</summary>
    private protected abstract string FrontEnd { get; }

    /// <summary>The printed block, listening on a port of the test's.</summary>
    private protected abstract string OnPort(string block, int port);

    /// <summary>The block with a rule of the web server's own: nobody gets what is below /env/secret.</summary>
    private protected abstract string Deny(string block);

    /// <summary>What stands around the block in a whole configuration.</summary>
    private protected abstract string Wrap(string block, string directory);

    private protected abstract (string Program, string[] Arguments) CommandLine(string directory, string configuration);

    private protected virtual async Task<string> PrintAsync(CommandProcess app, string address)
    {
        var printed = await CommandProcess.RunAsync("config", FrontEnd, address);
        Assert.Equal(0, printed.ExitCode);
        return printed.Output;
    }

    private protected static string Find(FrontEndProgram program) => FrontEndProcess.Find(program.Package, program.Places);

    private static int FreePort()
    {
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        return ((IPEndPoint)listener.LocalEndpoint).Port;
    }
}

public abstract class PrintedNginxTests(string scheme) : PrintedBlockTests(scheme)
{
    [Fact]
    public async Task Rule_for_a_path_below_that_of_the_application_is_one_with_a_caret_as_the_block_says()
    {
        const string Hint = "    # your own rules for paths below it: location ^~ ";
        await using Guarded site = await StartGuardedAsync("/env", static block =>
        {
            Assert.Contains(Hint, block, StringComparison.Ordinal);
            return block.Replace(Hint, "    location ^~ /env/secret { return 403; }\n    location /env/hidden { return 403; }\n" + Hint, StringComparison.Ordinal);
        });
        Assert.Equal("/env/open", (await site.AskAsync("/env/open"))!.Path);
        Assert.Null(await site.AskAsync("/env/secret/x"));

        // nginx asks regular expressions before plain prefixes.
        Assert.Equal("/env/hidden/x", (await site.AskAsync("/env/hidden/x"))!.Path);
    }

    private protected override string FrontEnd => "nginx";

    private protected override string OnPort(string block, int port) => block
        .Replace("listen 80;", $"listen {port};", StringComparison.Ordinal)
        .Replace("listen [::]:80;", $"listen [::]:{port};", StringComparison.Ordinal);

    private protected override string Deny(string block) =>
        block.Replace("    location / {", "    location /env/secret { return 403; }\n    location / {", StringComparison.Ordinal);

    private protected override string Wrap(string block, string directory) => $$"""
        daemon off;
        {{(Environment.IsPrivilegedProcess ? "user root;" : "")}}
        pid {{directory}}/pid;
        events { }
        http {
            access_log off;
            client_body_temp_path {{directory}}/body;
            fastcgi_temp_path {{directory}}/fastcgi;
            proxy_temp_path {{directory}}/proxy;
            scgi_temp_path {{directory}}/scgi;
            uwsgi_temp_path {{directory}}/uwsgi;
            {{block}}
        }
        """;

    private protected override (string Program, string[] Arguments) CommandLine(string directory, string configuration) =>
        (Find(new NginxProgram()), ["-p", directory, "-e", Path.Combine(directory, "error.log"), "-c", configuration]);
}

/// <summary>The block that `millrace run` prints, which is the one of `millrace config nginx`.</summary>
public sealed class PrintedNginxFastCgiTests() : PrintedNginxTests("fastcgi")
{
    private protected override async Task<string> PrintAsync(CommandProcess app, string address)
    {
        await app.WaitForOutputAsync("HTTP_PROXY");
        int start = app.Output.IndexOf("# /etc/nginx/conf.d/hello.conf", StringComparison.Ordinal);
        int end = app.Output.IndexOf("\n}\n", app.Output.IndexOf("\nserver {", StringComparison.Ordinal), StringComparison.Ordinal);
        return app.Output[start..(end + 3)];
    }
}

public sealed class PrintedNginxHttpTests() : PrintedNginxTests("http");

public abstract class PrintedHaproxyTests(string scheme) : PrintedBlockTests(scheme)
{
    private protected override string FrontEnd => "haproxy";

    private protected override string OnPort(string block, int port) => block.Replace(":80", $":{port}", StringComparison.Ordinal);

    private protected override string Deny(string block) =>
        block.Replace("    acl app_host", "    http-request deny if { path_beg /env/secret }\n    acl app_host", StringComparison.Ordinal);

    private protected override string Wrap(string block, string directory) => $"global\n    log stderr format raw local0 err\n\n{block}";

    [Fact]
    public async Task A_percent_sign_that_begins_no_escape_is_400_in_the_path_and_passes_in_the_query_RFC3986_2_1()
    {
        await using Guarded site = await StartGuardedAsync();
        foreach (string query in (string[])["?q=100%", "?q=%2", "?q=100%%20off", "?q=%u0041", "?q=%2541"])
        {
            Assert.Equal(query, (await site.AskAsync("/env/x" + query))!.QueryString);
        }

        foreach (string target in (string[])["/env/100%", "/env/100%2", "/env/%g0/x", "/env/%0g/x"])
        {
            Assert.Null(await site.AskAsync(target));
        }
    }

    // What normalize-uri decodes behind a % that begins no escape would make one of it, which the application decodes once more.
    [Fact]
    public async Task No_spelling_of_a_query_passes_a_rule_of_the_web_server_RFC3986_6_2_2()
    {
        await using Guarded site = await StartGuardedAsync(deny: static block =>
            block.Replace("    acl app_host", "    http-request deny if { url_param(debug) -m found }\n    acl app_host", StringComparison.Ordinal));
        Assert.Contains("other", (await site.AskAsync("/env/x?other=1"))!.Query.Keys);
        foreach (string query in (string[])["debug=1", "a=1&debug=", "%64ebug=1", "debu%%367=1", "debu%%36%37=1", "debu%6%37=1", "%%364ebug", "%6%34ebug"])
        {
            EnvironmentReport? seen = await site.AskAsync("/env/x?" + query);
            Assert.False(seen?.Query.ContainsKey("debug") ?? false, $"{query} came to {seen?.QueryString}");
        }

        // No value changes on the way.
        foreach (string value in (string[])["%%361", "%6%31", "%%41%42", "%2%35"])
        {
            EnvironmentReport? seen = await site.AskAsync("/env/x?q=" + value);
            Assert.True(seen is null, $"{value} came to {seen?.QueryString}");
        }
    }

    private protected override (string Program, string[] Arguments) CommandLine(string directory, string configuration) =>
        (Find(new HaproxyProgram()), ["-db", "-f", configuration]);
}

public sealed class PrintedHaproxyFastCgiTests() : PrintedHaproxyTests("fastcgi");

public sealed class PrintedHaproxyHttpTests() : PrintedHaproxyTests("http");
