// Every reason for which the variables of a request are refused, and the status it becomes. Framing faults are in FastCgi/FastCgiFault.cs.
namespace Millrace.Protocols.Cgi;

/// <summary>Why a request cannot be served from its CGI variables. The request is answered; the connection goes on.</summary>
public enum CgiFault : byte
{
    /// <summary>No fault.</summary>
    None,

    /// <summary>More pairs than the limit. 431 (RFC 6585 §5).</summary>
    TooManyParameters,

    /// <summary>More variables that begin with HTTP_ than <see cref="CgiHead.HeaderCountMax"/>. 431 (RFC 6585 §5).</summary>
    TooManyHeaders,

    /// <summary>More bytes of PARAMS than the limit; raised by the connection, which counts them. 431 (RFC 6585 §5).</summary>
    ParametersTooLarge,

    /// <summary>FastCGI 1.0 §3.4: PARAMS end inside a pair, or its lengths cannot be. 400.</summary>
    BrokenPair,

    /// <summary>RFC 3875 §4.1: REQUEST_METHOD, REQUEST_URI, CONTENT_LENGTH, HTTP_HOST or MILLRACE_PATH is there twice with different values. 400.</summary>
    ParametersDisagree,

    /// <summary>RFC 3875 §4.1.12: REQUEST_METHOD is not there, or empty. 400.</summary>
    MethodMissing,

    /// <summary>RFC 9110 §9.1: REQUEST_METHOD is not a token. 400.</summary>
    MethodNotToken,

    /// <summary>Neither REQUEST_URI nor SCRIPT_NAME nor PATH_INFO says what is asked for. 400.</summary>
    TargetMissing,

    /// <summary>RFC 9112 §3.2: REQUEST_URI holds a byte outside %x21-7E, a fragment, a backslash in its path, or has a form its method does not allow. 400.</summary>
    TargetInvalid,

    /// <summary>REQUEST_URI is longer than <see cref="CgiHead.TargetLengthMax"/>. 414 (RFC 9110 §15.5.15).</summary>
    TargetTooLong,

    /// <summary>RFC 3986 §3.3: the path holds a segment "." or "..", raw or encoded. 400.</summary>
    DotSegments,

    /// <summary>The path for which the web server has chosen its rules is not the path of the target: MILLRACE_PATH, or a PATH_INFO that is an absolute target as a whole, or any absolute target of a web server that knows none. 400.</summary>
    PathDisagrees,

    /// <summary>RFC 9112 §3.2: HTTP_HOST is not empty and not a host with or without a port. 400.</summary>
    HostInvalid,

    /// <summary>RFC 9112 §3.2.3: HTTP_HOST names another server than the target of CONNECT. 400.</summary>
    HostDisagrees,

    /// <summary>RFC 9110 §8.6: CONTENT_LENGTH is neither empty, nor -1 (unknown), nor 1*DIGIT up to 2⁶³−1. 400.</summary>
    ContentLengthInvalid,

    /// <summary>RFC 9110 §5.5: a header's value, CONTENT_TYPE or SERVER_PROTOCOL holds CR, LF or NUL. 400.</summary>
    HeaderValueInvalid,

    /// <summary>RFC 3875 §4.1.18: a header's variable is there twice with different values, and may come from two headers: X-User, X_User and X.User are all HTTP_X_USER. 400.</summary>
    AmbiguousHeader,

    /// <summary>RFC 9110 §7.4: an absolute target says https and the connection of the client is not secured, or http and it is. 400.</summary>
    SchemeDisagrees,

    /// <summary>RFC 9110 §9.1: REQUEST_METHOD holds a lower-case letter: methods are case-sensitive and all known ones are upper-case, and applications take one for the other. 501.</summary>
    MethodCase,
}

/// <summary>What a <see cref="CgiFault"/> becomes on the wire.</summary>
public static class CgiFaults
{
    /// <summary>The status code that answers a request with this fault.</summary>
    /// <param name="fault">A fault other than <see cref="CgiFault.None"/>.</param>
    /// <returns>400, 414, 431 or 501.</returns>
    public static int StatusCode(this CgiFault fault) => fault switch
    {
        CgiFault.TooManyParameters or CgiFault.TooManyHeaders or CgiFault.ParametersTooLarge => 431,
        CgiFault.TargetTooLong => 414,
        CgiFault.MethodCase => 501,
        _ => 400,
    };
}
