// A status that another thread sets while the answer starts: of an application that forgets its own work. 204 with a chunked body would be read as the beginning of the next answer,
// what comes through a tunnel behind 200 as a body.

using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Tests.Behaviour.Http1;

namespace Millrace.Tests.Stress;

public sealed class StatusRaceTests
{
    private const int Requests = 5_000;

    /// <summary>Another thread sets the status of whichever response is there, again and again, while requests are made.</summary>
    private static void Run(int status, Func<HttpContext, Task> handler, Action<HttpBench, int> ask)
    {
        HttpResponse? target = null;
        bool isOver = false;
        var other = new Thread(() =>
        {
            while (!Volatile.Read(ref isOver))
            {
                try
                {
                    if (Volatile.Read(ref target) is { } response)
                    {
                        response.StatusCode = status;
                        response.StatusCode = 200;
                    }
                }
                catch (Exception error) when (error is InvalidOperationException or ObjectDisposedException or NullReferenceException)
                {
                    Volatile.Write(ref target, null);       // it has started, or ended
                }
            }
        });
        other.Start();
        try
        {
            HttpBench.RunHosted(
                async context =>
                {
                    Volatile.Write(ref target, context.Response);
                    Thread.SpinWait(20);
                    await handler(context);
                },
                bench =>
                {
                    for (int i = 1; i <= Requests; i++)
                    {
                        ask(bench, i);
                    }
                });
        }
        finally
        {
            Volatile.Write(ref isOver, true);
            other.Join();
        }
    }

    [Theory]
    [InlineData(204)]
    [InlineData(304)]
    public void A_status_that_another_thread_sets_is_in_all_of_an_answer_or_in_nothing_of_it_RFC9112_6_3(int status)
    {
        HttpPeer? peer = null;
        Run(
            status,
            static async context =>
            {
                try
                {
                    await context.Response.WriteAsync("the text");
                    await context.Response.Body.FlushAsync();
                }
                catch (InvalidOperationException)
                {
                    // With that status there is no body.
                }
            },
            (bench, number) =>
            {
                peer ??= bench.Connect();
                bench.Send(peer, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                HttpAnswer answer = peer.Answers[^1];
                Assert.Equal(number, peer.Answers.Count);
                Assert.True(answer.Status == 200 ? answer.BodyText is "the text" or "" : answer.Status == status && answer.Field("Transfer-Encoding") is null, $"{answer.Status} {answer.Field("Transfer-Encoding")} {answer.BodyText}");
            });
    }

    [Fact]
    public void A_switch_of_protocols_is_101_whatever_another_thread_sets_RFC9110_7_8() => Run(
        404,
        static async context =>
        {
            await using Stream tunnel = await context.Features.GetRequiredFeature<IHttpUpgradeFeature>().UpgradeAsync();
        },
        static (bench, _) =>
        {
            HttpPeer peer = bench.Connect();
            bench.Send(peer, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: chat/1\r\n\r\n");
            Assert.Equal(101, Assert.Single(peer.Answers).Status);
            peer.Socket.ClientClose();
            bench.Settle();
        });
}
