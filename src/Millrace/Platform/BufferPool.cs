// Spare buffers of the few sizes the server uses. Bounded: what does not fit is left to the garbage collector.

namespace Millrace.Platform;

internal static class BufferPool
{
    /// <summary>Bytes received at once. Larger than almost every request head.</summary>
    public const int InputSize = 32 * 1024;

    /// <summary>What a response that is sent on in time fits in, with what frames it.</summary>
    public const int OutputSize = 36 * 1024;

    private static readonly Spares s_inputs = new(InputSize);
    private static readonly Spares s_outputs = new(OutputSize);

    /// <summary>A buffer of at least <paramref name="size"/> bytes, not cleared.</summary>
    public static byte[] Rent(int size) => size switch
    {
        <= InputSize / 2 or > OutputSize => Steady.Rent(size),
        <= InputSize => s_inputs.Rent(),
        _ => s_outputs.Rent(),
    };

    public static void Return(byte[] buffer)
    {
        switch (buffer.Length)
        {
            case InputSize:
                s_inputs.Return(buffer);
                break;
            case OutputSize:
                s_outputs.Return(buffer);
                break;
            default:
                Steady.Return(buffer);
                break;
        }
    }

    /// <summary>Spare buffers of one size.</summary>
    private sealed class Spares(int size)
    {
        private const int SpareMax = 256;

        // Not a bag: that keeps what each thread returns, and is searched thread by thread.
        private readonly SteadyQueue<byte[]> _buffers = new();

        private int _count;

        public byte[] Rent()
        {
            if (_buffers.TryDequeue(out byte[]? spare))
            {
                Interlocked.Decrement(ref _count);
                return spare;
            }

            return GC.AllocateUninitializedArray<byte>(size);
        }

        public void Return(byte[] buffer)
        {
            if (Interlocked.Increment(ref _count) > SpareMax || !_buffers.TryEnqueue(buffer))
            {
                Interlocked.Decrement(ref _count);
            }
        }
    }
}
