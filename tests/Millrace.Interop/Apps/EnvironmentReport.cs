// What the application saw of a request: the answer of /env, written there and read by the tests.
using System.Net;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.AspNetCore;

namespace Millrace.Interop.Apps;

public sealed record EnvironmentReport(
    string Method,
    string RawTarget,
    string PathBase,
    string Path,
    string QueryString,
    string Scheme,
    string Host,
    string Protocol,
    string? RemoteAddress,
    int RemotePort,
    string? LocalAddress,
    int LocalPort,
    IReadOnlyDictionary<string, string[]> Query,
    IReadOnlyDictionary<string, string[]> Headers,
    string? RemoteUser)
{
    public static EnvironmentReport Of(HttpContext context)
    {
        HttpRequest request = context.Request;
        ConnectionInfo connection = context.Connection;
        return new EnvironmentReport(
            request.Method,
            context.Features.GetRequiredFeature<IHttpRequestFeature>().RawTarget,
            request.PathBase.Value ?? "",
            request.Path.Value ?? "",
            request.QueryString.Value ?? "",
            request.Scheme,
            request.Host.Value ?? "",
            request.Protocol,
            Text(connection.RemoteIpAddress),
            connection.RemotePort,
            Text(connection.LocalIpAddress),
            connection.LocalPort,
            request.Query.ToDictionary(static pair => pair.Key, static pair => Values(pair.Value)),
            request.Headers.ToDictionary(static pair => pair.Key, static pair => Values(pair.Value), StringComparer.OrdinalIgnoreCase),
            context.Features.Get<IFastCgiFeature>()?.Parameters is { } parameters ? $"{parameters.GetValueOrDefault("AUTH_TYPE")}{parameters.GetValueOrDefault("REMOTE_USER")}" : null);
    }

    /// <summary>All values of a header as one list, whether the front end joined repeated lines or not.</summary>
    public string? Header(string name) =>
        Headers.FirstOrDefault(pair => pair.Key.Equals(name, StringComparison.OrdinalIgnoreCase)).Value is string[] values
            ? string.Join(", ", values)
            : null;

    private static string? Text(IPAddress? address) => address?.ToString();

    private static string[] Values(Microsoft.Extensions.Primitives.StringValues values) => [.. values.Select(static value => value ?? "")];
}
