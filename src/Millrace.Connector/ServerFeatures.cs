// The features of a request as Millrace has made them: one object that is all of them, so that what each request needs is found without looking for it.

using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.AspNetCore;

namespace Millrace.Connector;

internal static class ServerFeatures
{
    /// <summary>Null: another server's, or somebody has set one, which counts.</summary>
    public static HostedFeatures? AsMade(this HttpContext context) => context.Features is HostedFeatures { AreAsMade: true } its ? its : null;

    /// <summary>The target as it came.</summary>
    public static string? RawTarget(this HttpContext context) => (context.AsMade() ?? context.Features.Get<IHttpRequestFeature>())?.RawTarget;
}
