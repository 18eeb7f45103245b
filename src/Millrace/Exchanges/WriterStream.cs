// A response's PipeWriter as a stream. That of the framework lends a pooled array to a synchronous write, and takes it back when the thread that waits is interrupted, while the rest of the write is still to be sent from it.

using System.IO.Pipelines;

namespace Millrace.Exchanges;

internal sealed class WriterStream(ResponseWriter writer, bool leavesOpen) : SequentialStream
{
    public override bool CanRead => false;

    public override bool CanWrite => true;

    public override async ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default) => Check(await writer.WriteAsync(buffer, cancellationToken).ConfigureAwait(false));

    public override void Write(byte[] buffer, int offset, int count) => Check(Wait(writer.WriteNow(buffer.AsMemory(offset, count))));

    public override void Write(ReadOnlySpan<byte> buffer) => Check(Wait(writer.WriteAsync(buffer.ToArray(), CancellationToken.None)));

    public override void Flush() => Check(Wait(writer.FlushAsync(CancellationToken.None)));

    public override async Task FlushAsync(CancellationToken cancellationToken) => Check(await writer.FlushAsync(cancellationToken).ConfigureAwait(false));

    protected override void Dispose(bool disposing)
    {
        if (!leavesOpen)
        {
            writer.Complete();
        }

        base.Dispose(disposing);
    }

    public override async ValueTask DisposeAsync()
    {
        if (!leavesOpen)
        {
            await writer.CompleteAsync().ConfigureAwait(false);
        }

        await base.DisposeAsync().ConfigureAwait(false);
    }

    private static FlushResult Wait(ValueTask<FlushResult> flushed) => flushed.IsCompleted ? flushed.GetAwaiter().GetResult() : flushed.AsTask().GetAwaiter().GetResult();

    private static void Check(FlushResult result)
    {
        if (result.IsCanceled)
        {
            throw new OperationCanceledException("The flush was cancelled.");
        }
    }
}
