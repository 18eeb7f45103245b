// An open file as a body: as many bytes as it had when it was judged, whatever is written behind them meanwhile. Where the server itself sends files, reading only notes that they are wanted, and from where.

using Microsoft.Win32.SafeHandles;

namespace Millrace.Connector;

internal sealed class ServedBody(SafeFileHandle file, long length, bool isOnlyAskedFor) : Stream
{
    /// <summary>Somebody has wanted to read, from <see cref="Position"/> on.</summary>
    public bool IsAskedFor { get; private set; }

    public override bool CanRead => true;

    public override bool CanSeek => true;

    public override bool CanWrite => false;

    public override long Length => length;

    public override long Position { get; set; }

    public override long Seek(long offset, SeekOrigin origin) => Position = offset + origin switch
    {
        SeekOrigin.Begin => 0,
        SeekOrigin.Current => Position,
        _ => length,
    };

    public override async ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
    {
        IsAskedFor = true;
        int wanted = (int)Math.Clamp(length - Position, 0, buffer.Length);
        if (isOnlyAskedFor || wanted == 0)
        {
            return 0;
        }
        int got = await RandomAccess.ReadAsync(file, buffer[..wanted], Position, cancellationToken).ConfigureAwait(false);
        Position += got;
        return got;
    }

    public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) => ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();

    public override int Read(byte[] buffer, int offset, int count) => ReadAsync(buffer, offset, count, CancellationToken.None).GetAwaiter().GetResult();

    public override void Flush()
    {
    }

    public override void SetLength(long value) => throw new NotSupportedException();

    public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();
}
