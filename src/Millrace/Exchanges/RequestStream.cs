// A request body as a Stream. One per request that asks for it: a stream kept beyond its request reads nothing.

namespace Millrace.Exchanges;

internal sealed class RequestStream(BodyReader reader, Exchange exchange, long ticket) : SequentialStream
{
    public override bool CanRead => true;

    public override bool CanWrite => false;

    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default) =>
        reader.ReadAsync(buffer, cancellationToken);

    public override int Read(byte[] buffer, int offset, int count)
    {
        exchange.CheckSynchronousIO("ReadAsync", ticket);
        ValueTask<int> read = reader.ReadAsync(buffer.AsMemory(offset, count), CancellationToken.None);
        return read.IsCompleted ? read.GetAwaiter().GetResult() : read.AsTask().GetAwaiter().GetResult();
    }

    public override void Flush()
    {
    }

    public override Task FlushAsync(CancellationToken cancellationToken) => Task.CompletedTask;
}
