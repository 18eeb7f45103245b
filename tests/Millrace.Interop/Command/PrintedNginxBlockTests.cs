// The nginx block that `millrace run` prints, pasted into a real nginx's http context, which is all a user does with it. Only the
// ports are changed: a test may not listen on 80.

using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Command;

public sealed class PrintedNginxBlockTests : IAsyncLifetime
{
    private readonly TemporaryDirectory _directory = new("printed");
    private CommandProcess? _app;
    private FrontEndProcess? _nginx;
    private HttpClient? _client;

    public async ValueTask InitializeAsync()
    {
        string address = $"fastcgi://unix:{_directory.Path}/s";
        _app = CommandProcess.Millrace("run", CommandProcess.AssemblyOf("samples/Hello", "Hello"), "--urls", address);
        await _app.WaitForOutputAsync("HTTP_PROXY");
        int start = _app.Output.IndexOf("# /etc/nginx/conf.d/hello.conf", StringComparison.Ordinal);
        int end = _app.Output.IndexOf("\n}\n", _app.Output.IndexOf("\nserver {", StringComparison.Ordinal), StringComparison.Ordinal);
        string block = _app.Output[start..(end + 3)];

        int port = FreePort();
        string text = port.ToString(CultureInfo.InvariantCulture);
        block = block.Replace("listen 80;", $"listen {text};", StringComparison.Ordinal).Replace("listen [::]:80;", $"listen [::]:{text};", StringComparison.Ordinal);
        string configuration = Path.Combine(_directory.Path, "nginx.conf");
        await File.WriteAllTextAsync(configuration, $$"""
            daemon off;
            {{(Environment.IsPrivilegedProcess ? "user root;" : "")}}
            pid {{_directory.Path}}/pid;
            events { }
            http {
                access_log off;
                client_body_temp_path {{_directory.Path}}/body;
                fastcgi_temp_path {{_directory.Path}}/fastcgi;
                proxy_temp_path {{_directory.Path}}/proxy;
                scgi_temp_path {{_directory.Path}}/scgi;
                uwsgi_temp_path {{_directory.Path}}/uwsgi;
                {{block}}
            }
            """);
        _nginx = await FrontEndProcess.StartAsync(
            FrontEndProcess.Find("nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"),
            ["-p", _directory.Path, "-e", Path.Combine(_directory.Path, "error.log"), "-c", configuration],
            new IPEndPoint(IPAddress.Loopback, port));
        _client = new HttpClient { BaseAddress = new Uri($"http://127.0.0.1:{text}/") };
    }

    public async ValueTask DisposeAsync()
    {
        _client?.Dispose();
        await (_nginx?.DisposeAsync() ?? default);
        await (_app?.DisposeAsync() ?? default);
        _directory.Dispose();
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
        long first = System.Diagnostics.Stopwatch.GetTimestamp();
        Assert.Equal("line 2 of 10", await reader.ReadLineAsync());

        // Sent 300 ms apart: collected lines would arrive together, after the tenth.
        Assert.InRange(System.Diagnostics.Stopwatch.GetElapsedTime(first).TotalMilliseconds, 100, 2000);
    }

    private static int FreePort()
    {
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        return ((IPEndPoint)listener.LocalEndpoint).Port;
    }
}
