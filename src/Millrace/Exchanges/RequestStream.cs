// A request body as a Stream. One per request that asks for it: a stream kept beyond its request reads nothing.

namespace Millrace.Exchanges;

internal sealed class RequestStream(BodyReader reader, Exchange exchange, long ticket) : SequentialStream
{
    public override bool CanRead => true;

    public override bool CanWrite => false;

    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default) =>
        reader.ReadAsync(buffer, cancellationToken);

    // What waits has no memory of the caller's: his thread may be interrupted, and the array be somebody else's when bytes come.
    public override int Read(byte[] buffer, int offset, int count)
    {
        exchange.CheckSynchronousIO("ReadAsync", ticket);
        Span<byte> destination = buffer.AsSpan(offset, count);
        while (true)
        {
            Await(reader.Bytes);
            if (reader.TryRead(destination, out int read))
            {
                return read;
            }

            Await(reader.Bytes = reader.WaitForBytes());
        }
    }

    // Who is interrupted leaves it to the next read.
    private void Await(Task? bytes)
    {
        try
        {
            bytes?.GetAwaiter().GetResult();
        }
        finally
        {
            if (bytes is { IsCompleted: true } && reader.Bytes == bytes)
            {
                reader.Bytes = null;
            }
        }
    }

    public override void Flush()
    {
    }

    public override Task FlushAsync(CancellationToken cancellationToken) => Task.CompletedTask;
}
