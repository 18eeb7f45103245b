// How fast the client must be over HTTP, for one request: Kestrel's own features for it, so that what an application or a library
// sets there holds here as well. Over FastCGI the client is the web server's. The rates are kept in the exchange.

using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.AspNetCore.Server.Kestrel.Core.Features;
using Millrace.Exchanges;

namespace Millrace.AspNetCore;

internal abstract partial class RequestFeatures : IHttpMinRequestBodyDataRateFeature, IHttpMinResponseDataRateFeature
{
    // Kestrel's type takes no shorter grace; a server may have one.
    private static readonly TimeSpan s_graceMin = TimeSpan.FromSeconds(1) + TimeSpan.FromTicks(1);

    private protected bool IsRateFeature(Type key) => !Head.IsFastCgi
        && (key == typeof(IHttpMinRequestBodyDataRateFeature) || key == typeof(IHttpMinResponseDataRateFeature));

    MinDataRate? IHttpMinRequestBodyDataRateFeature.MinDataRate
    {
        get
        {
            using ExchangeUse use = Use();
            return Shown(Exchange.Rates.Body);
        }

        set
        {
            using ExchangeUse use = Use();
            Exchange.Rates = Exchange.Rates with { Body = Of(value) };
        }
    }

    MinDataRate? IHttpMinResponseDataRateFeature.MinDataRate
    {
        get
        {
            using ExchangeUse use = Use();
            return Shown(Exchange.Rates.Response);
        }

        set
        {
            using ExchangeUse use = Use();
            Exchange.Rates = Exchange.Rates with { Response = Of(value) };
        }
    }

    private static MinDataRate? Shown(MinRate? rate) =>
        rate is null ? null : new MinDataRate(rate.BytesPerSecond, rate.Grace < s_graceMin ? s_graceMin : rate.Grace);

    private static MinRate? Of(MinDataRate? rate) => rate is null ? null : new MinRate(rate.BytesPerSecond, rate.GracePeriod);
}
