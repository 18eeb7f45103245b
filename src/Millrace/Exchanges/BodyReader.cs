// The reading end of a request body as handlers see it: a PipeReader that checks the size limit before the first byte,
// reports a broken body as an exception, and is dead once its request has ended, even when another thread is in the middle
// of a read at that moment. The pipe behind it serves the next request, unless a read still waits on it or
// a PipeReader has shown its bytes (BodyMemory.cs).

using System.Buffers;
using System.IO.Pipelines;
using Millrace.Observe;

namespace Millrace.Exchanges;

internal sealed partial class BodyReader(RequestBody body, Exchange exchange) : PipeReader
{
    private ExpiryGuard _guard;
    private bool _completed;
    private int _waiting;       // under the guard: reads that wait for bytes
    private long _waitingSinceMs;

    public bool HasStarted { get; private set; }

    /// <summary>Since when a read waits for bytes; -1: none does. Any thread may ask.</summary>
    public long WaitingSinceMs => Volatile.Read(ref _waiting) > 0 ? Volatile.Read(ref _waitingSinceMs) : -1;

    private bool _isTooLarge;
    private bool _staysEmpty;
    private bool _isCancelledFirst;     // CancelPendingRead came before any read

    /// <summary>What a synchronous read waits for, or one whose thread was interrupted.</summary>
    public Task? Bytes { get; set; }

    /// <summary>The request ends. True when a read of it still waits: what it waits on must never be used again.</summary>
    public bool Expire()
    {
        _guard.Expire();
        return _waiting > 0;
    }

    /// <summary>The request has no body, and what the pipe holds from now on is somebody else's.</summary>
    public void StayEmpty()
    {
        if (_guard.TryEnter())
        {
            _staysEmpty = true;
            _guard.Exit();
        }
    }

    public override bool TryRead(out ReadResult result)
    {
        Enter();
        try
        {
            CheckNotReading();
            body.Lend();
            return TryReadInside(out result);
        }
        finally
        {
            _guard.Exit();
        }
    }

    public override ValueTask<ReadResult> ReadAsync(CancellationToken cancellationToken = default) => Read(lends: true, cancellationToken);

    public override void AdvanceTo(SequencePosition consumed) => AdvanceTo(consumed, consumed);

    public override void AdvanceTo(SequencePosition consumed, SequencePosition examined)
    {
        Enter();
        try
        {
            body.Lend();        // a position may be of another pipe: what it spoils is not used again

            // An empty result has no position, but it too began a read that must end.
            Inner?.AdvanceTo(consumed, examined);
        }
        finally
        {
            _guard.Exit();
        }
    }

    public override void CancelPendingRead()
    {
        Enter();
        try
        {
            Inner?.CancelPendingRead();
            _isCancelledFirst = !HasStarted;
        }
        finally
        {
            _guard.Exit();
        }
    }

    /// <summary>The pipe itself is completed when the exchange ends: bytes may still arrive for it. With an exception: the request has not been understood, and its response is an error. Nothing happens where there is no body.</summary>
    public override void Complete(Exception? exception = null)
    {
        _completed = true;
        if (exception is null)
        {
            return;
        }

        Enter();
        try
        {
            if (Inner is not null)
            {
                exchange.Report(exception);
            }
        }
        finally
        {
            _guard.Exit();
        }
    }

    /// <summary>Bytes into a caller's memory, 0 at the end: what a stream needs.</summary>
    public ValueTask<int> ReadAsync(Memory<byte> destination, CancellationToken cancellationToken)
    {
        if (cancellationToken.IsCancellationRequested)
        {
            return ValueTask.FromCanceled<int>(cancellationToken);
        }

        Span<byte> span = destination.Span;     // outside the guard: what gives it may be code of the application
        Enter();
        try
        {
            if (TryTake(span, out int count))
            {
                return new ValueTask<int>(count);
            }
        }
        catch (Exception error)
        {
            return ValueTask.FromException<int>(error);
        }
        finally
        {
            _guard.Exit();
        }

        return ReadSlowly(destination, cancellationToken);
    }

    /// <summary>The same at once: false where nothing has come.</summary>
    public bool TryRead(Span<byte> destination, out int count)
    {
        Enter();
        try
        {
            return TryTake(destination, out count);
        }
        finally
        {
            _guard.Exit();
        }
    }

    /// <summary>Ends when bytes have come, or will not; takes none.</summary>
    public async Task WaitForBytes()
    {
        ReadResult result = await Read(lends: false, CancellationToken.None).ConfigureAwait(false);
        Enter();
        try
        {
            CheckNotCancelled(result);
            Inner?.AdvanceTo(result.Buffer.Start);
        }
        finally
        {
            _guard.Exit();
        }
    }

    private async ValueTask<int> ReadSlowly(Memory<byte> destination, CancellationToken cancellationToken)
    {
        while (true)
        {
            ReadResult result = await Read(lends: false, cancellationToken).ConfigureAwait(false);
            Span<byte> span = SpanOf(destination, result);
            Enter();
            try
            {
                CheckNotCancelled(result);
                int count = Take(span, result);
                if (count > 0 || destination.Length == 0 || result.IsCompleted)
                {
                    return count;
                }
            }
            finally
            {
                _guard.Exit();
            }
        }
    }

    // The pipe may serve other requests later: what it answers is taken from it here, or waited for (Await), and never given away.
    private ValueTask<ReadResult> Read(bool lends, CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        ValueTask<ReadResult> read;
        Enter();
        try
        {
            CheckNotReading();
            if (Start() is not { } inner)
            {
                return new ValueTask<ReadResult>(AtEnd);
            }

            if (lends)
            {
                body.Lend();
            }

            read = inner.ReadAsync(cancellationToken);
            if (read.IsCompleted)
            {
                return new ValueTask<ReadResult>(read.GetAwaiter().GetResult());
            }

            if (_waiting == 0)
            {
                Volatile.Write(ref _waitingSinceMs, exchange.Connection.NowMs);
            }

            _waiting++;
        }
        catch (Exception error)
        {
            return ValueTask.FromException<ReadResult>(error);
        }
        finally
        {
            _guard.Exit();
        }

        return Await(read);
    }

    private async ValueTask<ReadResult> Await(ValueTask<ReadResult> read)
    {
        try
        {
            return await SteadyPipe.WaitFor(read);
        }
        finally
        {
            Enter();    // what came for a request that is over is nobody's business any more
            _waiting--;
            _guard.Exit();
        }
    }

    // Should the application's memory give none, the read that has begun must end all the same.
    private Span<byte> SpanOf(Memory<byte> destination, ReadResult result)
    {
        try
        {
            return destination.Span;
        }
        catch
        {
            Enter();
            try
            {
                Inner?.AdvanceTo(result.Buffer.Start);
            }
            catch (InvalidOperationException)
            {
                // Somebody has ended it meanwhile.
            }
            finally
            {
                _guard.Exit();
            }

            throw;
        }
    }

    private void Enter()
    {
        if (!_guard.TryEnter())
        {
            Exchange.ThrowEnded();
        }
    }

    // ---- inside the guard ----

    // The pipe would end both, and with them the body.
    private void CheckNotReading()
    {
        if (_waiting > 0)
        {
            throw new InvalidOperationException("The request body is being read already; await each read before the next.");
        }
    }

    private static ReadResult AtEnd => new(ReadOnlySequence<byte>.Empty, isCanceled: false, isCompleted: true);

    private bool TryReadInside(out ReadResult result)
    {
        if (Start() is { } inner)
        {
            return inner.TryRead(out result);
        }

        result = AtEnd;
        return true;
    }

    private PipeReader? Inner => _staysEmpty ? null : body.Inner;

    private PipeReader? Start()
    {
        PipeReader? inner = Inner;
        if (inner is null)
        {
            return null;    // of no body there is nothing to begin, nothing too large, and no end to come too soon
        }

        if (_completed)
        {
            throw new InvalidOperationException("Reading is not allowed after the reader was completed.");
        }

        if (!HasStarted)
        {
            Begin();
        }

        if (_isTooLarge)
        {
            throw RequestBody.TooLarge(body.SizeMax.GetValueOrDefault());   // whoever goes on reading gets no byte of it either
        }

        return inner;
    }

    private void Begin()
    {
        if (!_isCancelledFirst)
        {
            HasStarted = true;
            Interlocked.MemoryBarrier();    // what comes from here on is judged as it comes, what has come by now is judged here
        }

        if (body.SizeMax is long max && Math.Max(Math.Max(body.Expected, body.Received), body.Announced) > max)
        {
            HasStarted = true;
            exchange.Services.OffLoop.Refused(Refusal.BodyLong);
            _isTooLarge = true;
        }
        else if (!_isCancelledFirst)
        {
            exchange.OnBodyWanted();
        }

        _isCancelledFirst = false;      // that read gets no byte, and asks for none
    }
}
