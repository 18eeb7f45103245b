// GetMemory, then something else, then Advance: what was given before is nobody's any more where bytes have left, or are leaving, behind it.
// PipeWriter.GetMemory: it is of no use after the next call of Advance, and here neither behind a write, a flush or a file.

using System.Globalization;
using System.IO.Pipelines;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;

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
}
