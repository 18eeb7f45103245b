// Middleware before a program, which changes what a request or a response is after the server has judged it: another body, one that has been read, a length that is gone.
using System.IO.Compression;
using System.Net.Sockets;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.ResponseCompression;
using Microsoft.Extensions.DependencyInjection;
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
}
