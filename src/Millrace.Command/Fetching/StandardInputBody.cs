// Standard input as the body of a request. To read from a terminal or a pipe cannot be ended (read(2) of whoever has typed nothing yet): a read that is given up is left
// alone, on its thread, and ends with the process.

namespace Millrace.Command.Fetching;

internal sealed class StandardInputBody : Stream
{
    private readonly Stream _input = Console.OpenStandardInput();

    public override bool CanRead => true;

    public override bool CanSeek => false;

    public override bool CanWrite => false;

    public override long Length => throw new NotSupportedException();

    public override long Position
    {
        get => throw new NotSupportedException();
        set => throw new NotSupportedException();
    }

    public override async ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
    {
        // What comes after somebody has given it up must not come into his buffer.
        byte[] own = new byte[buffer.Length];
        int count = await Task.Run(() => _input.Read(own), CancellationToken.None).WaitAsync(cancellationToken);
        own.AsSpan(0, count).CopyTo(buffer.Span);
        return count;
    }

    public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) => ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();

    public override int Read(byte[] buffer, int offset, int count) => _input.Read(buffer, offset, count);

    public override void Flush()
    {
    }

    public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

    public override void SetLength(long value) => throw new NotSupportedException();

    public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();
}
