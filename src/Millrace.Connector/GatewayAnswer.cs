// What visitors are told when there is no answer: that, and nothing of why.

using Microsoft.AspNetCore.Http;

namespace Millrace.Connector;

internal static class GatewayAnswer
{
    public const string ContentType = "text/plain; charset=utf-8";

    /// <summary>What Retry-After says, in seconds, where it is worth trying again.</summary>
    public const string RetryAfter = "5";

    public static int StatusOf(ConnectorFault fault) => fault == ConnectorFault.Busy ? StatusCodes.Status503ServiceUnavailable : StatusCodes.Status502BadGateway;

    public static string TextOf(ConnectorFault fault) => fault == ConnectorFault.Busy ? "Not available at the moment\n" : "Bad gateway\n";
}
