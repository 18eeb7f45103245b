// A visitor who takes his time with the answer of a pool's only process: whether the next one waits for him is a matter of what may be kept.
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.RegularExpressions;
using Millrace.Interop.FrontEnds;
using Millrace.Workers;

namespace Millrace.Interop.Programs;

public sealed class SlowPoolReaderTests : IDisposable
{
    private const int Length = 30 << 20;        // more than the kernel keeps for him
    private const int Enough = 34 << 20;
    private const int Little = 64 * 1024;

    private readonly TemporaryDirectory _site = new("slow");
    private readonly HttpClient _client = new();

    public SlowPoolReaderTests()
    {
        string large = string.Create(CultureInfo.InvariantCulture, $"<?php ini_set('memory_limit', '-1'); header('Content-Length: {Length}'); echo str_repeat('x', {Length / 2}); flush();");
        File.WriteAllText(Path.Combine(_site.Path, "large.php"), large + string.Create(CultureInfo.InvariantCulture, $" echo str_repeat('x', {Length / 2});"));
        File.WriteAllText(Path.Combine(_site.Path, "broken.php"), large + " posix_kill(getmypid(), 9); sleep(60);");
        File.WriteAllText(Path.Combine(_site.Path, "sleeping.php"), large + " sleep(60);");
        File.WriteAllText(Path.Combine(_site.Path, "next.php"), "<?php echo 'next';");
    }

    public void Dispose()
    {
        _client.Dispose();
        _site.Dispose();
    }

    [Theory]
    [InlineData(true, Enough, Enough, 0, HttpStatusCode.OK)]
    [InlineData(false, Enough, Enough, 0, HttpStatusCode.OK)]
    [InlineData(true, 0, Enough, Enough, HttpStatusCode.ServiceUnavailable)]
    [InlineData(true, Enough, Enough - 1, Enough, HttpStatusCode.ServiceUnavailable)]
    [InlineData(true, Little, Enough, 0, HttpStatusCode.ServiceUnavailable)]
    [InlineData(true, Little, Enough, Length / 2, HttpStatusCode.ServiceUnavailable)]
    [InlineData(true, Little, Enough, Enough, HttpStatusCode.OK)]
    [InlineData(false, Little, Enough, Enough, HttpStatusCode.OK)]
    public async Task The_process_is_free_when_what_he_has_not_taken_may_be_kept_AnswerBufferMax_AnswerFilesMax(bool onMillrace, int each, int all, int files, HttpStatusCode next)
    {
        await using PhpApp app = await StartAsync(onMillrace, each, all, files, wait: TimeSpan.FromSeconds(next == HttpStatusCode.OK ? 20 : 1));
        using Socket slow = await AskAsync(app, "large.php");

        using (HttpResponseMessage answer = await _client.GetAsync($"http://{app.EndPoint}/next.php"))
        {
            Assert.Equal(next, answer.StatusCode);
        }
        Assert.Equal(Length, await ReadBodyAsync(slow));

        using HttpResponseMessage then = await _client.GetAsync($"http://{app.EndPoint}/next.php");
        Assert.Equal("next", await then.Content.ReadAsStringAsync());
        Assert.Equal(files == Length / 2, app.Said.All.Any(static line => line.StartsWith("7 ", StringComparison.Ordinal)));
        await NoFileIsOpenAsync();
    }

    // The call counts as long as the program talks, and no longer.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Who_reads_for_longer_than_CallLimit_has_all_of_it(bool onMillrace)
    {
        await using PhpApp app = await StartAsync(onMillrace, Little, Enough, Enough, call: TimeSpan.FromSeconds(2));
        using Socket slow = await AskAsync(app, "large.php");
        await Task.Delay(TimeSpan.FromSeconds(4));
        Assert.Equal(Length, await ReadBodyAsync(slow));
    }

    [Theory]
    [InlineData(true, Enough)]
    [InlineData(false, Enough)]
    [InlineData(true, Little)]
    [InlineData(false, Little)]
    public async Task What_breaks_off_while_it_is_kept_does_not_pass_for_whole(bool onMillrace, int each)
    {
        await using PhpApp app = await StartAsync(onMillrace, each, Enough, Enough);
        using Socket slow = await AskAsync(app, "broken.php");

        Assert.InRange(await ReadBodyAsync(slow), 0, Length - 1);
        await NoFileIsOpenAsync();
    }

    // It has been answered half, and lies in the file.
    [Fact]
    public async Task What_ends_at_CallLimit_while_it_is_kept_does_not_pass_for_whole()
    {
        await using PhpApp app = await StartAsync(onMillrace: true, Little, Enough, Enough, call: TimeSpan.FromSeconds(2));
        using Socket slow = await AskAsync(app, "sleeping.php");
        await Task.Delay(TimeSpan.FromSeconds(4));
        Assert.InRange(await ReadBodyAsync(slow), 0, Length - 1);
        await NoFileIsOpenAsync();
    }

    // One room for all: who has left leaves it to others.
    [Theory]
    [InlineData(Enough, Enough, 0)]
    [InlineData(Little, Little, Enough)]
    public async Task Who_leaves_gives_back_what_was_kept_for_him(int each, int all, int files)
    {
        await using PhpApp app = await StartAsync(onMillrace: true, each, all, files);
        for (int i = 0; i < 5; i++)
        {
            using (Socket slow = await AskAsync(app, "large.php"))
            {
                using HttpResponseMessage answer = await _client.GetAsync($"http://{app.EndPoint}/next.php");
                Assert.Equal(HttpStatusCode.OK, answer.StatusCode);
                slow.LingerState = new LingerOption(enable: true, 0);
            }
            await Task.Delay(500);
        }
        await NoFileIsOpenAsync();
    }

    private Task<PhpApp> StartAsync(bool onMillrace, int each, int all, int files, TimeSpan? wait = null, TimeSpan? call = null) => PhpApp.StartAsync(
        null,
        onMillrace,
        "/{**path}",
        site => (site.Root, site.AnswerBufferMax, site.AnswerBuffersMax, site.AnswerFilesMax) = (_site.Path, each, all, files),
        new ProcessPoolOptions { Command = "php-cgi", Min = 1, Max = 1, WaitLimit = wait ?? TimeSpan.FromSeconds(20), CallLimit = call ?? TimeSpan.FromSeconds(120) });

    // Of what is kept; other tests at the same time may have some for a moment.
    private static async Task NoFileIsOpenAsync()
    {
        for (int tries = 0; Directory.GetFiles("/proc/self/fd").Any(static name => new FileInfo(name).LinkTarget is { } path && Regex.IsMatch(path, @"/millrace-\w{8}\.\w{3} \(deleted\)$")); tries++)
        {
            Assert.True(tries < 500);
            await Task.Delay(20);
        }
    }

    private static async Task<Socket> AskAsync(PhpApp app, string script)
    {
        var socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { ReceiveBufferSize = 8 * 1024 };
        await socket.ConnectAsync(app.EndPoint);
        await socket.SendAsync(Encoding.ASCII.GetBytes($"GET /{script} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        byte[] first = new byte[12];
        Assert.Equal(12, await socket.ReceiveAsync(first, SocketFlags.Peek));
        Assert.Equal("HTTP/1.1 200", Encoding.ASCII.GetString(first));
        return socket;
    }

    private static async Task<int> ReadBodyAsync(Socket socket)
    {
        using var all = new MemoryStream();
        byte[] piece = new byte[256 * 1024];
        try
        {
            for (int count; (count = await socket.ReceiveAsync(piece)) > 0;)
            {
                all.Write(piece, 0, count);
            }
        }
        catch (SocketException)
        {
            // It has been cut.
        }
        ReadOnlySpan<byte> whole = all.ToArray();
        ReadOnlySpan<byte> body = whole[(whole.IndexOf("\r\n\r\n"u8) + 4)..];
        Assert.Equal(-1, body.IndexOfAnyExcept((byte)'x'));
        return body.Length;
    }
}
