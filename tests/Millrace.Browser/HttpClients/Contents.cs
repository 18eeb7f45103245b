// Bodies that HttpClient sends: one that knows whether it was asked for, one that never ends.

using System.Net;
using Millrace.Browser.Site;

namespace Millrace.Browser.HttpClients;

/// <summary>The pattern's first bytes, in pieces of different sizes and without a known length.</summary>
internal sealed class WatchedContent(int count) : HttpContent
{
    public bool WasSent { get; private set; }

    protected override async Task SerializeToStreamAsync(Stream stream, TransportContext? context)
    {
        WasSent = true;
        byte[] bytes = Pattern.Take(count);
        for (int at = 0, size = 1; at < count; at += size, size = (size * 3 % 100_003) + 1)
        {
            size = Math.Min(size, count - at);
            await stream.WriteAsync(bytes.AsMemory(at, size));
        }
    }

    protected override bool TryComputeLength(out long length)
    {
        length = 0;
        return false;
    }
}

/// <summary>Announces more than it sends, and stops in the middle until it is given up.</summary>
internal sealed class StalledContent(int count) : HttpContent
{
    protected override Task SerializeToStreamAsync(Stream stream, TransportContext? context) => SerializeToStreamAsync(stream, context, CancellationToken.None);

    protected override async Task SerializeToStreamAsync(Stream stream, TransportContext? context, CancellationToken cancellationToken)
    {
        await stream.WriteAsync(Pattern.Take(count), cancellationToken);
        await stream.FlushAsync(cancellationToken);
        await Task.Delay(Timeout.Infinite, cancellationToken);
    }

    protected override bool TryComputeLength(out long length)
    {
        length = count * 2;
        return true;
    }
}
