// A response body as a PipeWriter. One per request that asks for it: its ticket opens the gate of no other (ResponseGate.cs).
//
// Memory that it gives is the application's for ever, and copied into what will be sent. A span cannot outlive the handler's
// synchronous part: given there it is of its thread's scratch, and copied as well.

using System.IO.Pipelines;
using Microsoft.AspNetCore.Http.Features;

namespace Millrace.Exchanges;

internal sealed class ResponseWriter(RequestBound request) : PipeWriter
{
    private long _unflushed;
    private bool _failed;

    public override bool CanGetUnflushedBytes => true;

    public override long UnflushedBytes
    {
        get
        {
            request.Exchange.CheckCurrent(request.Ticket);
            return _unflushed;
        }
    }

    public override Memory<byte> GetMemory(int sizeHint = 0)
    {
        Exchange exchange = request.Exchange;
        long ticket = request.Ticket;
        exchange.Gate.Enter(ticket);
        try
        {
            CheckWritable();
            return exchange.Answer.LendBody(sizeHint);
        }
        finally
        {
            exchange.Gate.Exit(ticket);
        }
    }

    public override Span<byte> GetSpan(int sizeHint = 0)
    {
        Exchange exchange = request.Exchange;
        if (!exchange.IsHandlerThread)
        {
            return GetMemory(sizeHint).Span;
        }

        long ticket = request.Ticket;
        exchange.Gate.Enter(ticket);
        try
        {
            CheckWritable();
            return exchange.Answer.ShowBody(sizeHint);
        }
        finally
        {
            exchange.Gate.Exit(ticket);
        }
    }

    public override void Advance(int bytes)
    {
        Exchange exchange = request.Exchange;
        long ticket = request.Ticket;
        exchange.Gate.Enter(ticket);
        try
        {
            CheckWritable();
            exchange.Answer.AdvanceBody(bytes);
            _unflushed += bytes;
        }
        finally
        {
            exchange.Gate.Exit(ticket);
        }
    }

    /// <summary>Takes bytes without memory for whoever writes, and without a flush.</summary>
    public void Append(ReadOnlySpan<byte> bytes)
    {
        Exchange exchange = request.Exchange;
        long ticket = request.Ticket;
        exchange.Gate.Enter(ticket);
        try
        {
            CheckWritable();
            exchange.Answer.Append(bytes);
            _unflushed += bytes.Length;
        }
        finally
        {
            exchange.Gate.Exit(ticket);
        }
    }

    public override ValueTask<FlushResult> FlushAsync(CancellationToken cancellationToken = default)
    {
        Exchange exchange = request.Exchange;
        long ticket = request.Ticket;
        exchange.CheckWanted(ticket, cancellationToken);
        if (exchange.Gate.IsComplete(ticket))
        {
            return new ValueTask<FlushResult>(Result(exchange, ticket));
        }

        if (request.StartResponse() is { } starting)
        {
            return FlushLater(starting, cancellationToken);
        }

        if (!exchange.Gate.EnterUnlessComplete(ticket))
        {
            return new ValueTask<FlushResult>(Result(exchange, ticket));
        }

        try
        {
            exchange.CheckNotUpgraded();
            _unflushed = 0;
            ValueTask flushed = exchange.Writes.While(exchange.Writes.FlushAsync(), ticket, cancellationToken);
            return flushed.IsCompletedSuccessfully ? new ValueTask<FlushResult>(Result(exchange, ticket)) : Later(flushed, exchange, ticket);
        }
        finally
        {
            exchange.Gate.Exit(ticket);
        }
    }

    public override ValueTask<FlushResult> WriteAsync(ReadOnlyMemory<byte> source, CancellationToken cancellationToken = default) => WriteAsync(source, isOnlyNow: false, cancellationToken);

    /// <summary>The same of memory that is the caller's only until this has been asked: it is copied where it has to wait.</summary>
    public ValueTask<FlushResult> WriteNow(ReadOnlyMemory<byte> source) => WriteAsync(source, isOnlyNow: true, CancellationToken.None);

    private ValueTask<FlushResult> WriteAsync(ReadOnlyMemory<byte> source, bool isOnlyNow, CancellationToken cancellationToken)
    {
        Exchange exchange = request.Exchange;
        long ticket = request.Ticket;
        exchange.CheckWanted(ticket, cancellationToken);
        exchange.Gate.CheckOpen(ticket);
        if (request.StartResponse() is { } starting)
        {
            return WriteLater(starting, isOnlyNow ? source.ToArray() : source, cancellationToken);
        }

        ReadOnlySpan<byte> span = source.Span;
        ValueTask sent;
        int taken;
        exchange.Gate.Enter(ticket);
        try
        {
            CheckWritable();
            sent = exchange.Writes.Write(span, out taken);
            _unflushed = 0;
            if (taken == span.Length && sent.IsCompletedSuccessfully)
            {
                sent = exchange.Writes.While(exchange.Writes.FlushAsync(), ticket, cancellationToken);
                return sent.IsCompletedSuccessfully ? new ValueTask<FlushResult>(Result(exchange, ticket)) : Later(sent, exchange, ticket);
            }
        }
        finally
        {
            exchange.Gate.Exit(ticket);
        }

        // Outside the gate: what follows may run on another thread before this one has returned, and enters it again.
        ReadOnlyMemory<byte> rest = source[taken..];
        ValueTask written = rest.IsEmpty ? sent : exchange.Writes.WriteRest(sent, isOnlyNow ? rest.ToArray() : rest, ticket);
        return Later(exchange.Writes.While(exchange.Writes.FlushAfter(written, ticket), ticket, cancellationToken), exchange, ticket);
    }

    /// <summary>The writer as a stream, whose synchronous writes need no AllowSynchronousIO, as on Kestrel.</summary>
    public override Stream AsStream(bool leaveOpen = false) => new WriterStream(this, leaveOpen);

    public override void CancelPendingFlush() => request.Exchange.CheckCurrent(request.Ticket);

    /// <summary>Ends the response: its client has the end while the handler goes on. With an exception: what has been written is not all, and must not pass for it.</summary>
    public override void Complete(Exception? exception = null)
    {
        Task completing = CompleteOnce(exception);
        if (completing.IsFaulted)
        {
            completing.GetAwaiter().GetResult();
        }
    }

    /// <summary>As <see cref="Complete"/>, and waits until the end is on its way.</summary>
    public override ValueTask CompleteAsync(Exception? exception = null) => new(CompleteOnce(exception));

    // What goes on when the handler ends finds the response complete.
    private Task CompleteOnce(Exception? exception)
    {
        Exchange exchange = request.Exchange;
        using (exchange.Use(request.Ticket))
        {
            exchange.CheckNotUpgraded();
            if (exception is not null)
            {
                _failed = true;
                exchange.Report(exception);
            }

            if (_failed)
            {
                return Task.CompletedTask;
            }
        }

        return ((IHttpResponseBodyFeature)request).CompleteAsync();
    }

    // Completed: nobody takes what is written, which whoever writes without end has to be told. A request that has ended meanwhile is told nothing of the next one.
    private static FlushResult Result(Exchange exchange, long ticket)
    {
        bool isUnwanted = exchange.Life.IsUnwanted;
        return new FlushResult(isCanceled: false, isCompleted: isUnwanted && exchange.Gate.Ticket == ticket);
    }

    // Within the gate.
    private void CheckWritable()
    {
        request.Exchange.CheckNotUpgraded();
        if (_failed)
        {
            throw new InvalidOperationException("Writing is not allowed after the writer was completed with an exception.");
        }
    }

    private static async ValueTask<FlushResult> Later(ValueTask flushed, Exchange exchange, long ticket)
    {
        await flushed.ConfigureAwait(false);
        return Result(exchange, ticket);
    }

    private async ValueTask<FlushResult> FlushLater(Task starting, CancellationToken cancellationToken)
    {
        await starting.ConfigureAwait(false);
        return await FlushAsync(cancellationToken).ConfigureAwait(false);
    }

    private async ValueTask<FlushResult> WriteLater(Task starting, ReadOnlyMemory<byte> source, CancellationToken cancellationToken)
    {
        await starting.ConfigureAwait(false);
        return await WriteAsync(source, cancellationToken).ConfigureAwait(false);
    }
}
