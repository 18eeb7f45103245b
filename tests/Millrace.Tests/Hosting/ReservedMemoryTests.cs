// GetMemory, then something else, then Advance: what was given before is nobody's any more where bytes have left, or are leaving, behind it.
// PipeWriter.GetMemory: it is of no use after the next call of Advance, and here neither behind a write, a flush or a file.

using System.Buffers;
using System.Globalization;
using System.IO.Pipelines;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.DependencyInjection;

namespace Millrace.Tests.Hosting;

public sealed class ReservedMemoryTests
{
    private const int FileSize = 3_000_000;

    private static CancellationToken Ended => TestContext.Current.CancellationToken;

    public static TheoryData<ApplicationProtocol, bool, string> Between
    {
        get
        {
            var data = new TheoryData<ApplicationProtocol, bool, string>();
            foreach (ApplicationProtocol protocol in Enum.GetValues<ApplicationProtocol>())
            {
                foreach (string between in (string[])["write", "large write", "flush", "file", "small file", "file of no length", "start"])
                {
                    data.Add(protocol, false, between);
                    data.Add(protocol, true, between);
                }
            }

            return data;
        }
    }

    [Theory]
    [MemberData(nameof(Between))]
    public async Task What_was_given_before_something_else_was_sent_puts_no_bytes_into_that(ApplicationProtocol protocol, bool started, string between)
    {
        string path = Path.GetTempFileName();
        await File.WriteAllTextAsync(path, new string('f', between == "small file" ? 500 : FileSize), Ended);
        bool advanced = false;
        await using UnixApp app = await UnixApp.StartAsync(protocol, web => web.MapGet("/", async context =>
        {
            if (started)
            {
                await context.Response.StartAsync(Ended);
            }

            PipeWriter writer = context.Response.BodyWriter;
            "[given before it]"u8.CopyTo(writer.GetSpan(100));
            Task under = between switch
            {
                "write" => context.Response.Body.WriteAsync(Encoding.ASCII.GetBytes("write"), Ended).AsTask(),
                "large write" => context.Response.Body.WriteAsync(Encoding.ASCII.GetBytes(new string('w', FileSize)), Ended).AsTask(),
                "flush" => context.Response.Body.FlushAsync(Ended),
                "file of no length" => context.Response.SendFileAsync("/proc/self/limits", 0, null, Ended),
                "start" => context.Response.StartAsync(Ended),
                _ => context.Response.SendFileAsync(path, 0, null, Ended),
            };
            try
            {
                writer.Advance("[given before it]".Length);
                advanced = true;
            }
            catch (ArgumentOutOfRangeException)
            {
                // so it is said
            }

            await under;
            await context.Response.WriteAsync("|behind");
        }));
        string expected = between switch
        {
            "write" => "write|behind",
            "large write" => new string('w', FileSize) + "|behind",
            "flush" => "|behind",
            "file of no length" => await File.ReadAllTextAsync("/proc/self/limits", Ended) + "|behind",
            "start" => "[given before it]|behind",
            "small file" => new string('f', 500) + "|behind",
            _ => new string('f', FileSize) + "|behind",
        };
        UnixAnswer answer = await app.GetLate("/", TimeSpan.FromMilliseconds(200));
        File.Delete(path);
        Assert.Equal(200, answer.Status);
        Assert.Equal(expected.Length.ToString(CultureInfo.InvariantCulture), answer.Text.Length.ToString(CultureInfo.InvariantCulture));
        Assert.Equal(expected, answer.Text);
        Assert.Equal(between == "start", advanced);
    }

    public static MatrixTheoryData<ApplicationProtocol, bool, string> Ahead => new(Enum.GetValues<ApplicationProtocol>(), [false, true], ["flush", "write", "file"]);

    // What goes on ahead of it, a flush, a write in parts or a file that nobody has awaited, does not take away what has been given behind it.
    [Theory]
    [MemberData(nameof(Ahead))]
    public async Task What_is_given_while_something_else_is_on_its_way_goes_behind_that(ApplicationProtocol protocol, bool isFlushed, string ahead)
    {
        string path = Path.GetTempFileName();
        await File.WriteAllTextAsync(path, new string('f', FileSize), Ended);
        byte[] large = Encoding.ASCII.GetBytes(new string('f', FileSize));
        await using UnixApp app = await UnixApp.StartAsync(protocol, web => web.MapGet("/", async context =>
        {
            await context.Response.StartAsync(Ended);
            PipeWriter writer = context.Response.BodyWriter;
            if (ahead == "flush")
            {
                writer.Write(large);
            }

            Task under = ahead switch
            {
                "flush" => writer.FlushAsync(Ended).AsTask(),
                "write" => context.Response.Body.WriteAsync(large, Ended).AsTask(),
                _ => context.Response.SendFileAsync(path, 0, null, Ended),
            };
            Assert.False(under.IsCompleted);
            writer.Write("|one"u8);     // waits for its turn
            Task flush = isFlushed ? writer.FlushAsync(Ended).AsTask() : Task.CompletedTask;
            Memory<byte> given = writer.GetMemory(100);
            await under;
            await flush;
            await Task.Delay(20, Ended);
            "|two"u8.CopyTo(given.Span);
            writer.Advance("|two".Length);
            await writer.FlushAsync(Ended);
        }));
        UnixAnswer answer = await app.GetLate("/", TimeSpan.FromMilliseconds(200));
        File.Delete(path);
        Assert.Equal(new string('f', FileSize) + "|one|two", answer.Text);
    }

    public static MatrixTheoryData<ApplicationProtocol, bool> Protocols => new(Enum.GetValues<ApplicationProtocol>(), [false, true]);

    // Whoever fills it when it is nobody's any more fills nothing that is sent, whatever he writes there: not what frames the response, and not what another thread has written.
    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task What_is_filled_too_late_is_in_no_response(ApplicationProtocol protocol, bool isAdvanced)
    {
        await using UnixApp app = await UnixApp.StartAsync(protocol, web => web.MapGet("/", (HttpContext context) =>
        {
            context.Response.StartAsync(Ended).GetAwaiter().GetResult();
            PipeWriter writer = context.Response.BodyWriter;
            Span<byte> given = writer.GetSpan(400);
            if (isAdvanced)
            {
                given[..10].Fill((byte)'a');
                writer.Advance(10);
                writer.FlushAsync(Ended).AsTask().GetAwaiter().GetResult();
            }
            else
            {
                context.Response.Body.WriteAsync("aaaaaaaaaa"u8.ToArray(), Ended).AsTask().GetAwaiter().GetResult();
            }

            given.Fill((byte)'z');
            context.Response.Body.WriteAsync(new byte[10], Ended).AsTask().GetAwaiter().GetResult();
            given.Fill((byte)'z');
            return Task.CompletedTask;
        }));
        for (int i = 0; i < 3; i++)
        {
            UnixAnswer answer = await app.Get("/");
            Assert.Equal("aaaaaaaaaa" + new string('\0', 10), answer.Text);
        }
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task What_is_given_holds_nothing_of_another_request(ApplicationProtocol protocol, bool isLarge)
    {
        int size = isLarge ? 200_000 : 5_000;
        await using UnixApp app = await UnixApp.StartAsync(protocol, web => web.MapGet("/", (HttpContext context) =>
        {
            Span<byte> given = context.Response.BodyWriter.GetSpan(size);
            bool isClean = !given.ContainsAnyExcept((byte)0);
            given.Fill((byte)'s');
            return isClean ? "clean" : "not clean";
        }), static builder => builder.Services.Configure<MillraceOptions>(static options => options.Loops = 1));
        for (int i = 0; i < 4; i++)
        {
            Assert.Equal("clean", (await app.Get("/")).Text);
        }
    }

    // What is encoded before something is awaited, and advanced over behind it, is its own, whoever has written on that thread meanwhile.
    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task What_is_advanced_over_behind_the_synchronous_part_is_what_was_written_in_it(ApplicationProtocol protocol, bool isTwice)
    {
        var entered = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var others = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using UnixApp app = await UnixApp.StartAsync(
            protocol,
            web =>
            {
                web.MapGet("/mine", async context =>
                {
                    PipeWriter writer = context.Response.BodyWriter;
                    "minemine"u8.CopyTo(writer.GetSpan(100));
                    if (isTwice)
                    {
                        writer.Advance(4);
                    }

                    entered.SetResult();
                    await others.Task;
                    writer.Advance(isTwice ? 4 : 8);
                    await writer.FlushAsync(Ended);
                });
                web.MapGet("/others", (HttpContext context) =>
                {
                    PipeWriter writer = context.Response.BodyWriter;
                    "theirs, of another visitor"u8.CopyTo(writer.GetSpan(100));
                    writer.Advance("theirs".Length);
                    return Task.CompletedTask;
                });
            },
            static builder => builder.Services.Configure<MillraceOptions>(static options => options.Loops = 1));
        Task<UnixAnswer> mine = Task.Run(() => app.Get("/mine"));
        await entered.Task;
        for (int i = 0; i < 5; i++)
        {
            Assert.Equal("theirs", (await app.Get("/others")).Text);
        }

        others.SetResult();
        Assert.Equal("minemine", (await mine).Text);
    }
}
