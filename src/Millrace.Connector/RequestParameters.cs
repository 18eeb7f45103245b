// From a request, whatever server it came in by, to the variables of the responder's (RFC 3875 §4.1). What a front server has said over FastCGI goes on as it
// was said; over HTTP the variables are made of the request. Header fields are taken from the request in both cases: variables alone would lose repeated ones.

using System.Globalization;
using System.Text;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.Primitives;
using Microsoft.Net.Http.Headers;
using Millrace.Platform;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connector;

internal static class RequestParameters
{
    /// <summary>SERVER_SOFTWARE (RFC 3875 §4.1.17) of a request that has come over HTTP: the router is its web server, and what a script says to one is not for its client.</summary>
    public const string Software = "millrace-router";

    private const string SoftwareVariable = "SERVER_SOFTWARE";

    // Variables that are written here, whatever the front server has said.
    private static readonly HashSet<string> s_ownVariables = new(StringComparer.Ordinal)
    {
        "SCRIPT_NAME", "PATH_INFO", "PATH_TRANSLATED", "CONTENT_LENGTH", "CONTENT_TYPE", "REQUEST_METHOD",
    };

    /// <summary>Writes PARAMS and their end.</summary>
    /// <param name="writer">Where to.</param>
    /// <param name="context">The request.</param>
    /// <param name="prefix">The path that leads to the responder: empty, or '/' and segments, without a '/' at its end. A part of the request's path.</param>
    /// <param name="key">By which the responder knows its router; null where it asks for none.</param>
    /// <param name="parameters">The variables of a front server that speaks FastCGI, or null.</param>
    public static void Write(RecordWriter writer, HttpContext context, string prefix, string? key, IReadOnlyDictionary<string, string>? parameters)
    {
        HttpRequest request = context.Request;
        writer.BeginStream(RecordType.Params);
        Pair(writer, "REQUEST_METHOD", request.Method);
        if (parameters is { Count: > 0 })
        {
            foreach (var (name, value) in parameters)
            {
                if (!name.StartsWith("HTTP_", StringComparison.Ordinal) && !s_ownVariables.Contains(name))
                {
                    Pair(writer, name, value);
                }
            }
        }
        else
        {
            WriteMade(writer, context);
        }
        Pair(writer, "SCRIPT_NAME", prefix);
        Pair(writer, "PATH_INFO", (request.Path.Value ?? "")[prefix.Length..]);
        WriteFields(writer, request, isFromHttp: parameters is not { Count: > 0 });
        if (prefix.Length > 0 && key is not null)
        {
            Field(writer, RoutedBy.Field, RoutedBy.Value(key, prefix));
        }
        writer.EndStream(RecordType.Params);
    }

    /// <summary>Whether variables are a web server's, and not a router's.</summary>
    public static bool AreOfWebServer(IReadOnlyDictionary<string, string>? parameters) => parameters is not null && parameters.GetValueOrDefault(SoftwareVariable) != Software;

    private static void WriteMade(RecordWriter writer, HttpContext context)
    {
        HttpRequest request = context.Request;
        ConnectionInfo connection = context.Connection;
        Pair(writer, "GATEWAY_INTERFACE", "CGI/1.1");
        Pair(writer, SoftwareVariable, Software);
        Pair(writer, "REQUEST_URI", context.Features.GetRequiredFeature<IHttpRequestFeature>().RawTarget);
        Pair(writer, "QUERY_STRING", request.QueryString.HasValue ? request.QueryString.Value![1..] : "");
        Pair(writer, "SERVER_PROTOCOL", request.Protocol);
        Pair(writer, "REQUEST_SCHEME", request.Scheme);
        if (request.IsHttps)
        {
            Pair(writer, "HTTPS", "on");
        }
        string host = request.Headers.Host.ToString();
        if (host.Length > 0)
        {
            Pair(writer, "SERVER_NAME", RelayRoute.NameOf(host).ToString());
        }
        if (connection.LocalIpAddress is { } local)
        {
            Pair(writer, "SERVER_ADDR", local.ToString());
        }
        int port = connection.LocalPort > 0 ? connection.LocalPort : RelayRoute.PortOf(host) ?? (request.IsHttps ? 443 : 80);
        Number(writer, "SERVER_PORT", port);
        if (connection.RemoteIpAddress is { } remote)
        {
            Pair(writer, "REMOTE_ADDR", remote.ToString());
            Number(writer, "REMOTE_PORT", connection.RemotePort);
        }
    }

    private static void WriteFields(RecordWriter writer, HttpRequest request, bool isFromHttp)
    {
        foreach (var (name, values) in request.Headers)
        {
            // X_User and X-User are one variable: whoever may not send the one must not get through with the other. Expect has been answered by whoever has the client.
            if (!(isFromHttp && name.Contains('_', StringComparison.Ordinal)) && !IsAny(name, HeaderNames.Expect, "HTTP2-Settings", RoutedBy.Field))
            {
                Field(writer, name, values);
            }
        }
        if (request.ContentType is { } type)
        {
            Pair(writer, "CONTENT_TYPE", type);
        }
        if (request.ContentLength is { } length)
        {
            Number(writer, "CONTENT_LENGTH", length);
        }
    }

    private static bool IsAny(string name, params ReadOnlySpan<string> names)
    {
        foreach (string other in names)
        {
            if (name.Equals(other, StringComparison.OrdinalIgnoreCase))
            {
                return true;
            }
        }
        return false;
    }

    // User-Agent is HTTP_USER_AGENT. What a responder drops of variables is not sent.
    private static void Field(RecordWriter writer, string name, StringValues values)
    {
        Span<byte> variable = name.Length <= 250 ? stackalloc byte[256] : new byte[name.Length + 5];
        "HTTP_"u8.CopyTo(variable);
        int length = 5;
        foreach (char c in name)
        {
            variable[length++] = c == '-' ? (byte)'_' : (byte)char.ToUpperInvariant(c);
        }
        for (int i = 0; i < values.Count && HeaderFilter.Judge(variable[5..length]) != HeaderFate.Drop; i++)
        {
            Pair(writer, variable[..length], values[i] ?? "");
        }
    }

    private static void Number(RecordWriter writer, string name, long value) => Pair(writer, name, value.ToString(CultureInfo.InvariantCulture));

    private static void Pair(RecordWriter writer, string name, string value)
    {
        Span<byte> bytes = name.Length <= 256 ? stackalloc byte[Encoding.UTF8.GetMaxByteCount(Math.Min(name.Length, 256))] : new byte[Encoding.UTF8.GetMaxByteCount(name.Length)];
        Pair(writer, bytes[..Encoding.UTF8.GetBytes(name, bytes)], value);
    }

    private static void Pair(RecordWriter writer, scoped ReadOnlySpan<byte> name, string value)
    {
        int max = Encoding.UTF8.GetMaxByteCount(value.Length);
        byte[]? rented = max <= 1024 ? null : BufferPool.Rent(max);
        Span<byte> bytes = rented ?? stackalloc byte[1024];
        writer.AppendPair(name, bytes[..Encoding.UTF8.GetBytes(value, bytes)]);
        if (rented is not null)
        {
            BufferPool.Return(rented);
        }
    }
}
