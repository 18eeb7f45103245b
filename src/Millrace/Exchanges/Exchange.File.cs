// Files as response bodies, moved by the kernel without a copy through managed memory.

using Microsoft.Win32.SafeHandles;

namespace Millrace.Exchanges;

internal sealed partial class Exchange
{
    /// <summary>Smaller files are read: a second system call would cost more than the copy.</summary>
    private const int SendFileMin = 16 * 1024;

    /// <summary>File bytes are on their way: no other record may come between.</summary>
    public bool IsSendingFile { get; private set; }

    public async ValueTask SendFileAsync(SafeFileHandle file, long offset, long count, CancellationToken cancellationToken)
    {
        Start();
        if (count < SendFileMin || SuppressesBody)
        {
            await CopyFile(file, offset, count);
            return;
        }

        if (Output.ChunkStart >= 0)
        {
            Connection.CloseChunk(this, Output);
        }

        await SendAsync();
        bool held = false;
        try
        {
            file.DangerousAddRef(ref held);
            int descriptor = (int)file.DangerousGetHandle();
            while (count > 0 && !IsAborted)
            {
                cancellationToken.ThrowIfCancellationRequested();
                IsSendingFile = true;
                int part = Connection.WriteFileChunkHead(this, Output, count);
                Count(part);
                int left = part;
                while (!SendFileStep(descriptor, ref offset, ref left, out ValueTask writable))
                {
                    await writable;
                }

                Connection.WriteFileChunkTail(Output);
                IsSendingFile = false;
                count -= part;
            }
        }
        finally
        {
            IsSendingFile = false;
            if (held)
            {
                file.DangerousRelease();
            }
        }
    }

    // Head, then file bytes. False: wait until the socket takes more.
    private bool SendFileStep(int descriptor, ref long offset, ref int left, out ValueTask writable)
    {
        lock (_sendLock)
        {
            SendResult result = Connection.SendAhead(Output);
            if (result == SendResult.Done)
            {
                result = Connection.SendFilePart(descriptor, ref offset, ref left);
            }

            writable = default;
            if (result == SendResult.Broken)
            {
                IsCut = true;
                Abort();
                Connection.Cut();
            }

            if (result != SendResult.Again)
            {
                return true;
            }

            writable = WaitWritable();
            return false;
        }
    }

    private async ValueTask CopyFile(SafeFileHandle file, long offset, long count)
    {
        while (count > 0)
        {
            int want = (int)Math.Min(count, SendFileMin);
            Memory<byte> room = ReserveBody(want);
            int got = RandomAccess.Read(file, room.Span[..want], offset);
            if (got == 0)
            {
                throw new IOException("The file became shorter while it was being sent.");
            }

            AdvanceBody(got);
            offset += got;
            count -= got;
            if (Output.Length >= OutputBuffer.SendAt)
            {
                await FlushAsync();
            }
        }
    }
}
