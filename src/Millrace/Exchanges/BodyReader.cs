// The reading end of a request body as handlers see it: a PipeReader that checks the size limit before the first byte,
// reports a broken body as an exception, and is dead once its request has ended.

using System.Buffers;
using System.IO.Pipelines;
using System.Runtime.CompilerServices;
using Microsoft.AspNetCore.Http;

namespace Millrace.Exchanges;

internal sealed class BodyReader(RequestBody body, Exchange exchange) : PipeReader
{
    private bool _expired;
    private bool _completed;

    public bool HasStarted { get; private set; }

    public void Expire() => _expired = true;

    public override bool TryRead(out ReadResult result)
    {
        if (Start() is { } inner)
        {
            return inner.TryRead(out result);
        }

        result = new ReadResult(ReadOnlySequence<byte>.Empty, isCanceled: false, isCompleted: true);
        return true;
    }

    public override ValueTask<ReadResult> ReadAsync(CancellationToken cancellationToken = default)
    {
        cancellationToken.ThrowIfCancellationRequested();
        PipeReader? inner = Start();
        return inner is null
            ? new ValueTask<ReadResult>(new ReadResult(ReadOnlySequence<byte>.Empty, isCanceled: false, isCompleted: true))
            : inner.ReadAsync(cancellationToken);
    }

    public override void AdvanceTo(SequencePosition consumed) => AdvanceTo(consumed, consumed);

    public override void AdvanceTo(SequencePosition consumed, SequencePosition examined)
    {
        if (!_expired)
        {
            // An empty result has no position, but it too began a read that must end.
            body.Inner?.AdvanceTo(consumed, examined);
        }
    }

    public override void CancelPendingRead()
    {
        if (!_expired)
        {
            body.Inner?.CancelPendingRead();
        }
    }

    // The pipe itself is completed when the exchange ends: bytes may still arrive for it.
    public override void Complete(Exception? exception = null) => _completed = true;

    /// <summary>Bytes into a caller's memory, 0 at the end: what a stream needs.</summary>
    public ValueTask<int> ReadAsync(Memory<byte> destination, CancellationToken cancellationToken)
    {
        if (TryReadNow(destination, out int count))
        {
            return new ValueTask<int>(count);
        }

        return ReadSlowly(destination, cancellationToken);
    }

    private bool TryReadNow(Memory<byte> destination, out int count)
    {
        if (!TryRead(out ReadResult result))
        {
            count = 0;
            return false;
        }

        count = Take(destination, result);
        return count > 0 || destination.Length == 0 || result.IsCompleted;
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    private async ValueTask<int> ReadSlowly(Memory<byte> destination, CancellationToken cancellationToken)
    {
        while (true)
        {
            ReadResult result = await ReadAsync(cancellationToken);
            if (result.IsCanceled)
            {
                AdvanceTo(result.Buffer.Start);
                throw new OperationCanceledException("The read was cancelled.");
            }

            int count = Take(destination, result);
            if (count > 0 || destination.Length == 0 || result.IsCompleted)
            {
                return count;
            }
        }
    }

    private int Take(Memory<byte> destination, ReadResult result)
    {
        ReadOnlySequence<byte> buffer = result.Buffer;
        int count = (int)Math.Min(buffer.Length, destination.Length);
        if (count == buffer.Length)
        {
            buffer.CopyTo(destination.Span);
            AdvanceTo(buffer.End);
        }
        else
        {
            ReadOnlySequence<byte> part = buffer.Slice(0, count);
            part.CopyTo(destination.Span);
            AdvanceTo(part.End);
        }

        return count;
    }

    private PipeReader? Start()
    {
        ObjectDisposedException.ThrowIf(_expired, typeof(Stream));
        if (_completed)
        {
            throw new InvalidOperationException("Reading is not allowed after the reader was completed.");
        }

        if (!HasStarted)
        {
            HasStarted = true;
            if (body.SizeMax is long max && Math.Max(Math.Max(body.Expected, body.Received), body.Announced) > max)
            {
                throw RequestBody.TooLarge(max);
            }

            exchange.OnBodyWanted();
        }

        return body.Inner;
    }
}
