// Sending, for whoever owns the output of a connection at the moment: its loop, or the thread its exchange is on. See
// Connection.cs for the word that says who that is.

using Millrace.Exchanges;
using Millrace.Loops;

namespace Millrace.Connections;

internal abstract partial class Connection<TKernel>
{
    public override SendResult SendOutput(Exchange? exchange, OutputBuffer output)
    {
        while (output.Length > 0)
        {
            int sent = Loop.Kernel.Send(Descriptor, output.Bytes.AsSpan(output.Start, output.Length), more: false);
            if (sent < 0)
            {
                if (sent == KernelResult.Again)
                {
                    return SendResult.Again;
                }

                exchange?.Abort();
                output.Clear();
                return SendResult.Broken;
            }

            CountSent(exchange, sent);
            output.Start += sent;
        }

        output.Compact();
        return SendResult.Done;
    }

    /// <summary>Sends a buffer of the connection's own.</summary>
    protected SendResult SendBytes(OutputBuffer output)
    {
        while (output.Length > 0)
        {
            int sent = Loop.Kernel.Send(Descriptor, output.Bytes.AsSpan(output.Start, output.Length), more: false);
            if (sent < 0)
            {
                return sent == KernelResult.Again ? SendResult.Again : SendResult.Broken;
            }

            Interlocked.Add(ref Services.Detached.BytesSent, sent);
            output.Start += sent;
        }

        return SendResult.Done;
    }

    public override SendResult SendAhead(OutputBuffer output)
    {
        while (output.Length > 0)
        {
            int sent = Loop.Kernel.Send(Descriptor, output.Bytes.AsSpan(output.Start, output.Length), more: true);
            if (sent < 0)
            {
                return sent == KernelResult.Again ? SendResult.Again : SendResult.Broken;
            }

            Interlocked.Add(ref Services.Detached.BytesSent, sent);
            output.Start += sent;
        }

        output.Compact();
        return SendResult.Done;
    }

    public sealed override SendResult SendFilePart(int file, ref long offset, ref int count)
    {
        while (count > 0)
        {
            int sent = Loop.Kernel.SendFile(Descriptor, file, ref offset, count);
            if (sent <= 0)
            {
                return sent == KernelResult.Again ? SendResult.Again : SendResult.Broken;   // 0: the file became shorter
            }

            Interlocked.Add(ref Services.Detached.BytesSent, sent);
            count -= sent;
        }

        return SendResult.Done;
    }

    public override void SendUpTo(Exchange exchange, OutputBuffer output, int end)
    {
        while (output.Start < end)
        {
            int sent = Loop.Kernel.Send(Descriptor, output.Bytes.AsSpan(output.Start, end - output.Start), more: false);
            if (sent < 0)
            {
                if (sent == KernelResult.Broken)
                {
                    exchange.Abort();
                }

                return;
            }

            CountSent(exchange, sent);
            output.Start += sent;
        }
    }

    private void CountSent(Exchange? exchange, int sent)
    {
        if (exchange is null)
        {
            Loop.Counters.BytesSent += sent;
        }
        else
        {
            Interlocked.Add(ref Services.Detached.BytesSent, sent);
        }
    }

    public sealed override void WantWritable(Exchange exchange)
    {
        _writeBlockedSinceMs = Loop.Kernel.NowMs;
        Interlocked.Or(ref Word, WantsWritable);        // before the deadline is looked at: the loop looks the other way round
        long due = _writeBlockedSinceMs + (long)Options.SendTimeout.TotalMilliseconds;
        if (due < DeadlineMs)
        {
            DeadlineMs = due;
            if (due < WheelDueMs)
            {
                PostSelf(PostedDeadline);
            }
        }

        WatchWriting();
    }
}
