// Applications that use what belongs to one request from several threads at a time. Nobody promises them much; but what works
// on other servers works here.

using System.Globalization;
using System.IO.Pipelines;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class ConcurrentUseTests
{
    private const int Threads = 4;

    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    public async Task Writes_of_several_threads_all_arrive_whole(ApplicationProtocol protocol)
    {
        const int Lines = 500;
        await using UnixApp app = await UnixApp.StartAsync(protocol, static web => web.Run(static async context =>
        {
            await context.Response.StartAsync();
            await Task.WhenAll(Enumerable.Range(0, Threads).Select(thread => Task.Run(async () =>
            {
                byte[] line = System.Text.Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"{new string((char)('a' + thread), 40)}\n"));
                for (int i = 0; i < Lines; i++)
                {
                    await context.Response.Body.WriteAsync(line);
                    await context.Response.Body.FlushAsync();
                }
            })));
        }));
        for (int i = 0; i < 5; i++)
        {
            string[] lines = (await app.Get("/")).Text.Split('\n', StringSplitOptions.RemoveEmptyEntries);
            Assert.Equal(Threads * Lines, lines.Length);
            Assert.All(lines, static line => Assert.Equal(new string(line[0], 40), line));
        }
    }

    // More than the socket takes, and a client that begins late: writes of every kind wait, and others wait for them.
    [Theory]
    [InlineData(ApplicationProtocol.FastCgi)]
    [InlineData(ApplicationProtocol.Http)]
    public async Task Writes_of_several_threads_all_arrive_whole_and_in_order_however_slow_the_client(ApplicationProtocol protocol)
    {
        const int Lines = 300;
        using var begun = new SemaphoreSlim(0);
        await using UnixApp app = await UnixApp.StartAsync(
            protocol,
            web => web.Run(async context =>
            {
                context.Features.GetRequiredFeature<IHttpBodyControlFeature>().AllowSynchronousIO = true;
                await context.Response.StartAsync();
                await Task.WhenAll(Enumerable.Range(0, Threads).Select(thread => Task.Run(() => WriteLines(context.Response, thread, Lines))));
            }));
        for (int i = 0; i < 3; i++)
        {
            string text = (await app.GetLate("/", TimeSpan.FromMilliseconds(200))).Text;
            int[] next = new int[Threads];
            foreach (string line in text.Split('\n', StringSplitOptions.RemoveEmptyEntries))
            {
                int thread = line[0] - 'a';
                Assert.Equal(Line(thread, next[thread]++), line + "\n");
            }

            Assert.All(next, static lines => Assert.Equal(Lines, lines));
        }
    }

    private static async Task WriteLines(HttpResponse response, int thread, int lines)
    {
        var unawaited = new List<Task>();
        for (int i = 0; i < lines; i++)
        {
            byte[] line = System.Text.Encoding.ASCII.GetBytes(Line(thread, i));
            switch ((i + thread) % 4)
            {
                case 0:
                    response.Body.Write(line);
                    break;
                case 1:
                    await response.BodyWriter.WriteAsync(line);
                    break;
                case 2:
                    await response.Body.WriteAsync(line);
                    await response.Body.FlushAsync();
                    break;
                default:
                    unawaited.Add(response.Body.WriteAsync(line).AsTask());
                    break;
            }
        }

        await Task.WhenAll(unawaited);
    }

    // Most are short, some take several parts.
    private static string Line(int thread, int number) =>
        string.Create(CultureInfo.InvariantCulture, $"{(char)('a' + thread)}{number:d5} ") + new string((char)('a' + thread), number % 10 == 3 ? 60_000 : number % 50) + "\n";

    [Theory]
    [InlineData("stream", "stream")]
    [InlineData("pipe", "pipe")]
    [InlineData("pipe", "stream")]
    [InlineData("stream", "pipe")]
    public async Task A_second_reader_at_the_same_time_is_refused_and_the_first_gets_the_body(string first, string second)
    {
        using var asked = new SemaphoreSlim(0);
        string report = "";
        await using HostedApp app = await HostedApp.StartAsync(web => web.Run(async context =>
        {
            Task<int> one = Read(context.Request, first);
            Task<int> two = Read(context.Request, second);
            asked.Release();
            report = await Outcome(two) + " ";
            report += await Outcome(one);
        }));
        using FastCgiPeer peer = app.Connect();
        byte[] request = new FastCgiRequest("/", "POST") { Body = new byte[10] }.ToBytes();
        peer.Send(request.AsSpan(0, request.Length - 26));      // the body, and its end
        Assert.True(await asked.WaitAsync(10_000));
        peer.Send(request.AsSpan(request.Length - 26));
        Assert.Equal(200, peer.Receive().Status);
        Assert.Equal("InvalidOperationException 10", report);
    }

    [Fact]
    public async Task Fields_may_be_removed_while_they_are_enumerated()
    {
        await using HostedApp app = await HostedApp.StartAsync(static web => web.Run(static context =>
        {
            for (int i = 0; i < 6; i++)
            {
                context.Response.Headers[$"X-{i}"] = "v";
            }

            foreach ((string name, _) in context.Response.Headers)
            {
                if (name != "X-4")
                {
                    context.Response.Headers.Remove(name);
                }
            }

            return Task.CompletedTask;
        }));
        FastCgiResponse response = app.Get("/");
        Assert.Equal([null, null, null, null, "v", null], Enumerable.Range(0, 6).Select(i => response[$"X-{i}"]));
    }

    private static async Task<int> Read(HttpRequest request, string how)
    {
        if (how == "stream")
        {
            return await request.Body.ReadAsync(new byte[10]);
        }

        ReadResult result = await request.BodyReader.ReadAsync();
        return (int)result.Buffer.Length;
    }

    private static async Task<string> Outcome(Task<int> reading)
    {
        try
        {
            return (await reading.WaitAsync(TimeSpan.FromSeconds(10))).ToString(CultureInfo.InvariantCulture);
        }
        catch (Exception error)
        {
            return error.GetType().Name;
        }
    }
}
