// Everything the server refuses or breaks off, by name: the closed list behind the counter millrace.refusals.

using Millrace.Protocols.Cgi;
using Millrace.Protocols.FastCgi;
using Millrace.Protocols.Http1;

namespace Millrace.Observe;

internal static class Refusal
{
    public const string PeerNotAllowed = "peer-not-allowed";
    public const string TooManyConnections = "too-many-connections";
    public const string TooManyRequests = "too-many-requests";
    public const string DescriptorsExhausted = "descriptors-exhausted";
    public const string QueueTimeout = "queue-timeout";
    public const string LeftQueue = "left-queue";
    public const string SendTimeout = "send-timeout";
    public const string ResponseTooSlow = "response-too-slow";
    public const string HeadTimeout = "head-timeout";
    public const string RequestTimeout = "request-timeout";
    public const string BodyTooSlow = "body-too-slow";
    public const string BodyShort = "body-short";
    public const string BodyLong = "body-long-or-over-limit";
    public const string EscapedNul = "path-escaped-nul";
    public const string DiscardLimit = "discard-limit";
    public const string Multiplexed = "multiplexed";
    public const string UnknownRole = "unknown-role";
    public const string UnknownType = "unknown-type";
    public const string EndedMidRequest = "ended-mid-request";
    public const string ControlFlood = "control-flood";

    private static readonly string[] s_fastCgi = Names<FastCgiFault>("fastcgi-");
    private static readonly string[] s_cgi = Names<CgiFault>("cgi-");
    private static readonly string[] s_http1 = Names<Http1Fault>("http-");

    public static string Of(FastCgiFault fault) => s_fastCgi[(int)fault];

    public static string Of(CgiFault fault) => s_cgi[(int)fault];

    public static string Of(Http1Fault fault) => s_http1[(int)fault];

    // BeginLength -> fastcgi-begin-length
    private static string[] Names<T>(string prefix)
        where T : struct, Enum => [.. Enum.GetNames<T>().Select(name => prefix + string.Concat(
            name.Select((c, i) => char.IsUpper(c) ? (i > 0 ? "-" : "") + char.ToLowerInvariant(c) : c.ToString())))];
}
