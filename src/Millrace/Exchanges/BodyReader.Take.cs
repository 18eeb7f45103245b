// Bytes that are there, into a caller's memory; all of it inside the guard.

using System.Buffers;
using System.IO.Pipelines;

namespace Millrace.Exchanges;

internal sealed partial class BodyReader
{
    private bool TryTake(Span<byte> destination, out int count)
    {
        CheckNotReading();
        if (!TryReadInside(out ReadResult result))
        {
            count = 0;
            return false;
        }

        CheckNotCancelled(result);
        count = Take(destination, result);
        return count > 0 || destination.Length == 0 || result.IsCompleted;
    }

    private int Take(Span<byte> destination, ReadResult result)
    {
        ReadOnlySequence<byte> buffer = result.Buffer;
        int count = (int)Math.Min(buffer.Length, destination.Length);
        ReadOnlySequence<byte> part = count == buffer.Length ? buffer : buffer.Slice(0, count);
        part.CopyTo(destination);
        Inner?.AdvanceTo(part.End);
        return count;
    }

    // By CancelPendingRead, which may have come before the read that it is meant for.
    private void CheckNotCancelled(ReadResult result)
    {
        if (result.IsCanceled)
        {
            Inner?.AdvanceTo(result.Buffer.Start);
            throw new OperationCanceledException("The read was cancelled.");
        }
    }
}
