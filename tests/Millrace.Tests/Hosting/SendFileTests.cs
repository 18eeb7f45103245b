// Response.SendFileAsync of real files, among them those that a file system makes up while they are read: what it says of
// their length is not what they hold (procfs says 0, sysfs a page).

using System.Diagnostics;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class SendFileTests
{
    private const int Page = 4_096;

    public static TheoryData<ApplicationProtocol> Protocols => [ApplicationProtocol.Http, ApplicationProtocol.FastCgi];

    private static Task<UnixApp> Sends(ApplicationProtocol protocol, string file, Action<HttpContext>? before = null) =>
        UnixApp.StartAsync(protocol, web => web.MapMethods("/file", ["GET", "HEAD"], async context =>
        {
            before?.Invoke(context);
            await context.Response.SendFileAsync(file);
        }));

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task A_file_that_says_it_is_empty_and_is_not_arrives_whole(ApplicationProtocol protocol)
    {
        const string File = "/proc/self/cmdline";
        Assert.Equal(0, new FileInfo(File).Length);
        string expected = await System.IO.File.ReadAllTextAsync(File);
        Assert.NotEmpty(expected);
        await using UnixApp app = await Sends(protocol, File);
        for (int i = 0; i < 3; i++)
        {
            UnixAnswer answer = await app.Get("/file");
            Assert.Equal((200, expected), (answer.Status, answer.Text));
        }
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task A_long_file_that_says_it_is_empty_is_streamed(ApplicationProtocol protocol)
    {
        const string File = "/proc/self/smaps";
        Assert.Equal(0, new FileInfo(File).Length);
        await using UnixApp app = await Sends(protocol, File);
        string text = (await app.Get("/file")).Text;
        Assert.InRange(text.Length, 100_000, 100_000_000);
        Assert.Equal(0, text.Count(static c => c == '\0'));
        string[] lines = text.Split('\n');
        Assert.Equal("", lines[^1]);
        Assert.StartsWith("VmFlags:", lines[^2], StringComparison.Ordinal);
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task A_file_that_says_it_is_a_page_and_is_not_arrives_whole(ApplicationProtocol protocol)
    {
        const string File = "/sys/devices/system/cpu/online";
        Assert.Equal(Page, new FileInfo(File).Length);
        string expected = await System.IO.File.ReadAllTextAsync(File);
        Assert.InRange(expected.Length, 2, Page - 1);
        await using UnixApp app = await Sends(protocol, File);
        UnixAnswer answer = await app.Get("/file");
        Assert.Equal((200, expected), (answer.Status, answer.Text));
    }

    // The length that was announced came from the file system as well: an answer that is wrong is none.
    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task A_file_that_holds_more_than_was_announced_is_an_error_and_not_an_empty_answer(ApplicationProtocol protocol)
    {
        await using UnixApp app = await Sends(protocol, "/proc/self/cmdline", static context => context.Response.ContentLength = 0);
        Assert.Equal(500, (await app.Get("/file")).Status);
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task A_file_that_is_empty_is_an_empty_answer(ApplicationProtocol protocol)
    {
        using var folder = new SocketFolder();
        string file = folder.PathOf("empty");
        await File.WriteAllTextAsync(file, "");
        await using UnixApp app = await Sends(protocol, file);
        UnixAnswer answer = await app.Get("/file");
        Assert.Equal((200, ""), (answer.Status, answer.Text));
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task What_is_written_around_a_file_stays_around_it(ApplicationProtocol protocol)
    {
        string expected = "before " + await File.ReadAllTextAsync("/proc/self/cmdline") + " behind";
        await using UnixApp app = await UnixApp.StartAsync(protocol, static web => web.MapGet("/file", static async context =>
        {
            await context.Response.WriteAsync("before ");
            await context.Response.SendFileAsync("/proc/self/cmdline");
            await context.Response.WriteAsync(" behind");
        }));
        Assert.Equal(expected, (await app.Get("/file")).Text);
    }

    [Theory]
    [InlineData(10_000, false)]        // read
    [InlineData(10_000, true)]
    [InlineData(1_000_000, false)]     // sent by the kernel
    [InlineData(1_000_000, true)]
    public async Task A_file_that_becomes_shorter_while_it_is_sent_breaks_the_answer_off(int size, bool isCounted)
    {
        using var folder = new SocketFolder();
        string file = folder.PathOf("shrinks");
        await using HostedApp app = await HostedApp.StartAsync(web => web.MapGet("/file", async context =>
        {
            await File.WriteAllBytesAsync(file, new byte[size]);
            context.Response.OnStarting(() =>
            {
                File.WriteAllBytes(file, new byte[size / 2]);   // its length has been looked at
                return Task.CompletedTask;
            });
            await context.Response.SendFileAsync(file, 0, isCounted ? size : null);
        }));
        Assert.False(app.Get("/file").IsWhole);
        Assert.Equal(404, app.Get("/none").Status);
    }

    // As early as its head, for example by a callback that finds the client gone.
    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task A_file_whose_token_is_cancelled_when_its_head_is_written_is_not_sent_and_its_answer_never_whole(ApplicationProtocol protocol)
    {
        using var folder = new SocketFolder();
        string file = folder.PathOf("page");
        await File.WriteAllBytesAsync(file, new byte[1_000]);
        var refused = new TaskCompletionSource<Exception?>();
        await using UnixApp app = await UnixApp.StartAsync(protocol, web => web.MapGet("/file", async context =>
        {
            using var cancellation = new CancellationTokenSource();
            context.Response.OnStarting(() =>
            {
                cancellation.Cancel();
                return Task.CompletedTask;
            });
            refused.SetResult(await Record.ExceptionAsync(() => context.Response.SendFileAsync(file, 0, 1_000, cancellation.Token)));
        }));
        Assert.NotNull(await Record.ExceptionAsync(() => app.Get("/file")));
        Assert.IsAssignableFrom<OperationCanceledException>(await refused.Task.WaitAsync(TimeSpan.FromSeconds(20), TestContext.Current.CancellationToken));
    }

    // As on Kestrel. The token may fire a moment later than the connection is known to have gone.
    [Fact]
    public async Task A_file_that_is_sent_with_RequestAborted_to_a_client_that_leaves_ends_by_it_every_time()
    {
        using var folder = new SocketFolder();
        string file = folder.PathOf("large");
        await File.WriteAllBytesAsync(file, new byte[20_000_000]);
        var ends = new System.Collections.Concurrent.BlockingCollection<string>();
        await using HostedApp app = await HostedApp.StartAsync(web => web.MapGet("/file", async context =>
        {
            Exception? thrown = await Record.ExceptionAsync(() => context.Response.SendFileAsync(file, 0, null, context.RequestAborted));
            ends.Add(thrown is OperationCanceledException ? "cancelled" : thrown?.GetType().Name ?? "sent");
        }));
        for (int i = 0; i < 20; i++)
        {
            using (FastCgiPeer peer = FastCgiPeer.Connect(app.Address))
            {
                peer.Send(new FastCgiRequest("/file").ToBytes());
                await Task.Delay(20, TestContext.Current.CancellationToken);
            }

            Assert.True(ends.TryTake(out string? end, 20_000));
            Assert.Equal("cancelled", end);
        }
    }

    // As bytes that are written do.
    [Fact]
    public async Task The_bytes_of_a_file_that_HEAD_leaves_out_count_against_ContentLength()
    {
        using var folder = new SocketFolder();
        string file = folder.PathOf("ten");
        await File.WriteAllBytesAsync(file, new byte[10]);
        var refused = new TaskCompletionSource<Exception?>();
        await using HostedApp app = await HostedApp.StartAsync(web => web.MapMethods("/file", ["HEAD"], async context =>
        {
            context.Response.ContentLength = 10;
            await context.Response.SendFileAsync(file);
            refused.SetResult(await Record.ExceptionAsync(() => context.Response.SendFileAsync(file)));
        }));
        Assert.Equal(200, app.Exchange(new FastCgiRequest("/file", "HEAD")).Status);
        Assert.IsType<InvalidOperationException>(await refused.Task.WaitAsync(TimeSpan.FromSeconds(20), TestContext.Current.CancellationToken));
    }

    [Theory]
    [InlineData(0, 11)]
    [InlineData(5, 6)]
    [InlineData(10, 1)]
    [InlineData(11, 0)]
    public async Task A_part_that_is_not_in_the_file_is_refused_before_anything_is_sent(long offset, long count)
    {
        using var folder = new SocketFolder();
        string file = folder.PathOf("ten");
        await File.WriteAllBytesAsync(file, new byte[10]);
        await using HostedApp app = await HostedApp.StartAsync(web => web.MapGet("/file", async context =>
        {
            var body = context.Features.GetRequiredFeature<IHttpResponseBodyFeature>();
            await Assert.ThrowsAsync<ArgumentOutOfRangeException>(() => body.SendFileAsync(file, offset, count));
            context.Response.StatusCode = StatusCodes.Status416RangeNotSatisfiable;
        }));
        Assert.Equal(416, app.Get("/file").Status);
    }

    // Who opens a pipe waits for somebody who writes to it.
    [Theory]
    [InlineData("pipe", typeof(IOException))]
    [InlineData("folder", typeof(UnauthorizedAccessException))]
    [InlineData("nothing", typeof(FileNotFoundException))]
    [InlineData("nothing/below", typeof(DirectoryNotFoundException))]
    public async Task What_is_no_file_is_not_sent_and_nobody_waits_for_it(string what, Type error)
    {
        using var folder = new SocketFolder();
        using (Process? made = Process.Start("mkfifo", folder.PathOf("pipe")))
        {
            await made!.WaitForExitAsync(TestContext.Current.CancellationToken);
        }

        Directory.CreateDirectory(folder.PathOf("folder"));
        await using HostedApp app = await HostedApp.StartAsync(web => web.MapGet("/file", async context =>
        {
            Exception? refused = await Record.ExceptionAsync(() => context.Response.SendFileAsync(folder.PathOf(what)));
            await context.Response.WriteAsync(refused?.GetType().Name ?? "sent");
        }));
        Assert.Equal(error.Name, app.Get("/file").Text);
    }
}
