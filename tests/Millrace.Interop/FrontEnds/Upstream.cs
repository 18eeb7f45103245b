// What a front end is told about the application behind it. Not here: how the front end is configured for it.
namespace Millrace.Interop.FrontEnds;

/// <summary>The protocol between the front end and the application; the scheme of the application's address.</summary>
public enum AppProtocol
{
    FastCgi,
    Http,
}

/// <summary>The kind of socket between the front end and the application.</summary>
public enum Transport
{
    Tcp,
    Unix,
}

/// <summary>Whether the front end keeps its connections to the application for further requests.</summary>
public enum UpstreamConnections
{
    ClosedAfterEachRequest,
    KeptAlive,
}

/// <summary>One row of the table of combinations that the end-to-end list is run for.</summary>
public sealed record Combination(AppProtocol Protocol, Transport Transport, UpstreamConnections Connections);

/// <summary>The application's addresses, as it reported them after it was bound, and how to reach them.</summary>
/// <param name="Combination">Protocol, kind of socket, keep-alive.</param>
/// <param name="Addresses">For example <c>fastcgi://127.0.0.1:9000</c> or <c>http://unix:/run/app.sock</c>.</param>
public sealed record Upstream(Combination Combination, IReadOnlyList<string> Addresses)
{
    /// <summary>An address without scheme and query: <c>127.0.0.1:9000</c> or <c>unix:/run/app.sock</c>.</summary>
    public static string HostPart(string address)
    {
        int start = address.IndexOf("://", StringComparison.Ordinal) + 3;
        int end = address.IndexOf('?', start);
        return (end < 0 ? address[start..] : address[start..end]).TrimEnd('/');
    }
}
