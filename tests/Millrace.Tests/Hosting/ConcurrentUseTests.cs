// Applications that use what belongs to one request from several threads at a time. Nobody promises them much; but what works
// on other servers works here.

using System.Globalization;
using System.IO.Pipelines;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class ConcurrentUseTests
{
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
