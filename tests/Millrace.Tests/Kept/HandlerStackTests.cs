// Which thread is in the handler's synchronous part is told by its stack: true near where the handler began and on no other
// thread. Further down the stack the thread passes for another one, and what it asks for is answered all the same.

using Millrace.Exchanges;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Kept;

public sealed class HandlerStackTests : IDisposable
{
    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Fact]
    public async Task A_handler_that_is_deep_down_its_stack_sees_and_answers_its_request()
    {
        await using MillraceServer server = await MillraceServer.StartAsync(
            _folder.NewAddress(),
            static (request, response) =>
            {
                string path = "";
                Deep(300, () => path = request.Path);
                response.WriteText($"{path} near ");
                Deep(300, () => response.WriteText("far"));
            });
        using FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]);
        for (int i = 0; i < 10; i++)
        {
            FastCgiResponse answer = peer.Exchange(new FastCgiRequest($"/{i}"));
            Assert.Equal($"/{i} near far", answer.Text);
        }
    }

    [Fact]
    public void Only_the_stack_of_the_handler_is_its_thread()
    {
        using var services = new Millrace.Loops.LoopServices(new MillraceOptions(), new Millrace.Handlers.DelegateHandler((_, _) => { }), new Millrace.Observe.Log(Microsoft.Extensions.Logging.Abstractions.NullLogger.Instance));
        var exchange = new Exchange(services);
        Assert.False(exchange.IsHandlerThread);
        exchange.EnterHandler();
        Assert.True(exchange.IsHandlerThread);
        bool near = false, far = true;
        Deep(10, () => near = exchange.IsHandlerThread);
        Deep(300, () => far = exchange.IsHandlerThread);
        Assert.True(near);
        Assert.False(far);

        var seen = new bool[64];
        var barrier = new Barrier(seen.Length);     // all at once, so that their stacks lie side by side
        ClientThreads.Start(seen.Length, index =>
        {
            barrier.SignalAndWait();
            seen[index] = exchange.IsHandlerThread;
            Deep(300, () => seen[index] |= exchange.IsHandlerThread);
        }).Join();
        Assert.DoesNotContain(true, seen);

        exchange.LeaveHandler();
        Assert.False(exchange.IsHandlerThread);
    }

    // A kilobyte of stack, and more, for each.
    private static void Deep(int levels, Action action)
    {
        Span<byte> room = stackalloc byte[1024];
        if (levels == 0)
        {
            action();
        }
        else
        {
            Deep(levels - 1, action);
        }

        room[0] = 1;
    }
}
