// Calls of a pipe whose lock the other side has, by a thread that is interrupted.

using System.IO.Pipelines;
using System.Threading.Tasks.Sources;
using Millrace.Exchanges;

namespace Millrace.Tests.Exchanges;

public sealed class SteadyPipeTests
{
    // What an awaiter throws there has nobody to catch it: the runtime ends the process.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_read_begins_to_wait_although_its_thread_is_interrupted_and_the_interruption_stays(bool flowsContext)
    {
        var source = new Interrupted();
        bool isPending = false;
        int resumed = 0;
        Exception? thrown = null;
        var thread = new Thread(() =>
        {
            SteadyPipe.Wait wait = SteadyPipe.WaitFor(new ValueTask<ReadResult>(source, 0)).GetAwaiter();
            thrown = Record.Exception(() => Begin(wait, () => resumed++, flowsContext));
            isPending = Record.Exception(static () => Thread.Sleep(1)) is ThreadInterruptedException;
        });
        thread.Start();
        Assert.True(thread.Join(10_000));
        Assert.Null(thrown);
        Assert.Equal(2, source.Begun);
        Assert.True(isPending);
        source.Resume();
        Assert.Equal(1, resumed);
    }

    private static void Begin(SteadyPipe.Wait wait, Action continuation, bool flowsContext)
    {
        if (flowsContext)
        {
            wait.OnCompleted(continuation);
        }
        else
        {
            wait.UnsafeOnCompleted(continuation);
        }
    }

    private sealed class Interrupted : IValueTaskSource<ReadResult>
    {
        private Action? _continuation;

        public int Begun { get; private set; }

        public void Resume() => _continuation!();

        public ReadResult GetResult(short token) => default;

        public ValueTaskSourceStatus GetStatus(short token) => ValueTaskSourceStatus.Pending;

        public void OnCompleted(Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags)
        {
            if (++Begun == 1)
            {
                throw new ThreadInterruptedException();
            }

            _continuation = () => continuation(state);
        }
    }
}
