// Spare buffers of the few sizes the server uses. Bounded: what does not fit is left to the garbage collector.

namespace Millrace.Platform;

internal static class BufferPool
{
    /// <summary>Bytes received at once. Larger than almost every request head.</summary>
    public const int InputSize = 32 * 1024;

    private const int SpareMax = 256;

    // Not a bag: that keeps what each thread returns, and is searched thread by thread.
    private static readonly SteadyQueue<byte[]> s_inputs = new();

    private static int s_spare;

    /// <summary>A buffer of at least <paramref name="size"/> bytes, not cleared.</summary>
    public static byte[] Rent(int size)
    {
        if (size <= InputSize && size > InputSize / 2 && s_inputs.TryDequeue(out byte[]? spare))
        {
            Interlocked.Decrement(ref s_spare);
            return spare;
        }

        return size <= InputSize && size > InputSize / 2
            ? GC.AllocateUninitializedArray<byte>(InputSize)
            : Steady.Rent(size);
    }

    public static void Return(byte[] buffer)
    {
        if (buffer.Length != InputSize)
        {
            Steady.Return(buffer);
        }
        else if (Interlocked.Increment(ref s_spare) <= SpareMax)
        {
            s_inputs.Enqueue(buffer);
        }
        else
        {
            Interlocked.Decrement(ref s_spare);
        }
    }
}
