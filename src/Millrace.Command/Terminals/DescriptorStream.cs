// Standard output and standard error for writing. Console's own streams take a reader that has gone for one that reads on: `millrace get ... | head`
// would fetch to the end. Nothing is buffered, and no position is kept: the application's output goes to the same place.

using System.Runtime.InteropServices;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Command.Terminals;

/// <summary>What the command prints cannot be written.</summary>
internal sealed class OutputException(string message, bool readerHasGone) : IOException(message)
{
    /// <summary>The other end of the pipe is closed: nobody wants the rest, which is no failure of the command's.</summary>
    public bool ReaderHasGone { get; } = readerHasGone;
}

/// <param name="descriptor">An open descriptor; not closed here.</param>
/// <param name="name">What is written to, as sentences call it.</param>
internal sealed unsafe class DescriptorStream(int descriptor, string name = "The output") : Stream
{
    // For a descriptor that somebody else has made non-blocking, as terminals that several processes share.
    private const int RetryMs = 10;

    public override bool CanRead => false;

    public override bool CanSeek => false;

    public override bool CanWrite => true;

    public override long Length => throw new NotSupportedException();

    public override long Position
    {
        get => throw new NotSupportedException();
        set => throw new NotSupportedException();
    }

    /// <exception cref="OutputException">Nobody reads any more, or it cannot be written to: a full disk, a descriptor that is closed.</exception>
    public override void Write(ReadOnlySpan<byte> buffer)
    {
        while (!buffer.IsEmpty)
        {
            nint written;
            fixed (byte* bytes = buffer)
            {
                written = SystemCalls.Write(descriptor, bytes, buffer.Length);
            }
            if (written >= 0)
            {
                buffer = buffer[(int)written..];
            }
            else if (SystemCalls.Errno is not SystemCalls.EINTR and var errno)
            {
                WaitOrFail(errno);
            }
        }
    }

    public override void Write(byte[] buffer, int offset, int count) => Write(buffer.AsSpan(offset, count));

    public override void Flush()
    {
    }

    public override int Read(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

    public override void SetLength(long value) => throw new NotSupportedException();

    private void WaitOrFail(int errno)
    {
        switch (errno)
        {
            case SystemCalls.EAGAIN:
                Thread.Sleep(RetryMs);
                return;
            case SystemCalls.EPIPE:
                throw new OutputException("The reader of the output has gone.", readerHasGone: true);
            default:
                throw new OutputException($"{name} cannot be written: {Marshal.GetPInvokeErrorMessage(errno)}.", readerHasGone: false);
        }
    }
}
