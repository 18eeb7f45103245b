// A request body as a Stream. One per request that asks for it: a stream kept beyond its request reads nothing.

namespace Millrace.Exchanges;

internal sealed class RequestStream(BodyReader reader, Exchange exchange, long ticket) : SequentialStream
{
    private Task? _bytes;       // what a read waits for, or one whose thread was interrupted

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
            Await(_bytes);
            if (reader.TryRead(destination, out int read))
            {
                return read;
            }

            _bytes = reader.WaitForBytes();
        }
    }

    private void Await(Task? bytes)
    {
        try
        {
            bytes?.GetAwaiter().GetResult();
        }
        finally
        {
            if (bytes is { IsCompleted: true })
            {
                _bytes = null;
            }
        }
    }

    public override void Flush()
    {
    }

    public override Task FlushAsync(CancellationToken cancellationToken) => Task.CompletedTask;
}
