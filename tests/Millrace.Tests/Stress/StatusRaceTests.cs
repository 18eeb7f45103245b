// A status that another thread sets while the answer starts: of an application that forgets its own work. 204 with a chunked body would be read as the beginning of the next answer.

using Microsoft.AspNetCore.Http;
using Millrace.Tests.Behaviour.Http1;

namespace Millrace.Tests.Stress;

public sealed class StatusRaceTests
{
    private const int Requests = 5_000;

    [Theory]
    [InlineData(204)]
    [InlineData(304)]
    public void A_status_that_another_thread_sets_is_in_all_of_an_answer_or_in_nothing_of_it_RFC9112_6_3(int status)
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
                bench =>
                {
                    HttpPeer peer = bench.Connect();
                    for (int i = 1; i <= Requests; i++)
                    {
                        bench.Send(peer, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                        HttpAnswer answer = peer.Answers[^1];
                        Assert.Equal(i, peer.Answers.Count);
                        Assert.True(answer.Status == 200 ? answer.BodyText is "the text" or "" : answer.Status == status && answer.Field("Transfer-Encoding") is null, $"{answer.Status} {answer.Field("Transfer-Encoding")} {answer.BodyText}");
                    }
                });
        }
        finally
        {
            Volatile.Write(ref isOver, true);
            other.Join();
        }
    }
}
