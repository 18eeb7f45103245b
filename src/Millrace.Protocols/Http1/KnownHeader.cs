// The field names a server meets all day, numbered, so that nobody compares their letters twice.
// Names only: what a field means is decided in FramingFields.cs (the six first) or by the application.

namespace Millrace.Protocols.Http1;

/// <summary>A usual request field name (RFC 9110 §18.4 and what browsers and proxies send). The six that frame a message come first.</summary>
public enum KnownHeader : byte
{
    /// <summary>Some other name.</summary>
    Other,

    /// <summary><c>Host</c></summary>
    Host,

    /// <summary><c>Connection</c></summary>
    Connection,

    /// <summary><c>Content-Length</c></summary>
    ContentLength,

    /// <summary><c>Transfer-Encoding</c></summary>
    TransferEncoding,

    /// <summary><c>Expect</c></summary>
    Expect,

    /// <summary><c>Upgrade</c></summary>
    Upgrade,

    /// <summary><c>Accept</c></summary>
    Accept,

    /// <summary><c>Accept-Charset</c></summary>
    AcceptCharset,

    /// <summary><c>Accept-Encoding</c></summary>
    AcceptEncoding,

    /// <summary><c>Accept-Language</c></summary>
    AcceptLanguage,

    /// <summary><c>Access-Control-Request-Headers</c></summary>
    AccessControlRequestHeaders,

    /// <summary><c>Access-Control-Request-Method</c></summary>
    AccessControlRequestMethod,

    /// <summary><c>Authorization</c></summary>
    Authorization,

    /// <summary><c>Baggage</c></summary>
    Baggage,

    /// <summary><c>Cache-Control</c></summary>
    CacheControl,

    /// <summary><c>Content-Encoding</c></summary>
    ContentEncoding,

    /// <summary><c>Content-Language</c></summary>
    ContentLanguage,

    /// <summary><c>Content-Location</c></summary>
    ContentLocation,

    /// <summary><c>Content-Range</c></summary>
    ContentRange,

    /// <summary><c>Content-Type</c></summary>
    ContentType,

    /// <summary><c>Cookie</c></summary>
    Cookie,

    /// <summary><c>Correlation-Context</c></summary>
    CorrelationContext,

    /// <summary><c>Date</c></summary>
    Date,

    /// <summary><c>DNT</c></summary>
    Dnt,

    /// <summary><c>Forwarded</c></summary>
    Forwarded,

    /// <summary><c>From</c></summary>
    From,

    /// <summary><c>If-Match</c></summary>
    IfMatch,

    /// <summary><c>If-Modified-Since</c></summary>
    IfModifiedSince,

    /// <summary><c>If-None-Match</c></summary>
    IfNoneMatch,

    /// <summary><c>If-Range</c></summary>
    IfRange,

    /// <summary><c>If-Unmodified-Since</c></summary>
    IfUnmodifiedSince,

    /// <summary><c>Keep-Alive</c></summary>
    KeepAlive,

    /// <summary><c>Max-Forwards</c></summary>
    MaxForwards,

    /// <summary><c>Origin</c></summary>
    Origin,

    /// <summary><c>Pragma</c></summary>
    Pragma,

    /// <summary><c>Priority</c></summary>
    Priority,

    /// <summary><c>Proxy-Authorization</c></summary>
    ProxyAuthorization,

    /// <summary><c>Proxy-Connection</c></summary>
    ProxyConnection,

    /// <summary><c>Range</c></summary>
    Range,

    /// <summary><c>Referer</c></summary>
    Referer,

    /// <summary><c>Request-Id</c></summary>
    RequestId,

    /// <summary><c>Sec-CH-UA</c></summary>
    SecChUA,

    /// <summary><c>Sec-CH-UA-Mobile</c></summary>
    SecChUAMobile,

    /// <summary><c>Sec-CH-UA-Platform</c></summary>
    SecChUAPlatform,

    /// <summary><c>Sec-Fetch-Dest</c></summary>
    SecFetchDest,

    /// <summary><c>Sec-Fetch-Mode</c></summary>
    SecFetchMode,

    /// <summary><c>Sec-Fetch-Site</c></summary>
    SecFetchSite,

    /// <summary><c>Sec-Fetch-User</c></summary>
    SecFetchUser,

    /// <summary><c>Sec-WebSocket-Extensions</c></summary>
    SecWebSocketExtensions,

    /// <summary><c>Sec-WebSocket-Key</c></summary>
    SecWebSocketKey,

    /// <summary><c>Sec-WebSocket-Protocol</c></summary>
    SecWebSocketProtocol,

    /// <summary><c>Sec-WebSocket-Version</c></summary>
    SecWebSocketVersion,

    /// <summary><c>TE</c></summary>
    TE,

    /// <summary><c>traceparent</c></summary>
    TraceParent,

    /// <summary><c>tracestate</c></summary>
    TraceState,

    /// <summary><c>Trailer</c></summary>
    Trailer,

    /// <summary><c>Translate</c></summary>
    Translate,

    /// <summary><c>Upgrade-Insecure-Requests</c></summary>
    UpgradeInsecureRequests,

    /// <summary><c>User-Agent</c></summary>
    UserAgent,

    /// <summary><c>Via</c></summary>
    Via,

    /// <summary><c>Warning</c></summary>
    Warning,

    /// <summary><c>X-Forwarded-For</c></summary>
    XForwardedFor,

    /// <summary><c>X-Forwarded-Host</c></summary>
    XForwardedHost,

    /// <summary><c>X-Forwarded-Port</c></summary>
    XForwardedPort,

    /// <summary><c>X-Forwarded-Proto</c></summary>
    XForwardedProto,

    /// <summary><c>X-Real-IP</c></summary>
    XRealIP,

    /// <summary><c>X-Request-ID</c></summary>
    XRequestId,

    /// <summary><c>X-Requested-With</c></summary>
    XRequestedWith,
}
