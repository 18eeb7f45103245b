namespace Millrace.AspNetCore;

/// <summary>What FastCGI says about a request beyond HTTP. Present in <c>HttpContext.Features</c> for requests that came by FastCGI.</summary>
public interface IFastCgiFeature
{
    /// <summary>All parameters as the front server sent them, the last of each name: REMOTE_USER, AUTH_TYPE, SSL_*, DOCUMENT_ROOT and its own.
    /// They are never put into the process environment.</summary>
    IReadOnlyDictionary<string, string> Parameters { get; }
}
