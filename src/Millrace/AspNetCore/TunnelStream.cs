// Both directions of a connection that has switched protocols, as one stream. Reading and writing may go on at the same
// time. A write is on its way when it has ended.

using Millrace.Exchanges;

namespace Millrace.AspNetCore;

internal sealed class TunnelStream(RequestStream input, ResponseStream output) : SequentialStream
{
    public override bool CanRead => true;

    public override bool CanWrite => true;

    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default) => input.ReadAsync(buffer, cancellationToken);

    public override int Read(byte[] buffer, int offset, int count) => input.Read(buffer, offset, count);

    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default) => output.WriteAsync(buffer, cancellationToken);

    public override void Write(byte[] buffer, int offset, int count) => output.Write(buffer, offset, count);

    public override void Flush() => output.Flush();

    public override Task FlushAsync(CancellationToken cancellationToken) => output.FlushAsync(cancellationToken);
}
