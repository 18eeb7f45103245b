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
        TakeTo(buffer, part.End);
        return count;
    }

    private void TakeTo(in ReadOnlySequence<byte> buffer, SequencePosition consumed) => Inner?.AdvanceTo(consumed, _examined.From(buffer, consumed));

    // By CancelPendingRead, which may have come before the read that it is meant for.
    private void CheckNotCancelled(ReadResult result)
    {
        if (result.IsCanceled)
        {
            TakeTo(result.Buffer, result.Buffer.Start);
            throw new OperationCanceledException("The read was cancelled.");
        }
    }
}
