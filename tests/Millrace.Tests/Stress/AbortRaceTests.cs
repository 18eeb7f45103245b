// An application that gives a connection up just as a send to a peer that has gone fails: both ends of that meet, and neither
// may wait for the other.

namespace Millrace.Tests.Stress;

[Collection(AloneCollection.Name)]
public sealed class AbortRaceTests : IDisposable
{
    private const int Rounds = 4_000;

    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Fact]
    public async Task Abort_and_a_send_that_fails_do_not_wait_for_each_other()
    {
        FastCgiPeer? present = null;
        int round = 0;
        using var ended = new SemaphoreSlim(0);
        await using MillraceServer server = await MillraceServer.StartAsync(
            _folder.NewAddress(),
            async (_, response) =>
            {
                await Task.Yield();     // off the loop: what it writes is sent by its own thread
                bool hasGone = false;
                Task aborting = Task.Run(() =>
                {
                    while (!Volatile.Read(ref hasGone))
                    {
                        Thread.SpinWait(1);
                    }

                    Thread.SpinWait(round % 40);
                    response.Abort();
                });
                present!.Dispose();
                Volatile.Write(ref hasGone, true);
                try
                {
                    response.WriteText("to nobody");
                    await response.FlushAsync();
                }
                catch (Exception error) when (error is IOException or OperationCanceledException or ObjectDisposedException)
                {
                    // It has been given up already.
                }

                await aborting;
                ended.Release();
            },
            new MillraceOptions { DrainTimeout = TimeSpan.FromSeconds(1) });
        byte[] request = new FastCgiRequest("/").ToBytes();
        for (; round < Rounds; round++)
        {
            present = FastCgiPeer.Connect(server.Addresses[0]);
            present.Send(request);
            Assert.True(await ended.WaitAsync(10_000, TestContext.Current.CancellationToken), $"round {round}: Abort and the send wait for each other");
        }
    }
}
