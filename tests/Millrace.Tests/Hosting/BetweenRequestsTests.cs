// A connection whose answer has been sent, but whose exchange has not ended: OnCompleted is still running.

using System.Net.Sockets;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Logging;
using Millrace.Protocols.FastCgi;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class BetweenRequestsTests
{
    [Fact]
    public async Task Another_role_is_refused_as_an_unknown_role_and_the_next_request_waits_FastCGI_5_5()
    {
        var gate = new TaskCompletionSource();
        await using HostedApp app = await HostedApp.StartAsync(app => app.MapGet("/{page}", (string page, HttpContext context) =>
        {
            if (page == "first")
            {
                context.Response.OnCompleted(() => gate.Task);
            }

            return page;
        }));
        using FastCgiPeer peer = app.Connect();
        Assert.Equal("first", peer.Exchange(new FastCgiRequest("/first")).Text);
        byte[] authorizer = new FastCgiRequest("/authorize").Head();
        authorizer[9] = (byte)Role.Authorizer;
        peer.Send(authorizer);
        Assert.Equal(ProtocolStatus.UnknownRole, peer.Receive().End!.Value.Status);
        peer.Send(new FastCgiRequest("/second").ToBytes());
        Assert.False(peer.Socket.Poll(100_000, System.Net.Sockets.SelectMode.SelectRead));
        gate.SetResult();
        Assert.Equal("second", peer.Receive().Text);
    }

    [Fact]
    public async Task Peer_that_leaves_with_its_whole_answer_has_aborted_nothing()
    {
        var gate = new TaskCompletionSource();
        var sawAborted = new TaskCompletionSource<bool>();
        await using HostedApp app = await HostedApp.StartAsync(app => app.MapGet("/{page}", (string page, HttpContext context) =>
        {
            if (page == "first")
            {
                CancellationToken aborted = context.RequestAborted;
                context.Response.OnCompleted(async () =>
                {
                    await gate.Task;
                    sawAborted.SetResult(aborted.IsCancellationRequested);
                });
            }

            return page;
        }));
        using (FastCgiPeer peer = app.Connect())
        {
            Assert.Equal("first", peer.Exchange(new FastCgiRequest("/first")).Text);
        }

        // Every loop has turned since the end came.
        for (int i = 0; i < 50; i++)
        {
            Assert.Equal("second", app.Get("/second").Text);
        }

        gate.SetResult();
        Assert.False(await sawAborted.Task.WaitAsync(TimeSpan.FromSeconds(10)));
    }

    // It has been answered before it has said all: what its handler reads of the rest yet ends with an exception, and is no failure of the application, as on Kestrel.
    [Fact]
    public async Task Peer_that_leaves_with_its_whole_answer_and_not_all_of_its_body_said_is_no_failure()
    {
        using var log = new CollectedLog();
        var ended = new TaskCompletionSource();
        using var folder = new SocketFolder();
        await using HostedApp app = await HostedApp.StartAsync(
            app => app.MapPost("/upload", async (HttpContext context) =>
            {
                try
                {
                    context.Response.ContentLength = 4;
                    await context.Response.WriteAsync("done");
                    await context.Response.Body.FlushAsync();
                    await context.Request.Body.CopyToAsync(Stream.Null);
                }
                finally
                {
                    ended.SetResult();
                }
            }),
            builder => builder.Logging.AddProvider(log),
            address: folder.NewAddress("http"));
        using (var client = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified) { ReceiveTimeout = 10_000 })
        {
            await client.ConnectAsync(new UnixDomainSocketEndPoint(app.Address.Split("unix:")[1]));
            await client.SendAsync("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc"u8.ToArray());
            byte[] answer = new byte[1_000];
            string got = "";
            while (!got.EndsWith("done", StringComparison.Ordinal))
            {
                got += System.Text.Encoding.ASCII.GetString(answer, 0, client.Receive(answer));
            }
        }

        await ended.Task.WaitAsync(TimeSpan.FromSeconds(10));
        await app.App.StopAsync();
        Assert.Empty(log.Errors);
    }
}
