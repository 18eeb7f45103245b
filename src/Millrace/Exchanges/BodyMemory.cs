// Where the pipe of a request body keeps its bytes. Memory is used again for other requests, unless the application has been
// given a view of it (the sequences of a PipeReader): such memory is left to the garbage collector with whoever still looks
// at it, and so is the pipe, whose segments those sequences are made of. Rented and given back within the pipe's own lock.

using System.Buffers;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal sealed class BodyMemory : MemoryPool<byte>
{
    /// <summary>Small bodies, which come whole, take little; what is received at once lies in one block.</summary>
    public const int BlockSizeMin = 1024;

    private Block? _spare;

    /// <summary>The application may look at what is in the pipe; said before it can.</summary>
    public bool IsLent { get; set; }

    public override int MaxBufferSize => Array.MaxLength;

    public override IMemoryOwner<byte> Rent(int minBufferSize = -1)
    {
        Block block = Interlocked.Exchange(ref _spare, null) ?? new Block(this);
        block.Take(BufferPool.Rent(Math.Max(minBufferSize, BlockSizeMin)));
        return block;
    }

    protected override void Dispose(bool disposing)
    {
    }

    private sealed class Block(BodyMemory pool) : IMemoryOwner<byte>
    {
        private byte[]? _bytes;

        public Memory<byte> Memory => _bytes;

        public void Take(byte[] bytes) => _bytes = bytes;

        public void Dispose()
        {
            if (Interlocked.Exchange(ref _bytes, null) is { } bytes)
            {
                if (!pool.IsLent)
                {
                    BufferPool.Return(bytes);
                }

                pool._spare = this;
            }
        }
    }
}
