// Memory for the bytes of one request, left to the garbage collector behind it: the pool of the process is the application's as well, which may go on writing into an
// array that it has given back there.

using System.Buffers;

namespace Millrace.Connector;

internal sealed class FreshMemory : MemoryPool<byte>
{
    private const int SizeMin = 4 * 1024;

    public override int MaxBufferSize => Array.MaxLength;

    public override IMemoryOwner<byte> Rent(int minBufferSize = -1) => new Block(Math.Max(minBufferSize, SizeMin));

    protected override void Dispose(bool disposing)
    {
    }

    private sealed class Block(int size) : IMemoryOwner<byte>
    {
        public Memory<byte> Memory { get; } = new byte[size];

        public void Dispose()
        {
        }
    }
}
