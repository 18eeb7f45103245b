// Middleware before a program, which changes what a request or a response is after the server has judged it: another body, one that has been read, a length that is gone.
using System.IO.Compression;
using System.Net.Sockets;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.ResponseCompression;
using Microsoft.Extensions.DependencyInjection;
using Millrace.Connector;
using Millrace.Interop.Client;

namespace Millrace.Interop.Programs;

public sealed class MiddlewareTests(PhpSite site) : IClassFixture<PhpSite>
{
    public static TheoryData<PhpKind, bool> Kinds => new() { { PhpKind.Fpm, false }, { PhpKind.Fpm, true }, { PhpKind.Pool, false }, { PhpKind.Pool, true } };

    // ---- the length of an answer ----

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task An_answer_that_is_compressed_on_its_way_has_as_many_bytes_as_its_script_says(PhpKind kind, bool onMillrace)
    {
        await using PhpApp app = await CompressingAsync(kind, onMillrace);
        foreach (var (declared, sent) in ((int, int)[])[(100_000, 50_000), (100_000, 99_999), (50_000, 100_000), (50_000, 50_001), (5, 4), (5, 6)])
        {
            Assert.False(await IsWholeAsync(app, $"/cl.php?n={declared}&m={sent}"), $"{sent} bytes of {declared}");
            string said = Assert.Single(app.Said.TakeAll());
            Assert.Contains(sent < declared ? "fewer bytes" : "more bytes", said, StringComparison.Ordinal);
        }
    }

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task One_that_has_is_whole(PhpKind kind, bool onMillrace)
    {
        await using PhpApp app = await CompressingAsync(kind, onMillrace);
        foreach (int length in (int[])[1, 50_000, 1_000_000])
        {
            WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", $"/cl.php?n={length}&m={length}", null, "Accept-Encoding: gzip");
            Assert.Equal((200, "gzip", null), (found.Status, found.Header("Content-Encoding"), found.Header("Content-Length")));
            using var plain = new MemoryStream();
            await using (var unzip = new GZipStream(new MemoryStream(found.Body), CompressionMode.Decompress))
            {
                await unzip.CopyToAsync(plain);
            }
            Assert.Equal(length, plain.Length);
        }
        Assert.Empty(app.Said.All);
    }

    private Task<PhpApp> CompressingAsync(PhpKind kind, bool onMillrace) => site.StartAppAsync(
        kind,
        onMillrace,
        build: static builder => builder.Services.AddResponseCompression(static options => options.Providers.Add<GzipCompressionProvider>()),
        before: static app => app.UseResponseCompression());

    private static async Task<bool> IsWholeAsync(PhpApp app, string target)
    {
        try
        {
            WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", target, null, "Accept-Encoding: gzip");
            Assert.True(found.Status == 200 || (found.Status == 502 && found.Body.Length == 0), $"{found.Status}, {found.Body.Length} bytes");
            return found.Status == 200;
        }
        catch (Exception error) when (error is CutResponseException or SocketException or IOException)
        {
            return false;       // what the visitor can see
        }
    }

    // ---- another body ----

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task A_body_that_is_decompressed_on_its_way_has_the_length_it_has_then(PhpKind kind, bool onMillrace)
    {
        await using PhpApp app = await site.StartAppAsync(kind, onMillrace, build: static builder => builder.Services.AddRequestDecompression(), before: static its => its.UseRequestDecompression());
        foreach (int length in (int[])[1, 10_000, 3_000_000])
        {
            byte[] body = Encoding.ASCII.GetBytes(string.Concat(Enumerable.Range(0, length / 5 + 1).Select(static i => $"{i % 10_000:0000}\n")))[..length];
            using var packed = new MemoryStream();
            await using (var zip = new GZipStream(packed, CompressionLevel.Optimal, leaveOpen: true))
            {
                await zip.WriteAsync(body);
            }
            WireResponse found = await PhpSite.AskAsync(app.EndPoint, "POST", "/echo.php", packed.ToArray(), "Content-Encoding: gzip");
            Assert.Equal((200, $"{length}"), (found.Status, found.Header("X-Length")));
            Assert.True(body.AsSpan().SequenceEqual(found.Body));
        }
    }

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task More_than_the_visitor_has_announced_has_the_limit_of_what_he_has_not(PhpKind kind, bool onMillrace)
    {
        await using PhpApp app = await site.StartAppAsync(
            kind, onMillrace, configure: static options => options.UnknownLengthMax = 1_000, before: static its => its.Use(static (context, next) =>
            {
                context.Request.Body = new MemoryStream(new byte[int.Parse(context.Request.Query["n"]!, System.Globalization.CultureInfo.InvariantCulture)]);
                return next(context);
            }));
        Assert.Equal((200, 1_000), Of(await PhpSite.AskAsync(app.EndPoint, "POST", "/echo.php?n=1000", "some"u8.ToArray())));
        Assert.Equal((413, 0), Of(await PhpSite.AskAsync(app.EndPoint, "POST", "/echo.php?n=1001", "some"u8.ToArray())));
        Assert.Equal((200, 2_000), Of(await PhpSite.AskAsync(app.EndPoint, "POST", "/echo.php?n=2000", new byte[2_000])));

        static (int, int) Of(WireResponse found) => (found.Status, found.Body.Length);
    }

    // ---- a body that has been looked at ----

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task A_body_that_can_be_read_again_arrives_from_its_beginning_however_much_of_it_has_been_read(PhpKind kind, bool onMillrace)
    {
        await using PhpApp app = await site.StartAppAsync(
            kind, onMillrace, configure: static options => options.ReadTimeout = TimeSpan.FromSeconds(3), before: static its => its.Use(static async (context, next) =>
            {
                context.Request.EnableBuffering();
                byte[] some = new byte[int.Parse(context.Request.Query["n"]!, System.Globalization.CultureInfo.InvariantCulture)];
                _ = await context.Request.Body.ReadAtLeastAsync(some, some.Length, throwOnEndOfStream: false);
                await next(context);
            }));
        foreach (int length in (int[])[12, 200_000])
        {
            byte[] body = Encoding.ASCII.GetBytes(new string('b', length - 1) + "z");
            foreach (int read in (int[])[0, 7, length, length + 1])
            {
                WireResponse found = await PhpSite.AskAsync(app.EndPoint, "POST", $"/echo.php?n={read}", body);
                Assert.Equal((read, 200, $"{length}"), (read, found.Status, found.Header("X-Length")));
                Assert.True(body.AsSpan().SequenceEqual(found.Body));
            }
        }
        Assert.Empty((await PhpSite.AskAsync(app.EndPoint, "GET", "/echo.php?n=0")).Body);
    }

    // A body that is the server's own goes on as it comes.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Nothing_waits_for_all_of_a_body_that_nobody_has_replaced(bool onMillrace)
    {
        await using var program = new ScriptedProgram(static async talk =>
        {
            await talk.ReadHeadAsync();
            await talk.PrintAsync("Content-Type: text/plain\r\n\r\nbegun");
            while (await talk.ReadAsync() is (5, { Length: > 0 }))
            {
            }
            await talk.EndAsync();
        });
        await using PhpApp app = await PhpApp.StartAsync(program.Address, onMillrace, "/{**path}", static _ => { }, before: static its => its.UseResponseCompression(), build: static builder => builder.Services.AddResponseCompression());
        using WireClient visitor = await WireClient.ConnectAsync(app.EndPoint);
        await visitor.WriteHeadAsync("POST", "/x", "Host: x", "Content-Length: 10");
        await visitor.WriteAsync("first"u8.ToArray());
        Assert.Equal(200, (await visitor.ReadHeadAsync("POST")).Status);
        Assert.Equal("begun", await visitor.ReadBodyTextAsync(5));
        await visitor.WriteAsync("other"u8.ToArray());
    }
}
