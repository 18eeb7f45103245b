// A tunnel that its application gives up: whatever has been said of the answer before, the connection ends. RFC 9110 §7.8.

using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;

namespace Millrace.Tests.Behaviour.Http1;

public sealed class UpgradeAbortTests
{
    private const string Ask = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: chat/1\r\n\r\n";

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void An_abort_ends_the_connection_and_whoever_reads_also_behind_CompleteAsync(bool completes)
    {
        bool hasEnded = false;
        var hasLeft = new TaskCompletionSource();       // all that has been written
        HttpBench.RunHosted(
            async context =>
            {
                await using Stream stream = await context.Features.GetRequiredFeature<IHttpUpgradeFeature>().UpgradeAsync();
                if (completes)
                {
                    await context.Response.CompleteAsync();
                }

                await hasLeft.Task;
                ValueTask<int> reading = stream.ReadAsync(new byte[10]);
                context.Abort();
                try
                {
                    Assert.Equal(0, await reading);
                }
                catch (Exception error) when (error is IOException or OperationCanceledException)
                {
                    // As likely: whoever reads hears of it.
                }

                hasEnded = true;
            },
            bench =>
            {
                HttpPeer peer = bench.Connect();
                bench.Send(peer, Ask);
                Assert.Equal(101, Assert.Single(peer.Answers).Status);
                hasLeft.SetResult();
                bench.Settle();
                Assert.Equal((true, 0, true), (hasEnded, bench.Connections, peer.IsAtEnd));
            });
    }
}
