// HttpClient against the site: bodies in every framing, interim responses, connections used again, requests given up.

using System.Globalization;
using System.Net;
using System.Net.Http.Headers;
using System.Security.Cryptography;
using System.Text;
using Millrace.Browser.Site;
using Millrace.Interop.FrontEnds;

namespace Millrace.Browser.HttpClients;

public sealed class HttpClientTests(SiteServer site)
{
    public static TheoryData<Transport> Transports => [Transport.Tcp, Transport.Unix];

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task A_body_is_sent_after_100_Continue_RFC9110_10_1_1(Transport transport)
    {
        using var client = new SiteClient(site, transport);
        byte[] body = Pattern.Take(3_000_000);
        using var request = new HttpRequestMessage(HttpMethod.Post, "digest") { Content = new ByteArrayContent(body) };
        request.Headers.ExpectContinue = true;
        using HttpResponseMessage response = await client.Http.SendAsync(request);
        Assert.Equal(Digest(body), await response.Content.ReadAsStringAsync());
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task A_refused_body_is_never_sent_RFC9110_10_1_1(Transport transport)
    {
        using var client = new SiteClient(site, transport);
        var content = new WatchedContent(3_000_000);
        using var request = new HttpRequestMessage(HttpMethod.Post, "refuse") { Content = content };
        request.Headers.ExpectContinue = true;
        using HttpResponseMessage response = await client.Http.SendAsync(request);
        Assert.Equal(HttpStatusCode.Forbidden, response.StatusCode);
        Assert.False(content.WasSent);
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task A_chunked_body_arrives_whole_RFC9112_7_1(Transport transport)
    {
        using var client = new SiteClient(site, transport);
        using var request = new HttpRequestMessage(HttpMethod.Put, "digest") { Content = new WatchedContent(3_000_001) };
        request.Headers.TransferEncodingChunked = true;
        using HttpResponseMessage response = await client.Http.SendAsync(request);
        Assert.Equal(Digest(Pattern.Take(3_000_001)), await response.Content.ReadAsStringAsync());
    }

    // HttpClient sends no trailers over HTTP/1.1: these are its bytes with a trailer section added.
    [Theory]
    [MemberData(nameof(Transports))]
    public async Task Trailers_of_a_chunked_body_reach_the_application_RFC9112_7_1_2(Transport transport)
    {
        await using Stream stream = await SiteClient.ConnectAsync(site, transport);
        await stream.WriteAsync(Encoding.ASCII.GetBytes(
            "POST /digest HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTrailer: X-Sum, X-Weight\r\nTransfer-Encoding: chunked\r\n\r\n"
            + "5\r\ngrain\r\n0\r\nX-Sum: abc\r\nX-Weight: 5\r\n\r\n"));
        using var reader = new StreamReader(stream);
        string response = await reader.ReadToEndAsync();
        Assert.StartsWith("HTTP/1.1 200 OK\r\n", response, StringComparison.Ordinal);
        Assert.Contains(Digest("grain"u8.ToArray()) + "X-Sum: abc\nX-Weight: 5\n", response, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_response_has_no_trailers_and_the_application_is_told_so()
    {
        using var client = new SiteClient(site, Transport.Tcp);
        using HttpResponseMessage response = await client.Http.GetAsync("trailers");
        Assert.Equal("False", await response.Content.ReadAsStringAsync());
        Assert.Empty(response.TrailingHeaders);
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task One_connection_serves_one_request_after_the_other(Transport transport)
    {
        using var client = new SiteClient(site, transport);
        string first = await client.Http.GetStringAsync("connection");
        using (HttpResponseMessage missing = await client.Http.GetAsync("missing"))
        {
            Assert.Equal(HttpStatusCode.NotFound, missing.StatusCode);
        }

        // A body that nobody reads is discarded, and the connection goes on.
        using (HttpResponseMessage refused = await client.Http.PostAsync("refuse", new ByteArrayContent(Pattern.Take(100_000))))
        {
            Assert.Equal(HttpStatusCode.Forbidden, refused.StatusCode);
        }

        using (HttpResponseMessage head = await client.Http.SendAsync(new HttpRequestMessage(HttpMethod.Head, "hello")))
        {
            Assert.Equal(HttpStatusCode.OK, head.StatusCode);
        }

        Assert.Equal(Digest(Pattern.Take(100_000)), await Post(client, 100_000));
        Assert.Equal("line 1\nline 2\n", await client.Http.GetStringAsync("drip/2"));
        Assert.Equal(first, await client.Http.GetStringAsync("connection"));
        Assert.Equal(1, client.Connections);
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task Many_requests_at_once_are_answered_each_with_its_own(Transport transport)
    {
        using var client = new SiteClient(site, transport, static handler => handler.MaxConnectionsPerServer = 32);
        await Parallel.ForAsync(0, 400, new ParallelOptions { MaxDegreeOfParallelism = 64 }, async (i, cancellation) =>
        {
            string text = i.ToString(CultureInfo.InvariantCulture);
            using HttpResponseMessage echoed = await client.Http.PostAsync("echo", new StringContent(text), cancellation);
            Assert.Equal(text, await echoed.Content.ReadAsStringAsync(cancellation));
            Assert.Equal(i * 100, (await client.Http.GetByteArrayAsync($"bytes/{i * 100}", cancellation)).Length);
        });
        Assert.InRange(client.Connections, 1, 32);
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task A_large_download_arrives_whole(Transport transport)
    {
        using var client = new SiteClient(site, transport);
        await using Stream stream = await client.Http.GetStreamAsync("bytes/100000001");
        Assert.Equal(100_000_001, await CountMatching(stream));
    }

    [Fact]
    public async Task Compressed_text_is_the_same_text()
    {
        using var client = new SiteClient(site, Transport.Tcp, static handler => handler.AutomaticDecompression = DecompressionMethods.GZip);
        using HttpResponseMessage response = await client.Http.GetAsync("text/300000");
        Assert.Equal(new string('x', 300_000), await response.Content.ReadAsStringAsync());
        Assert.DoesNotContain("Content-Length", response.Content.Headers.ToString(), StringComparison.Ordinal);

        using var request = new HttpRequestMessage(HttpMethod.Get, "text/300000") { Headers = { AcceptEncoding = { new StringWithQualityHeaderValue("br") } } };
        using HttpResponseMessage brotli = await client.Http.SendAsync(request);
        Assert.Equal("br", Assert.Single(brotli.Content.Headers.ContentEncoding));
        Assert.InRange((await brotli.Content.ReadAsByteArrayAsync()).Length, 1, 10_000);
    }

    [Fact]
    public async Task A_cached_response_is_given_with_its_age()
    {
        using var client = new SiteClient(site, Transport.Tcp);
        using HttpResponseMessage first = await client.Http.GetAsync("cached");
        using HttpResponseMessage second = await client.Http.GetAsync("cached");
        Assert.Equal(await first.Content.ReadAsStringAsync(), await second.Content.ReadAsStringAsync());
        Assert.NotNull(second.Headers.Age);
    }

    // ---- requests given up ----

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task Giving_up_waiting_fires_RequestAborted(Transport transport)
    {
        string name = $"waiting {transport}";
        using var client = new SiteClient(site, transport);
        using var cancellation = new CancellationTokenSource();
        Task waiting = client.Http.GetAsync($"wait/{name}", cancellation.Token);
        await site.Notes.WaitFor(name + " started");
        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => waiting);
        await site.Notes.WaitFor(name + " aborted");
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task Giving_up_sending_ends_the_reading_of_the_body(Transport transport)
    {
        string name = $"sending {transport}";
        using var client = new SiteClient(site, transport);
        using var cancellation = new CancellationTokenSource();
        Task sending = client.Http.PostAsync($"wait-reading/{name}", new StalledContent(100_000), cancellation.Token);
        await site.Notes.WaitFor(name + " started");
        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => sending);
        await site.Notes.WaitFor(name + " aborted");
    }

    [Theory]
    [MemberData(nameof(Transports))]
    public async Task Giving_up_a_download_fires_RequestAborted(Transport transport)
    {
        string name = $"endless {transport}";
        using var client = new SiteClient(site, transport);
        await using (Stream stream = await client.Http.GetStreamAsync($"endless/{name}"))
        {
            await stream.ReadExactlyAsync(new byte[1_000_000]);
        }

        await site.Notes.WaitFor(name + " aborted");
    }

    private static async Task<string> Post(SiteClient client, int count)
    {
        using HttpResponseMessage response = await client.Http.PostAsync("digest", new ByteArrayContent(Pattern.Take(count)));
        return await response.Content.ReadAsStringAsync();
    }

    private static string Digest(byte[] body) => $"{body.Length} {Convert.ToHexStringLower(SHA256.HashData(body))}\n";

    /// <summary>The bytes up to the end or to the first that is not the pattern's.</summary>
    private static async Task<long> CountMatching(Stream stream)
    {
        byte[] expected = Pattern.Take(Pattern.Period + (128 * 1024));
        byte[] buffer = new byte[128 * 1024];
        long at = 0;
        for (int read; (read = await stream.ReadAsync(buffer)) > 0; at += read)
        {
            int same = buffer.AsSpan(0, read).CommonPrefixLength(expected.AsSpan((int)(at % Pattern.Period)));
            if (same < read)
            {
                return at + same;
            }
        }

        return at;
    }
}
