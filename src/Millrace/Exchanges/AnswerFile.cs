// Files as response bodies, moved by the kernel without a copy through managed memory. A file may lie on a disk, or behind a network, that
// takes its time: small ones are read outside the gate, and while the kernel sends from a large one, no loop waits for the send lock.

using System.Runtime.ExceptionServices;
using Microsoft.Win32.SafeHandles;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal sealed class AnswerFile(Exchange exchange, SendLock sending)
{
    /// <summary>Smaller files are read: a second system call would cost more than the copy.</summary>
    private const int SendFileMin = 16 * 1024;

    // Where a file ends of which the file system does not say where.
    private const long UnsaidEnd = long.MaxValue;

    /// <summary>File bytes are on their way: no other record may come between.</summary>
    public bool IsUnderWay { get; private set; }

    /// <summary>The file whose bytes are on their way. Under the send lock.</summary>
    public SafeFileHandle? Handle { get; private set; }

    /// <summary>Where it goes on.</summary>
    public long Offset { get; private set; }

    /// <summary>Bytes of the file that the record or chunk in progress has announced and not got.</summary>
    public int BytesLeft { get; private set; }

    /// <summary>Waits for its turn, enters the gate by itself, and leaves it while it waits.</summary>
    /// <param name="file">The file.</param>
    /// <param name="offset">Where to begin.</param>
    /// <param name="count">Bytes to send. Where <paramref name="extent"/> is to the end: what the file system says is left.</param>
    /// <param name="extent">Whether so many bytes are wanted, or all that the file holds.</param>
    /// <param name="ticket">Says for which request.</param>
    /// <param name="cancellationToken">Checked before each part.</param>
    public async ValueTask SendAsync(SafeFileHandle file, long offset, long count, FileExtent extent, long ticket, CancellationToken cancellationToken)
    {
        bool isUnsaid = extent == FileExtent.ToTheEnd && count == 0;
        count = isUnsaid ? UnsaidEnd - offset : count;
        exchange.Gate.Enter(ticket);
        exchange.Answer.NoteWrite(count);
        bool entered = true;
        bool held = false;
        bool begun = false;
        byte[]? part = null;
        bool waits = exchange.Order.IsBusy;
        if (waits)
        {
            exchange.Answer.DropReserved();
            Task turn = exchange.Writes.Follow(null);
            exchange.Gate.Exit(ticket);
            entered = false;
            await turn.ConfigureAwait(false);
        }
        else
        {
            exchange.Order.BeginParts();
        }

        try
        {
            if (!entered)
            {
                exchange.Gate.EnterAgain(ticket);
                entered = true;
            }

            exchange.Answer.CheckNotEnded();
            exchange.CheckNotUpgraded();
            exchange.Answer.CheckCount(isUnsaid ? 0 : count);
            if (count == 0)
            {
                return;     // nothing of a file begins no response
            }

            if (!isUnsaid)
            {
                exchange.Answer.Start();
            }

            if (!waits)
            {
                exchange.Answer.DropReserved();     // what was given before lies in front of the file's bytes, or is sent with their head
            }

            if (exchange.Answer.SuppressesBody)
            {
                exchange.Answer.Count(isUnsaid ? 0 : count);
                return;     // nobody gets a byte of it, and it may be long, or have no end
            }

            begun = true;
            exchange.Answer.CloseChunk();
            bool copies = isUnsaid || count < SendFileMin;
            ValueTask writable = copies ? default : exchange.Sender.SendAsync();
            file.DangerousAddRef(ref held);
            while (true)
            {
                if (!writable.IsCompletedSuccessfully)
                {
                    entered = false;
                    exchange.Gate.Exit(ticket);
                    await writable.ConfigureAwait(false);
                    exchange.Gate.EnterAgain(ticket);
                    entered = true;
                    writable = default;
                }

                // A record or chunk that has begun is sent to its end, whatever happens.
                if (BytesLeft == 0)
                {
                    if (count == 0)
                    {
                        return;
                    }

                    exchange.CheckWanted(ticket, cancellationToken);
                    if (exchange.Life.IsUnwanted)
                    {
                        // The token may fire only a moment later: a file that nobody gets is not to pass for sent.
                        if (exchange.Life.Owns(cancellationToken))
                        {
                            throw new OperationCanceledException(cancellationToken);
                        }

                        return;
                    }
                }

                if (!copies)
                {
                    writable = SendPart(file, ref offset, ref count);
                    continue;
                }

                part ??= BufferPool.Rent(SendFileMin);
                entered = false;
                exchange.Gate.Exit(ticket);
                int got = ReadPart(file, part, offset, count, extent, out ExceptionDispatchInfo? failure);
                exchange.Gate.EnterAgain(ticket);
                entered = true;
                failure?.Throw();
                offset += got;
                count = got > 0 ? count - got : 0;
                writable = CopyPart(part.AsSpan(0, got));
            }
        }
        catch (Exception error) when (begun && entered)
        {
            exchange.Report(error);      // part of the file must not pass for all of it, should the application go on
            throw;
        }
        finally
        {
            if (held)
            {
                file.DangerousRelease();
            }

            if (part is not null)
            {
                BufferPool.Return(part);
            }

            // Where the end of the response has found it under way, it stays so: whoever ends it may not have looked yet.
            if (entered)
            {
                exchange.Order.EndParts();
                exchange.Gate.Exit(ticket);
                exchange.Writes.LetFollow();
            }
        }
    }

    // One chunk of the file, or what is left of it. What is returned must be awaited before the next.
    private ValueTask SendPart(SafeFileHandle file, ref long offset, ref long count)
    {
        if (BytesLeft == 0)
        {
            IsUnderWay = true;
            int part = exchange.Connection.Framing.WriteFileChunkHead(exchange.Output, count);
            exchange.Answer.Count(part);
            BytesLeft = part;
            count -= part;
        }

        SendFileStep(file, ref offset, out ValueTask writable);
        return writable;
    }

    // Head, then file bytes. What is returned must be awaited: the socket takes no more. What the file lacks of its record or chunk shows
    // that the response is not whole; whatever the handler makes of the exception, nothing follows.
    private void SendFileStep(SafeFileHandle file, ref long offset, out ValueTask writable)
    {
        using (sending.Hold())
        {
            exchange.Sender.DropDeferred();
            exchange.Answer.NoteWhole(isFile: true);
            SendResult result = exchange.Connection.SendAhead(exchange.Output);
            if (result == SendResult.Done)
            {
                int left = BytesLeft;
                sending.EnterFile();
                try
                {
                    result = exchange.Connection.SendFilePart((int)file.DangerousGetHandle(), ref offset, ref left);
                }
                finally
                {
                    sending.LeaveFile();
                }

                exchange.Output.ResponseStart -= BytesLeft - left;
                BytesLeft = left;
            }

            (Handle, Offset) = (file, offset);

            writable = default;
            if (result == SendResult.NoFile)
            {
                Handle = null;
                exchange.Answer.NoteStuck();
                exchange.Answer.FailFile();
                throw new IOException("The file became shorter, or could not be read, while it was being sent.");
            }

            if (result == SendResult.Broken)
            {
                exchange.MarkBroken();
                exchange.LosePeer();
                exchange.Connection.BreakOff(exchange, atOnce: false);
                BytesLeft = 0;
            }

            if (result != SendResult.Again)
            {
                IsUnderWay = false;
                Handle = null;
                exchange.Connection.Framing.WriteFileChunkTail(exchange.Output);
                exchange.Connection.SendBesides(exchange);
                return;
            }

            exchange.Answer.NoteStuck();
            writable = exchange.Sender.WaitWritable();
        }
    }

    // Outside the gate. 0: this is its end, or it has failed.
    private static int ReadPart(SafeFileHandle file, byte[] part, long offset, long count, FileExtent extent, out ExceptionDispatchInfo? failure)
    {
        failure = null;
        try
        {
            int got = RandomAccess.Read(file, part.AsSpan(0, (int)Math.Min(count, SendFileMin)), offset);
            if (got == 0 && (extent == FileExtent.Counted || !IsAsLongAsSaid(file, offset + count)))
            {
                throw new IOException("The file became shorter, or could not be read, while it was being sent.");
            }

            return got;
        }
        catch (Exception error)
        {
            failure = ExceptionDispatchInfo.Capture(error);
            return 0;
        }
    }

    private ValueTask CopyPart(ReadOnlySpan<byte> part)
    {
        if (part.IsEmpty)
        {
            return default;
        }

        exchange.Answer.Start(coming: part.Length);     // not before: nothing may come of a file of which the file system says nothing
        exchange.Answer.AppendNow(part);
        return exchange.Answer.BytesWaiting >= OutputBuffer.SendAt ? exchange.Sender.FlushNow() : default;
    }

    // Nothing is left to read, and its length has not changed: the file ends here, whatever its length says.
    private static bool IsAsLongAsSaid(SafeFileHandle file, long end) => end == UnsaidEnd || RandomAccess.GetLength(file) >= end;

    public void Reset()
    {
        BytesLeft = 0;
        IsUnderWay = false;
        Handle = null;
    }
}

/// <summary>How much of a file is sent.</summary>
internal enum FileExtent
{
    /// <summary>So many bytes; a file that has less of them is an error.</summary>
    Counted,

    /// <summary>
    /// All that can be read. A file system that makes its files up while they are read says nothing of use about their length: procfs says 0,
    /// sysfs says a page for each.
    /// </summary>
    ToTheEnd,
}
