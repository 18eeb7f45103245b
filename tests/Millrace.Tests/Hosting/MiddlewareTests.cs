// Parts of ASP.NET Core that lean on their server: compression, caching, static files, forms, sessions, JSON.

using System.IO.Compression;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.FileProviders;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class MiddlewareTests
{
    [Fact]
    public async Task Response_compression_compresses()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app =>
        {
            app.UseResponseCompression();
            app.MapGet("/", static () => new string('x', 50_000));
        }, static builder => builder.Services.AddResponseCompression());
        FastCgiResponse response = app.Exchange(new FastCgiRequest("/").WithHeader("Accept-Encoding", "gzip"));
        Assert.True(response.IsWhole, response.ToString());
        Assert.Equal("gzip", response["Content-Encoding"]);
        Assert.InRange(response.Body.Length, 1, 5_000);
        using var unzipped = new StreamReader(new GZipStream(new MemoryStream(response.Body.ToArray()), CompressionMode.Decompress));
        Assert.Equal(new string('x', 50_000), await unzipped.ReadToEndAsync());
    }

    [Fact]
    public async Task Response_caching_and_output_caching_answer_the_second_request()
    {
        int runs = 0;
        await using HostedApp app = await HostedApp.StartAsync(app =>
        {
            app.UseResponseCaching();
            app.UseOutputCache();
            app.MapGet("/response", (HttpContext context) =>
            {
                context.Response.Headers.CacheControl = "public,max-age=60";
                return $"run {Interlocked.Increment(ref runs)}";
            });
            app.MapGet("/output", () => $"run {Interlocked.Increment(ref runs)}").CacheOutput();
        }, static builder => builder.Services.AddResponseCaching().AddOutputCache());
        Assert.Equal(["run 1", "run 1"], [app.Get("/response").Text, app.Get("/response").Text]);
        Assert.Equal(["run 2", "run 2"], [app.Get("/output").Text, app.Get("/output").Text]);
    }

    [Fact]
    public async Task Static_files_are_sent_whole_in_part_and_not_at_all()
    {
        using var folder = new SocketFolder();
        byte[] content = StressContent.Long(1, 300_001);
        await File.WriteAllBytesAsync(folder.PathOf("file.bin"), content);
        await File.WriteAllTextAsync(folder.PathOf("empty.txt"), "");
        using var provider = new PhysicalFileProvider(folder.PathOf("."));
        await using HostedApp app = await HostedApp.StartAsync(app => app.UseStaticFiles(new StaticFileOptions { FileProvider = provider }));
        using FastCgiPeer peer = app.Connect();
        FastCgiResponse whole = peer.Exchange(new FastCgiRequest("/file.bin"));
        Assert.True(whole.IsWhole && whole.Body.SequenceEqual(content), whole.ToString());
        FastCgiResponse head = peer.Exchange(new FastCgiRequest("/file.bin", "HEAD"));
        Assert.Equal(("300001", 0), (head["Content-Length"], head.Body.Length));
        FastCgiResponse part = peer.Exchange(new FastCgiRequest("/file.bin").WithHeader("Range", "bytes=1000-200000"));
        Assert.Equal(206, part.Status);
        Assert.True(part.Body.SequenceEqual(content.AsSpan(1_000, 199_001)));
        Assert.Equal(304, peer.Exchange(new FastCgiRequest("/file.bin").WithHeader("If-None-Match", whole["ETag"]!)).Status);
        FastCgiResponse empty = peer.Exchange(new FastCgiRequest("/empty.txt"));
        Assert.True(empty.IsWhole && empty.Body.Length == 0, empty.ToString());
        Assert.Equal(404, peer.Exchange(new FastCgiRequest("/missing.bin")).Status);
    }

    // It sets the body as middleware did before there was IHttpResponseBodyFeature.
    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    public async Task What_others_write_is_changed_by_old_middleware(ApplicationProtocol protocol)
    {
        await using UnixApp app = await UnixApp.StartAsync(protocol, static app =>
        {
            app.Use(static async (context, next) =>
            {
                IHttpResponseFeature feature = context.Features.GetRequiredFeature<IHttpResponseFeature>();
                using var written = new MemoryStream();
#pragma warning disable CS0618 // what it is about
                Stream own = feature.Body;
                feature.Body = written;
                await next(context);
                feature.Body = own;
#pragma warning restore CS0618
                await context.Response.WriteAsync($"[{Encoding.ASCII.GetString(written.ToArray()).ToUpperInvariant()}]");
            });
            app.Run(static context => context.Response.Body.WriteAsync("hello"u8.ToArray()).AsTask());
        });
        Assert.Equal("[HELLO]", (await app.Get("/")).Text);
    }

    [Fact]
    public async Task A_multipart_form_arrives()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapPost("/", static async (HttpRequest request) =>
        {
            IFormCollection form = await request.ReadFormAsync();
            using var reader = new StreamReader(form.Files["upload"]!.OpenReadStream());
            string text = await reader.ReadToEndAsync();
            return $"{form["name"]} {form.Files["upload"]!.FileName} {text.Length} {text[^1]}";
        }));
        string body = "--border\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nAlice\r\n"
            + "--border\r\nContent-Disposition: form-data; name=\"upload\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\n"
            + new string('x', 150_000) + "!\r\n--border--\r\n";
        FastCgiResponse response = app.Exchange(new FastCgiRequest("/", "POST") { Body = Encoding.ASCII.GetBytes(body) }.With("CONTENT_TYPE", "multipart/form-data; boundary=border"));
        Assert.Equal("Alice a.txt 150001 !", response.Text);
    }

    [Fact]
    public async Task A_session_lives_in_a_cookie_and_several_cookies_stay_apart()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app =>
        {
            app.UseSession();
            app.MapGet("/", static (HttpContext context) =>
            {
                int visits = (context.Session.GetInt32("visits") ?? 0) + 1;
                context.Session.SetInt32("visits", visits);
                context.Response.Cookies.Append("one", "1");
                context.Response.Cookies.Append("two", "2");
                return $"visit {visits}, {context.Request.Cookies["sent"]}";
            });
        }, static builder => builder.Services.AddDistributedMemoryCache().AddSession());
        FastCgiResponse first = app.Get("/");
        string[] cookies = first["Set-Cookie"]!.Split('|');
        Assert.Equal(3, cookies.Length);
        string session = cookies.Single(static c => c.StartsWith(".AspNetCore.Session=", StringComparison.Ordinal)).Split(';')[0];
        Assert.Equal("visit 2, yes", app.Exchange(new FastCgiRequest("/").WithHeader("Cookie", $"{session}; sent=yes")).Text);
    }

    [Fact]
    public async Task Json_goes_in_and_out()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapPost("/", static (Point point) => new Point(point.Y, point.X)));
        FastCgiResponse response = app.Exchange(new FastCgiRequest("/", "POST") { Body = "{\"x\":1,\"y\":2}"u8.ToArray() }.With("CONTENT_TYPE", "application/json"));
        Assert.Equal("{\"x\":2,\"y\":1}", response.Text);
        Assert.Equal(400, app.Exchange(new FastCgiRequest("/", "POST") { Body = "{"u8.ToArray() }.With("CONTENT_TYPE", "application/json")).Status);
    }

    [Fact]
    public async Task An_exception_page_takes_the_place_of_a_failed_answer()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app =>
        {
            app.UseExceptionHandler(static error => error.Run(static context => context.Response.WriteAsync("sorry")));
            app.MapGet("/", static string () => throw new InvalidOperationException("thrown on purpose"));
        });
        FastCgiResponse response = app.Get("/");
        Assert.Equal((500, "sorry"), (response.Status, response.Text));
        Assert.DoesNotContain("sorry", response.Stderr, StringComparison.Ordinal);
    }

    private sealed record Point(int X, int Y);
}
