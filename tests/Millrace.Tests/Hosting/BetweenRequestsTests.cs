// A connection whose answer has been sent, but whose exchange has not ended: OnCompleted is still running.

using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
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
}
