// The loop's calls of a pipe, whose lock the reader may have at the moment: an interruption of the wait for it (see
// Platform/SteadyLock.cs) comes before anything is done, and the call is made again.

using System.IO.Pipelines;
using System.Runtime.CompilerServices;

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
}
