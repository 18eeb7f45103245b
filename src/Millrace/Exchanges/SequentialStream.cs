// A stream without a position: what all body streams refuse, and the older forms of reading and writing over the newest. One
// that cannot be read, or not be written, refuses that here: the base class would go round in circles between the forms.

namespace Millrace.Exchanges;

internal abstract class SequentialStream : Stream
{
    public sealed override bool CanSeek => false;

    public sealed override long Length => throw new NotSupportedException();

    public sealed override long Position
    {
        get => throw new NotSupportedException();
        set => throw new NotSupportedException();
    }

    public sealed override int ReadTimeout
    {
        get => CanRead ? base.ReadTimeout : throw OnlyWritten();
        set => base.ReadTimeout = CanRead ? value : throw OnlyWritten();
    }

    public sealed override int WriteTimeout
    {
        get => CanWrite ? base.WriteTimeout : throw OnlyRead();
        set => base.WriteTimeout = CanWrite ? value : throw OnlyRead();
    }

    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default) =>
        throw OnlyWritten();

    public sealed override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) =>
        ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();

    public override int Read(byte[] buffer, int offset, int count) => throw OnlyWritten();

    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default) =>
        throw OnlyRead();

    public sealed override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        ValueTask written = WriteAsync(buffer.AsMemory(offset, count), cancellationToken);
        return written.IsCompletedSuccessfully ? Task.CompletedTask : written.AsTask();
    }

    public override void Write(byte[] buffer, int offset, int count) => throw OnlyRead();

    public sealed override IAsyncResult BeginRead(byte[] buffer, int offset, int count, AsyncCallback? callback, object? state) =>
        TaskToAsyncResult.Begin(ReadAsync(buffer, offset, count, CancellationToken.None), callback, state);

    public sealed override int EndRead(IAsyncResult asyncResult) => TaskToAsyncResult.End<int>(asyncResult);

    public sealed override IAsyncResult BeginWrite(byte[] buffer, int offset, int count, AsyncCallback? callback, object? state) =>
        TaskToAsyncResult.Begin(WriteAsync(buffer, offset, count, CancellationToken.None), callback, state);

    public sealed override void EndWrite(IAsyncResult asyncResult) => TaskToAsyncResult.End(asyncResult);

    public sealed override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

    public sealed override void SetLength(long value) => throw new NotSupportedException();

    private static NotSupportedException OnlyRead() => new("This stream can only be read.");

    private static NotSupportedException OnlyWritten() => new("This stream can only be written.");
}
