// What the application says to Kestrel, in Millrace's words: ConfigureKestrel, UseKestrel(options => ...) and whatever the
// application binds to KestrelServerOptions. A setting counts where it differs from Kestrel's default and the option is not
// set for Millrace itself. What has no counterpart is listed, for one warning at the start.

using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.Extensions.Options;

namespace Millrace.AspNetCore;

internal sealed class KestrelSettings(IOptions<KestrelServerOptions> options)
{
    // Of the parameters of a FastCGI request so many bytes are no header fields.
    private const int OtherParameterBytes = 32 * 1024;

    private readonly List<string> _withoutEffect = [];

    /// <summary>Settings that differ from Kestrel's defaults and cannot be followed, each with the reason or what comes nearest.</summary>
    public IReadOnlyList<string> WithoutEffect => _withoutEffect;

    public KestrelEndpoints Endpoints { get; private set; } = KestrelEndpoints.None;

    /// <summary>Why nothing of it could be read, such as a certificate that is not there; else null.</summary>
    public Exception? Unreadable { get; private set; }

    public void Apply(MillraceOptions to)
    {
        KestrelServerOptions said;
        try
        {
            said = options.Value;
        }
        catch (Exception error)
        {
            Unreadable = error;     // thrown by the application's code or by Kestrel's, for what may not matter here at all
            return;
        }

        _withoutEffect.Clear();
        var usual = new KestrelServerOptions();
        Flags(said, usual, to);
        Sizes(said.Limits, usual.Limits, to);
        Times(said.Limits, usual.Limits, to);
        Foreign(said, usual);
        Endpoints = KestrelEndpoints.Of(said);
        _withoutEffect.AddRange(Endpoints.Others);
    }

    private static void Flags(KestrelServerOptions said, KestrelServerOptions usual, MillraceOptions to)
    {
        if (said.AllowSynchronousIO != usual.AllowSynchronousIO && !to.IsSet(nameof(to.AllowSynchronousIO)))
        {
            to.AllowSynchronousIO = said.AllowSynchronousIO;
        }

        if (said.AddServerHeader != usual.AddServerHeader && !to.IsSet(nameof(to.AddServerHeader)))
        {
            to.AddServerHeader = said.AddServerHeader;
        }
    }

    private void Sizes(KestrelServerLimits said, KestrelServerLimits usual, MillraceOptions to)
    {
        if (said.MaxRequestBodySize != usual.MaxRequestBodySize && !to.IsSet(nameof(to.MaxRequestBodySize)))
        {
            to.MaxRequestBodySize = said.MaxRequestBodySize;
        }

        if (said.MaxRequestHeadersTotalSize != usual.MaxRequestHeadersTotalSize && !to.IsSet(nameof(to.MaxHeadBytes)))
        {
            to.HttpHeaderBytesMax = said.MaxRequestHeadersTotalSize;
            to.MaxHeadBytes = (int)Math.Min(16 * 1024 * 1024, (long)said.MaxRequestHeadersTotalSize + OtherParameterBytes);
        }

        if (said.MaxRequestLineSize != usual.MaxRequestLineSize && !to.IsSet(nameof(to.MaxRequestLineBytes)))
        {
            to.MaxRequestLineBytes = Within(nameof(said.MaxRequestLineSize), said.MaxRequestLineSize, 64, to.MaxHeadBytes);
        }

        if (said.MaxRequestHeaderCount != usual.MaxRequestHeaderCount && !to.IsSet(nameof(to.MaxHeaders)))
        {
            to.MaxHeaders = Within(nameof(said.MaxRequestHeaderCount), said.MaxRequestHeaderCount, 1, 10_000);
        }

        if (said.MaxConcurrentConnections is { } connections && !to.IsSet(nameof(to.MaxConnections)))
        {
            to.MaxConnections = (int)Within(nameof(said.MaxConcurrentConnections), connections, 1, 1_000_000);
        }

        if (said.MaxConcurrentUpgradedConnections is { } upgraded && !to.IsSet(nameof(to.MaxUpgradedConnections)))
        {
            to.MaxUpgradedConnections = (int)Within(nameof(said.MaxConcurrentUpgradedConnections), upgraded, 0, 1_000_000);
        }

        if (said.MaxRequestBufferSize != usual.MaxRequestBufferSize && !to.IsSet(nameof(to.RequestBodyBuffer)))
        {
            to.RequestBodyBuffer = (int)Within(nameof(said.MaxRequestBufferSize), said.MaxRequestBufferSize ?? long.MaxValue, 4_096, 64 * 1024 * 1024);
        }
    }

    private void Times(KestrelServerLimits said, KestrelServerLimits usual, MillraceOptions to)
    {
        if (said.KeepAliveTimeout != usual.KeepAliveTimeout && !to.IsSet(nameof(to.IdleTimeout)))
        {
            to.IdleTimeout = Within(nameof(said.KeepAliveTimeout), said.KeepAliveTimeout);
        }

        if (said.RequestHeadersTimeout != usual.RequestHeadersTimeout && !to.IsSet(nameof(to.HeadTimeout)))
        {
            to.HeadTimeout = Within(nameof(said.RequestHeadersTimeout), said.RequestHeadersTimeout);
        }

        MinDataRate? rate = said.MinRequestBodyDataRate;
        if (Differ(rate, usual.MinRequestBodyDataRate) && !to.IsSet(nameof(to.MinBodyBytesPerSecond)) && !to.IsSet(nameof(to.MinBodyRateGrace)))
        {
            to.MinBodyBytesPerSecond = rate is null ? 0 : (int)Math.Clamp(Math.Ceiling(rate.BytesPerSecond), 0, int.MaxValue);
            to.MinBodyRateGrace = rate is null ? to.MinBodyRateGrace : Within(nameof(said.MinRequestBodyDataRate), rate.GracePeriod);
        }

        rate = said.MinResponseDataRate;
        if (Differ(rate, usual.MinResponseDataRate) && !to.IsSet(nameof(to.MinResponseBytesPerSecond)) && !to.IsSet(nameof(to.MinResponseRateGrace)))
        {
            to.MinResponseBytesPerSecond = rate is null ? 0 : (int)Math.Clamp(Math.Ceiling(rate.BytesPerSecond), 0, int.MaxValue);
            to.MinResponseRateGrace = rate is null ? to.MinResponseRateGrace : Within(nameof(said.MinResponseDataRate), rate.GracePeriod);
        }
    }

    private static bool Differ(MinDataRate? a, MinDataRate? b) => (a?.BytesPerSecond, a?.GracePeriod) != (b?.BytesPerSecond, b?.GracePeriod);

    // What concerns HTTP/2, HTTP/3 and TLS, and what Millrace has settled for everybody.
    private void Foreign(KestrelServerOptions said, KestrelServerOptions usual)
    {
        Note(said.DisableStringReuse != usual.DisableStringReuse, nameof(said.DisableStringReuse));
        Note(said.AllowAlternateSchemes != usual.AllowAlternateSchemes, nameof(said.AllowAlternateSchemes));
        Note(said.AllowHostHeaderOverride != usual.AllowHostHeaderOverride, nameof(said.AllowHostHeaderOverride));
        Note(IsChanged(said.RequestHeaderEncodingSelector, usual.RequestHeaderEncodingSelector), nameof(said.RequestHeaderEncodingSelector));
        Note(IsChanged(said.ResponseHeaderEncodingSelector, usual.ResponseHeaderEncodingSelector), nameof(said.ResponseHeaderEncodingSelector));
        Note(said.Limits.MaxResponseBufferSize != usual.Limits.MaxResponseBufferSize, "Limits.MaxResponseBufferSize");
        Note(!Same(said.Limits.Http2, usual.Limits.Http2), "Limits.Http2");
        Note(said.Limits.Http3.MaxRequestHeaderFieldSize != usual.Limits.Http3.MaxRequestHeaderFieldSize, "Limits.Http3");
    }

    private static bool IsChanged(Delegate? said, Delegate? usual) => said?.Method != usual?.Method;

    private static bool Same(Http2Limits a, Http2Limits b) =>
        a.MaxStreamsPerConnection == b.MaxStreamsPerConnection && a.HeaderTableSize == b.HeaderTableSize && a.MaxFrameSize == b.MaxFrameSize
        && a.MaxRequestHeaderFieldSize == b.MaxRequestHeaderFieldSize && a.InitialConnectionWindowSize == b.InitialConnectionWindowSize
        && a.InitialStreamWindowSize == b.InitialStreamWindowSize && a.KeepAlivePingDelay == b.KeepAlivePingDelay && a.KeepAlivePingTimeout == b.KeepAlivePingTimeout;

    private void Note(bool isChanged, string setting)
    {
        if (isChanged)
        {
            _withoutEffect.Add(setting);
        }
    }

    // The nearest value that Millrace takes.
    private T Within<T>(string limit, T value, T min, T max)
        where T : IComparable<T>
    {
        T nearest = value.CompareTo(min) < 0 ? min : value.CompareTo(max) > 0 ? max : value;
        Note(nearest.CompareTo(value) != 0, FormattableString.Invariant($"Limits.{limit} ({nearest} comes nearest)"));
        return nearest;
    }

    private TimeSpan Within(string limit, TimeSpan value) => Within(limit, value, TimeSpan.FromMilliseconds(100), TimeSpan.FromDays(1));
}
