// A response body as a PipeWriter: bytes are written in place into what will be sent. It serves one request after the other
// as long as each ends in its driver's turn (ReusedTicket in Exchange.Gate.cs says how it tells them apart).

using System.IO.Pipelines;
using System.Runtime.CompilerServices;

namespace Millrace.Exchanges;

internal sealed class ResponseWriter(Exchange exchange, IResponseStarter start) : PipeWriter
{
    private ReusedTicket _ticket;
    private long _unflushed;
    private bool _completed;

    /// <summary>Begins to serve the exchange's request.</summary>
    public void Begin()
    {
        _unflushed = 0;
        _completed = false;
        _ticket.Take(exchange);
    }

    /// <summary>Ends with its request. True when it may serve another.</summary>
    public bool End()
    {
        _ticket.GiveBack();
        return !_ticket.WasUsedElsewhere;
    }

    public override bool CanGetUnflushedBytes => true;

    public override long UnflushedBytes => _unflushed;

    public override Memory<byte> GetMemory(int sizeHint = 0)
    {
        long ticket = Enter();
        try
        {
            CheckOpen();
            return exchange.ReserveBody(sizeHint);
        }
        finally
        {
            exchange.Exit(ticket);
        }
    }

    public override Span<byte> GetSpan(int sizeHint = 0) => GetMemory(sizeHint).Span;

    public override void Advance(int bytes)
    {
        long ticket = Enter();
        try
        {
            exchange.AdvanceBody(bytes);
            _unflushed += bytes;
        }
        finally
        {
            exchange.Exit(ticket);
        }
    }

    public override ValueTask<FlushResult> FlushAsync(CancellationToken cancellationToken = default)
    {
        cancellationToken.ThrowIfCancellationRequested();
        exchange.CheckOpen(_ticket.For(exchange));
        if (start.StartResponse() is { } starting)
        {
            return FlushLater(starting);
        }

        long ticket = Enter();
        try
        {
            _unflushed = 0;
            ValueTask flushed = exchange.FlushAsync();
            return flushed.IsCompletedSuccessfully ? new ValueTask<FlushResult>(Result) : Later(flushed);
        }
        finally
        {
            exchange.Exit(ticket);
        }
    }

    public override ValueTask<FlushResult> WriteAsync(ReadOnlyMemory<byte> source, CancellationToken cancellationToken = default)
    {
        cancellationToken.ThrowIfCancellationRequested();
        exchange.CheckOpen(_ticket.For(exchange));
        if (start.StartResponse() is { } starting)
        {
            return WriteLater(starting, source);
        }

        ValueTask written;
        long ticket = Enter();
        try
        {
            CheckOpen();
            written = exchange.WriteAsync(source, ticket);
            if (written.IsCompletedSuccessfully)
            {
                written = exchange.FlushAsync();
                return written.IsCompletedSuccessfully ? new ValueTask<FlushResult>(Result) : Later(written);
            }
        }
        finally
        {
            exchange.Exit(ticket);
        }

        // Outside the gate: what follows may run on another thread before this one has returned, and enters it again.
        return FlushAfter(written);
    }

    public override void CancelPendingFlush()
    {
    }

    public override void Complete(Exception? exception = null) => _completed = true;

    private FlushResult Result => new(isCanceled: false, isCompleted: false);

    private long Enter()
    {
        long ticket = _ticket.For(exchange);
        exchange.Enter(ticket);
        return ticket;
    }

    private void CheckOpen()
    {
        if (_completed)
        {
            throw new InvalidOperationException("Writing is not allowed after the writer was completed.");
        }
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    private async ValueTask<FlushResult> Later(ValueTask flushed)
    {
        await flushed;
        return Result;
    }

    private async ValueTask<FlushResult> FlushAfter(ValueTask written)
    {
        await written;
        return await FlushAsync();
    }

    private async ValueTask<FlushResult> FlushLater(Task starting)
    {
        await starting;
        return await FlushAsync();
    }

    private async ValueTask<FlushResult> WriteLater(Task starting, ReadOnlyMemory<byte> source)
    {
        await starting;
        return await WriteAsync(source);
    }
}
