// Spare buffers of the server's own. Not those of the pool that the whole process shares, and with it the application: an array that it gives back there and goes
// on writing into, as one that does not await what it began may do, would be the next request's body, or the head of somebody else's, and one that it rents
// there would show what others have sent. Bounded: what does not fit is left to the garbage collector.

using System.Numerics;

namespace Millrace.Platform;

internal static class BufferPool
{
    /// <summary>Bytes received at once. Larger than almost every request head.</summary>
    public const int InputSize = 32 * 1024;

    /// <summary>What a response that is sent on in time fits in, with what frames it.</summary>
    public const int OutputSize = 36 * 1024;

    private const int BitsMin = 6;      // 64 bytes
    private const int BitsMax = 20;     // 1 MiB

    // Of the threads that drive loops: what they take and give back most often is theirs alone.
    [ThreadStatic]
    private static LocalSpares? t_local;

    private static readonly Spares[] s_powers = [.. Enumerable.Range(BitsMin, BitsMax - BitsMin + 1).Select(static bits => new Spares(1 << bits))];
    private static readonly Spares s_outputs = new(OutputSize);

    /// <summary>The calling thread keeps some of what it gives back.</summary>
    public static void BeginThread(LocalSpares spares) => t_local = spares;

    /// <summary>It keeps nothing any more.</summary>
    public static void EndThread()
    {
        LocalSpares? its = t_local;
        t_local = null;
        its?.Leave();
    }

    /// <summary>A buffer of at least <paramref name="size"/> bytes, not cleared.</summary>
    public static byte[] Rent(int size) =>
        SparesFor(size) is { } spares ? spares.Rent() : GC.AllocateUninitializedArray<byte>(size);

    public static void Return(byte[] buffer)
    {
        if (SparesFor(buffer.Length) is { } spares && spares.Size == buffer.Length)
        {
            spares.Return(buffer);
        }
    }

    private static Spares? SparesFor(int size)
    {
        if (size is > InputSize and <= OutputSize)
        {
            return s_outputs;
        }

        int bits = Math.Max(BitsMin, BitOperations.Log2((uint)Math.Max(size, 2) - 1) + 1);
        return bits <= BitsMax ? s_powers[bits - BitsMin] : null;
    }

    /// <summary>Spare buffers of one size.</summary>
    private sealed class Spares(int size)
    {
        private const int SmallMax = 256;
        private const int LargeBytes = 4 * 1024 * 1024;

        // Not a bag: that keeps what each thread returns, and is searched thread by thread.
        private readonly SteadyQueue<byte[]> _buffers = new();
        private readonly int _spareMax = size <= OutputSize ? SmallMax : LargeBytes / size;

        private int _count;

        public int Size => size;

        public byte[] Rent()
        {
            if (t_local?.TryTake(size) is { } its)
            {
                return its;
            }

            if (_buffers.TryDequeue(out byte[]? spare))
            {
                Interlocked.Decrement(ref _count);
                return spare;
            }

            return GC.AllocateUninitializedArray<byte>(size);
        }

        public void Return(byte[] buffer)
        {
            if (t_local?.TryKeep(buffer) == true)
            {
                return;
            }

            if (Interlocked.Increment(ref _count) > _spareMax || !_buffers.TryEnqueue(buffer))
            {
                Interlocked.Decrement(ref _count);
            }
        }
    }
}
