// The framework passes the token of a request on to what writes its result, and swallows the exception of a cancelled one: what there is of the
// response by then must not pass for all of it.

using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class SwallowedCancellationTests
{
    private static async IAsyncEnumerable<string> Items(int length, [EnumeratorCancellation] CancellationToken cancellationToken)
    {
        if (length > 0)
        {
            yield return new string('a', length);
        }

        await Task.Delay(Timeout.Infinite, cancellationToken);
        yield return "never";
    }

    private static void IsShort(MillraceOptions options) => options.RequestTimeout = TimeSpan.FromMilliseconds(200);

    private static void MapItems(WebApplication app) => app.MapGet("/", static (CancellationToken cancellationToken) => Items(0, cancellationToken));

    [Fact]
    public async Task A_sequence_that_takes_too_long_is_504_although_its_serializer_swallows_that_FastCGI_RequestTimeout()
    {
        await using HostedApp app = await HostedApp.StartAsync(MapItems, options: IsShort);
        FastCgiResponse answer = app.Get("/");
        Assert.Equal((504, 1U), (answer.Status, answer.End?.AppStatus));
    }

    [Fact]
    public async Task A_sequence_that_takes_too_long_is_504_although_its_serializer_swallows_that_HTTP_RequestTimeout()
    {
        await using UnixApp app = await UnixApp.StartAsync(ApplicationProtocol.Http, MapItems, static builder => builder.WebHost.UseMillrace(IsShort));
        UnixAnswer answer = await app.Get("/");
        Assert.Equal((504, ""), (answer.Status, answer.Text));
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(100_000)]
    public async Task A_sequence_that_its_serializer_leaves_off_has_no_end(int length)
    {
        await using HostedApp app = await HostedApp.StartAsync(
            web => web.MapGet("/", (CancellationToken cancellationToken) => Items(length, cancellationToken)), address: "http://127.0.0.1:0");
        Assert.DoesNotContain("\r\n0\r\n\r\n", await AskAndFinish(app), StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_client_that_has_finished_sending_gets_a_whole_file()
    {
        string file = Path.GetTempFileName();
        try
        {
            await File.WriteAllTextAsync(file, new string('b', 300_000), TestContext.Current.CancellationToken);
            await using HostedApp app = await HostedApp.StartAsync(
                web => web.MapGet("/", async (HttpContext context) =>
                {
                    await Task.Delay(Timeout.Infinite, context.RequestAborted).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
                    await context.Response.SendFileAsync(file, CancellationToken.None);
                }),
                address: "http://127.0.0.1:0");
            Assert.Equal(300_000, (await AskAndFinish(app)).Count(static character => character == 'b'));
        }
        finally
        {
            File.Delete(file);
        }
    }

    private static async Task<string> AskAndFinish(HostedApp app)
    {
        using var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { ReceiveTimeout = 10_000 };
        await client.ConnectAsync(IPAddress.Loopback, new Uri(app.Address).Port, TestContext.Current.CancellationToken);
        client.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"u8);
        client.Shutdown(SocketShutdown.Send);
        var text = new StringBuilder();
        var bytes = new byte[65_536];
        while (client.Receive(bytes) is > 0 and int count)
        {
            text.Append(Encoding.ASCII.GetString(bytes, 0, count));
        }

        return text.ToString();
    }
}
