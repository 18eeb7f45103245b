// A response body as a Stream. One per request that asks for it: its ticket opens the gate of no other (ResponseGate.cs).

namespace Millrace.Exchanges;

/// <summary>Whose bytes a stream writes.</summary>
internal enum Direction
{
    /// <summary>The response's.</summary>
    Response,

    /// <summary>Those that follow a switch of protocols.</summary>
    Tunnel,
}

internal sealed class ResponseStream(Exchange exchange, long ticket, RequestBound? start, Direction direction = Direction.Response) : SequentialStream
{
    public override bool CanRead => false;

    public override bool CanWrite => true;

    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default) => Write(buffer, isOnlyNow: false, cancellationToken);

    // Memory that is the caller's only now is copied where it has to wait.
    private ValueTask Write(ReadOnlyMemory<byte> buffer, bool isOnlyNow, CancellationToken cancellationToken)
    {
        exchange.CheckWanted(ticket, cancellationToken);
        exchange.Gate.CheckOpen(ticket);
        if (start?.StartResponse() is { } starting)
        {
            return WriteLater(starting, isOnlyNow ? buffer.ToArray() : buffer, cancellationToken);
        }

        ReadOnlySpan<byte> span = buffer.Span;
        ValueTask sent;
        int taken;
        exchange.Gate.Enter(ticket);
        try
        {
            CheckDirection();
            sent = exchange.Writes.Write(span, out taken);

            // Applications count on what they wrote being on its way, as on other servers; the handler's own turn still leaves in one send.
            if (taken == span.Length && sent.IsCompletedSuccessfully)
            {
                return start is null ? default : exchange.Writes.While(exchange.Writes.FlushAsync(), ticket, cancellationToken);
            }
        }
        finally
        {
            exchange.Gate.Exit(ticket);
        }

        // Outside the gate: what follows may run on another thread before this one has returned, and enters it again.
        ReadOnlyMemory<byte> rest = buffer[taken..];
        ValueTask written = rest.IsEmpty ? sent : exchange.Writes.WriteRest(sent, isOnlyNow ? rest.ToArray() : rest, ticket);
        return exchange.Writes.While(start is null ? written : exchange.Writes.FlushAfter(written, ticket), ticket, cancellationToken);
    }

    private async ValueTask WriteLater(Task starting, ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken)
    {
        await starting.ConfigureAwait(false);
        await WriteAsync(buffer, cancellationToken).ConfigureAwait(false);
    }

    public override Task FlushAsync(CancellationToken cancellationToken)
    {
        exchange.CheckWanted(ticket, cancellationToken);
        if (exchange.Gate.IsComplete(ticket))
        {
            return Task.CompletedTask;
        }

        if (start?.StartResponse() is { } starting)
        {
            return FlushLater(starting, cancellationToken);
        }

        if (!exchange.Gate.EnterUnlessComplete(ticket))
        {
            return Task.CompletedTask;
        }

        try
        {
            CheckDirection();
            ValueTask flushed = exchange.Writes.While(exchange.Writes.FlushAsync(), ticket, cancellationToken);
            return flushed.IsCompletedSuccessfully ? Task.CompletedTask : flushed.AsTask();
        }
        finally
        {
            exchange.Gate.Exit(ticket);
        }
    }

    // Within the gate.
    private void CheckDirection()
    {
        if (direction == Direction.Response)
        {
            exchange.CheckNotUpgraded();
        }
    }

    private async Task FlushLater(Task starting, CancellationToken cancellationToken)
    {
        await starting.ConfigureAwait(false);
        await FlushAsync(cancellationToken).ConfigureAwait(false);
    }

    // Whoever waits may be interrupted, and the array be somebody else's when it is the rest's turn.
    public override void Write(byte[] buffer, int offset, int count) => Write(buffer.AsMemory(offset, count), isOnlyNow: true);

    public override void Write(ReadOnlySpan<byte> buffer) => Write(buffer.ToArray(), isOnlyNow: false);

    private void Write(ReadOnlyMemory<byte> buffer, bool isOnlyNow)
    {
        exchange.CheckSynchronousIO("WriteAsync", ticket);
        Wait(Write(buffer, isOnlyNow, CancellationToken.None));
    }

    public override void Flush()
    {
        exchange.CheckSynchronousIO("FlushAsync", ticket);
        Wait(new ValueTask(FlushAsync(CancellationToken.None)));
    }

    private static void Wait(ValueTask task)
    {
        if (task.IsCompleted)
        {
            task.GetAwaiter().GetResult();
        }
        else
        {
            task.AsTask().GetAwaiter().GetResult();
        }
    }
}
