// Calls of a pipe, whose lock the other side may have at the moment: an interruption of the wait for it (see
// Platform/SteadyLock.cs) comes before anything is done, and the call is made again. A reader's calls may fail by it, with one exception: what an
// awaiter throws when the wait begins reaches nobody, and the runtime ends the process.

using System.IO.Pipelines;
using System.Runtime.CompilerServices;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal static class SteadyPipe
{
    public static Span<byte> GetSpan(PipeWriter writer, int size)
    {
        try
        {
            return writer.GetSpan(size);
        }
        catch (ThreadInterruptedException)
        {
            Span<byte> span = GetSpan(writer, size);
            Thread.CurrentThread.Interrupt();
            return span;
        }
    }

    public static void Advance(PipeWriter writer, int count)
    {
        try
        {
            writer.Advance(count);
        }
        catch (ThreadInterruptedException)
        {
            Advance(writer, count);
            Thread.CurrentThread.Interrupt();
        }
    }

    public static ValueTask<FlushResult> FlushAsync(PipeWriter writer)
    {
        try
        {
            return writer.FlushAsync();
        }
        catch (ThreadInterruptedException)
        {
            ValueTask<FlushResult> flush = FlushAsync(writer);
            Thread.CurrentThread.Interrupt();
            return flush;
        }
    }

    public static FlushResult GetResult(ValueTaskAwaiter<FlushResult> flush)
    {
        try
        {
            return flush.GetResult();
        }
        catch (ThreadInterruptedException)
        {
            FlushResult result = GetResult(flush);
            Thread.CurrentThread.Interrupt();
            return result;
        }
    }

    /// <summary>For a read that waits.</summary>
    public static Wait WaitFor(ValueTask<ReadResult> read) => new(read);

    public readonly struct Wait(ValueTask<ReadResult> read) : ICriticalNotifyCompletion
    {
        private readonly ConfiguredValueTaskAwaitable<ReadResult>.ConfiguredValueTaskAwaiter _awaiter = read.ConfigureAwait(false).GetAwaiter();

        public bool IsCompleted => _awaiter.IsCompleted;

        public Wait GetAwaiter() => this;

        public ReadResult GetResult() => _awaiter.GetResult();

        public void OnCompleted(Action continuation) => Steady.Do(static wait => wait._awaiter.OnCompleted(wait.continuation), (_awaiter, continuation));

        public void UnsafeOnCompleted(Action continuation) => Steady.Do(static wait => wait._awaiter.UnsafeOnCompleted(wait.continuation), (_awaiter, continuation));
    }
}
