// How fast a peer must be on average: when it sends the body of a request, and when it takes what was written for it. Those of
// the server come from its options; an application may set others for one request over HTTP.

namespace Millrace.Exchanges;

/// <summary>Bytes a second, and the time before they are asked for.</summary>
internal sealed record MinRate(double BytesPerSecond, TimeSpan Grace)
{
    /// <summary>Null for 0 bytes a second, which asks for nothing.</summary>
    public static MinRate? Of(int bytesPerSecond, TimeSpan grace) => bytesPerSecond > 0 ? new MinRate(bytesPerSecond, grace) : null;

    public long GraceMs => (long)Grace.TotalMilliseconds;

    public bool IsMissed(long bytes, long elapsedMs) => elapsedMs > GraceMs && bytes * 1000.0 < BytesPerSecond * elapsedMs;
}

/// <summary>Both rates; null asks for nothing.</summary>
internal sealed record PeerRates(MinRate? Body, MinRate? Response)
{
    public static PeerRates ForHttp(MillraceOptions options) => new(
        MinRate.Of(options.MinBodyBytesPerSecond, options.MinBodyRateGrace),
        MinRate.Of(options.MinResponseBytesPerSecond, options.MinResponseRateGrace));

    /// <summary>Over FastCGI the reader is the web server, which has its clients' slowness to judge.</summary>
    public static PeerRates ForFastCgi(MillraceOptions options) => new(MinRate.Of(options.MinBodyBytesPerSecond, options.MinBodyRateGrace), null);
}
