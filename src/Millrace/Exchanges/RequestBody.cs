// The body of a request on its way from the loop that receives it to the handler that reads it: a pipe of bounded size.
// The loop feeds it and never runs the reader's code while it holds the connection; what the reader waits for is
// collected (ContinuationCatcher) and run afterwards, under the eyes of the monitor.

using System.IO.Pipelines;
using Microsoft.AspNetCore.Http;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal enum BodyState
{
    /// <summary>There is none, or all of it has arrived.</summary>
    Complete,

    /// <summary>More is to come.</summary>
    Open,

    /// <summary>It will never be whole; reading it fails.</summary>
    Broken,
}

[System.Diagnostics.CodeAnalysis.SuppressMessage("Reliability", "CA1001", Justification = "BodyMemory has nothing to dispose of: its blocks go back when the pipe is done with them.")]
internal sealed class RequestBody
{
    private readonly Exchange _exchange;
    private readonly int _pauseAt;
    private readonly ContinuationCatcher _readers;
    private BodyMemory? _memory;
    private Pipe? _pipe;
    private Exception? _error;
    private bool _isPipeInUse;              // by this request: it is made once, and made new behind each that has used it
    private bool _hasUnflushed;             // bytes that the reader has not been told of
    private int _roomLeft;                  // in the last block, unless its bytes have been read
    private bool _isWriterCompleted;        // nothing more is put in
    private bool _isReaderCompleted;        // the application wants no more: what comes is counted and dropped
    private BodyReader? _reader;
    private BodyReader? _tunnel;        // reads what comes after a switch of protocols
    private System.Runtime.CompilerServices.ValueTaskAwaiter<FlushResult> _flush;

    public RequestBody(Exchange exchange, int pauseAt)
    {
        _exchange = exchange;
        _pauseAt = pauseAt;
        _readers = new ContinuationCatcher(exchange.Services);
    }

    /// <summary>Written by the loop, read by both sides. (By whoever has the exchange alone: at its beginning and end, and where the handler switches protocols.)</summary>
    public volatile BodyState State;

    /// <summary>Bytes received so far.</summary>
    public long Received { get; private set; }

    /// <summary>What <see cref="Announce"/> said last.</summary>
    public long Announced { get; private set; }

    /// <summary>What Content-Length promises; -1 when it says nothing.</summary>
    public long Expected { get; set; } = -1;

    /// <summary>The limit in bytes, null for none. The application may change it until it starts reading.</summary>
    public long? SizeMax { get; set; }

    /// <summary>Whether the application has begun to read.</summary>
    public bool HasStarted => _tunnel is not null || _reader is { HasStarted: true };

    /// <summary>Since when its reader waits for bytes, as far as another thread can know; -1: it does not.</summary>
    public long AwaitedSinceMs => Volatile.Read(ref _reader)?.WaitingSinceMs ?? -1;

    /// <summary>The pipe is full: the loop does not read on until <see cref="OnRoom"/> has run.</summary>
    public bool IsPaused { get; private set; }

    /// <summary>There is a body as far as the head says, though it may turn out to be empty. It stays so, whatever has come by now.</summary>
    public bool IsPromised { get; private set; }

    public ContinuationCatcher Readers => _readers;

    public void Begin(long expected, long? sizeMax, BodyState state)
    {
        Expected = expected;
        SizeMax = sizeMax;
        State = state;
        IsPromised = state == BodyState.Open && expected != 0;
    }

    /// <summary>After a switch of protocols: what comes is the application's, whatever it is and however much, and read by the reader that this answers. The request had no body, and who reads that goes on finding its end.</summary>
    public BodyReader BeginTunnel()
    {
        (_reader ?? MakeReader()).StayEmpty();
        _tunnel = new BodyReader(this, _exchange);
        Expected = -1;
        SizeMax = null;
        _ = Use();
        State = BodyState.Open;
        return _tunnel;
    }

    // ---- the loop's side ----

    /// <summary>Before the handler starts: what both sides will use is there from now on.</summary>
    public void Prepare()
    {
        if (State == BodyState.Open)
        {
            _ = Use();
            _ = Flush(_exchange.OnBodyRoom);
        }
    }

    /// <summary>Bytes that have arrived. False when they break a rule; then the body is broken.</summary>
    public bool Feed(ReadOnlySpan<byte> bytes)
    {
        if (State != BodyState.Open)
        {
            return true;
        }

        long total = Received + bytes.Length;
        if (Expected >= 0 && total > Expected)
        {
            Break(new BadHttpRequestException("The request body is longer than its Content-Length (RFC 3875 §4.2).", StatusCodes.Status400BadRequest));
            return false;
        }

        if (IsOverLimit(total))
        {
            return false;
        }

        Received = total;
        if (!_isReaderCompleted)
        {
            Keep(bytes);
            _hasUnflushed = true;
        }

        return true;
    }

    // What is left of the last block is filled first: pieces that each ask for a new one would have the server keep much more than their bytes.
    private void Keep(ReadOnlySpan<byte> bytes)
    {
        PipeWriter writer = Use().Writer;
        while (bytes.Length > 0)
        {
            Span<byte> room = SteadyPipe.GetSpan(writer, _roomLeft > 0 ? Math.Min(_roomLeft, bytes.Length) : bytes.Length);
            int count = Math.Min(room.Length, bytes.Length);
            bytes[..count].CopyTo(room);
            SteadyPipe.Advance(writer, count);
            _roomLeft = room.Length - count;
            bytes = bytes[count..];
        }
    }

    /// <summary>How long the body will be at least, as a chunk that has begun says. False when that is over the limit, which is refused before its bytes come.</summary>
    public bool Announce(long total)
    {
        Announced = total;
        return State != BodyState.Open || !IsOverLimit(total);
    }

    /// <summary>Shows what was fed to the reader. False when the pipe is full.</summary>
    public bool Flush(Action onRoom)
    {
        if (!_hasUnflushed || _isWriterCompleted)
        {
            return !IsPaused;
        }

        _hasUnflushed = false;
#pragma warning disable CA2012 // The result is taken in OnRoom, once, as the pipe asks.
        ValueTask<FlushResult> flush = SteadyPipe.FlushAsync(_pipe!.Writer);
        if (flush.IsCompletedSuccessfully)
        {
            _isReaderCompleted |= flush.Result.IsCompleted;
            return !IsPaused;
        }

        IsPaused = true;
        _flush = flush.GetAwaiter();
        Steady.Do(static wait => wait._flush.UnsafeOnCompleted(wait.onRoom), (_flush, onRoom));
#pragma warning restore CA2012
        return false;
    }

    /// <summary>The loop has learned that the reader took enough.</summary>
    public void OnRoom()
    {
        // The word may have been meant for the request before this one: then the pipe is still full.
        if (IsPaused && _flush.IsCompleted)
        {
            IsPaused = false;
            _isReaderCompleted |= SteadyPipe.GetResult(_flush).IsCompleted;
        }
    }

    // The application may raise the limit until it starts reading; what arrives before waits in the pipe, which is bounded.
    private bool IsOverLimit(long total)
    {
        if (!HasStarted || SizeMax is not long max || total <= max)
        {
            return false;
        }

        Break(TooLarge(max));
        return true;
    }

    /// <summary>The end has arrived. False when it came too early, or too late.</summary>
    public bool Complete()
    {
        if (State != BodyState.Open)
        {
            return true;
        }

        if (Expected >= 0 && Received < Expected)
        {
            Break(new BadHttpRequestException("The request body ended before its Content-Length was reached (RFC 3875 §4.2).", StatusCodes.Status400BadRequest));
            return false;
        }

        if (Expected < 0)
        {
            Interlocked.MemoryBarrier();    // whoever begins to read just now sees what has been received, or is seen
        }

        if (IsOverLimit(Received))
        {
            return false;
        }

        State = BodyState.Complete;
        if (_isPipeInUse)
        {
            FinishWriting(null);
        }

        return true;
    }

    /// <summary>The rest will never come.</summary>
    public void Break(Exception error)
    {
        if (State != BodyState.Open)
        {
            return;
        }

        _error = error;
        State = BodyState.Broken;
        _ = Use();
        FinishWriting(error);
    }

    internal static BadHttpRequestException TooLarge(long max) =>
        new($"The request body is larger than the limit of {max} bytes (MaxRequestBodySize).", StatusCodes.Status413PayloadTooLarge);

    private void FinishWriting(Exception? error)
    {
        _hasUnflushed = false;
        if (!_isWriterCompleted)
        {
            _isWriterCompleted = true;
            Steady.Do(static end => end.Writer.Complete(end.error), (_pipe!.Writer, error));
        }
    }

    // ---- the handler's side ----

    /// <summary>The reading end. One per request, whoever asks first; it does not outlive it.</summary>
    public PipeReader Reader => Volatile.Read(ref _reader) ?? MakeReader();

    private BodyReader MakeReader()
    {
        var reader = new BodyReader(this, _exchange);
        return Interlocked.CompareExchange(ref _reader, reader, null) ?? reader;
    }

    internal Exception? Error => _error;

    /// <summary>The pipe to read from, null when there is nothing and will be nothing.</summary>
    internal PipeReader? Inner => State == BodyState.Complete && !_isPipeInUse ? null : Use().Reader;

    /// <summary>What the pipe holds, and will hold, is about to be shown to the application as it lies there.</summary>
    internal void Lend()
    {
        if (_memory is { } memory)
        {
            memory.IsLent = true;
        }
    }

    /// <summary>The request has ended: nobody reads any more. What still waits is let go by <see cref="Reset"/>.</summary>
    public void Expire() => _ = ExpireReaders();

    // True when a read of the pipe still waits.
    private bool ExpireReaders() => (_reader?.Expire() == true) | (_tunnel?.Expire() == true);

    // ---- the end ----

    /// <summary>Ends the request's side; true when the object may serve another request.</summary>
    public bool Reset()
    {
        // A read that still waits finds the end of this pipe, and would find the next request's bytes in it were it used again.
        bool reusable = !ExpireReaders() && !IsPaused;
        _reader = _tunnel = null;
        if (_isPipeInUse)
        {
            FinishWriting(null);
            if (_memory is { IsLent: true })
            {
                // The application may have sequences of it still: they stay what they are.
                _pipe = null;
                _memory = null;
            }
            else
            {
                Steady.Do(static pipe => pipe.Reader.Complete(), _pipe!);
                if (reusable)
                {
                    Steady.Do(static pipe => pipe.Reset(), _pipe!);
                }
            }
        }

        reusable &= _readers.IsEmpty;
        _error = null;
        _isPipeInUse = _hasUnflushed = _isWriterCompleted = _isReaderCompleted = false;
        Received = Announced = 0;
        _roomLeft = 0;
        Expected = -1;
        State = BodyState.Complete;
        return reusable;
    }

    private Pipe Use()
    {
        if (!_isPipeInUse)
        {
            _pipe ??= new Pipe(new PipeOptions(
                _memory = new BodyMemory(),
                readerScheduler: _readers,
                writerScheduler: PipeScheduler.Inline,
                pauseWriterThreshold: _pauseAt,
                resumeWriterThreshold: _pauseAt / 2,
                minimumSegmentSize: BodyMemory.BlockSizeMin,
                useSynchronizationContext: false));
            _isPipeInUse = true;
        }

        return _pipe!;
    }
}

/// <summary>Catches what a pipe would run while the loop feeds it, so that it runs where and when the loop decides.</summary>
internal sealed class ContinuationCatcher(ExchangeServices services) : PipeScheduler
{
    private Action<object?>? _action;
    private object? _state;
    private volatile int _feeder;

    public bool IsEmpty => _action is null;

    /// <summary>From here to <see cref="TryTake"/> what this thread sets off is caught; what others set off runs off the loops.</summary>
    public void BeginCatch() => _feeder = Environment.CurrentManagedThreadId;

    public override void Schedule(Action<object?> action, object? state)
    {
        if (_feeder == Environment.CurrentManagedThreadId && _action is null)
        {
            _action = action;
            _state = state;
        }
        else
        {
            services.RunUserCode(action, state);
        }
    }

    /// <summary>Takes what was caught, if anything.</summary>
    public bool TryTake(out Action<object?> action, out object? state)
    {
        _feeder = 0;
        action = _action!;
        state = _state;
        _action = null;
        _state = null;
        return action is not null;
    }
}
