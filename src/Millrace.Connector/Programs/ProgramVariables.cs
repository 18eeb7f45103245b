// From a request to the variables of a program (RFC 3875 §4.1), as nginx gives them with its fastcgi_params, so that what runs there runs here. What a visitor says reaches the program in HTTP_*
// variables alone, and each of these has one field that it can come from.

using System.Buffers;
using System.Globalization;
using System.Net;
using System.Text;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Net.Http.Headers;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connector;

internal static class ProgramVariables
{
    private const int PairMax = 512;

    private static readonly SearchValues<char> s_variableCharacters = SearchValues.Create("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");

    private static readonly HashSet<string> s_notPassed = new(StringComparer.OrdinalIgnoreCase)
    {
        "Proxy",                // HTTP_PROXY is an environment variable that programs believe (CVE-2016-5385)
        "Expect", "HTTP2-Settings", "Proxy-Authorization", "Trailer",
    };

    // What a front server says of a script is not so where the script is found here, and a target may be written in several ways; all else goes on as it was said.
    private static readonly HashSet<string> s_places = new(StringComparer.Ordinal)
    {
        "REQUEST_URI", "SCRIPT_NAME", "SCRIPT_FILENAME", "DOCUMENT_URI", "DOCUMENT_ROOT", "PATH_INFO", "PATH_TRANSLATED", "CONTENT_LENGTH", "MILLRACE_PATH",
    };

    private static readonly Dictionary<string, string> s_none = [];

    /// <summary>Writes PARAMS and their end.</summary>
    /// <param name="writer">Where to.</param>
    /// <param name="context">The request.</param>
    /// <param name="options">Root, names, further variables.</param>
    /// <param name="prefix">The part of the path that leads to the program; empty, or from '/' and without '/' at its end.</param>
    /// <param name="target">The script.</param>
    /// <param name="length">Bytes of the body; null: there is none.</param>
    /// <param name="given">What a front server has said over FastCGI, each character a byte; null: nothing. Without a root all of it goes on as it was said, but for what is written here; with one what is not the program's place.</param>
    public static void Write(
        RecordWriter writer, HttpContext context, FastCgiProgramOptions options, string prefix, in ScriptTarget target, long? length, IReadOnlyDictionary<string, string>? given = null)
    {
        writer.BeginStream(RecordType.Params);
        var written = new HashSet<string>(options.Variables.Keys, StringComparer.Ordinal);
        foreach (var (name, value) in given is null ? Of(context, options, prefix, target, length) : Own(given, context, options, prefix, target, length))
        {
            if (written.Add(name))
            {
                Pair(writer, name, value);
            }
        }
        foreach (var (name, value) in given ?? s_none)
        {
            if (!name.StartsWith("HTTP_", StringComparison.Ordinal) && !(options.Root is not null && s_places.Contains(name)) && written.Add(name))
            {
                GivenPair(writer, name, value);
            }
        }
        foreach (var (name, value) in options.Variables)
        {
            Pair(writer, name, value);
        }
        foreach (var (name, values) in context.Request.Headers)
        {
            if (Passes(name) && Variable(name) is var variable && !options.Variables.ContainsKey(variable))
            {
                if (values.Count == 1 && !name.Equals(HeaderNames.Host, StringComparison.OrdinalIgnoreCase) && given?.TryGetValue(variable, out string? one) == true)      // the host may be the target's
                {
                    GivenPair(writer, variable, one);
                    continue;
                }
                Pair(writer, variable, values.Count == 1 ? values.ToString() : string.Join(name.Equals("Cookie", StringComparison.OrdinalIgnoreCase) ? "; " : ", ", values.ToArray()));
            }
        }
        writer.EndStream(RecordType.Params);
    }

    private static IEnumerable<(string Name, string Value)> Of(HttpContext context, FastCgiProgramOptions options, string prefix, ScriptTarget target, long? length)
    {
        HttpRequest request = context.Request;
        ConnectionInfo connection = context.Connection;
        string script = prefix + target.Script;
        yield return ("GATEWAY_INTERFACE", "CGI/1.1");
        yield return ("SERVER_SOFTWARE", "millrace");
        yield return ("SERVER_PROTOCOL", request.Protocol);
        yield return ("REQUEST_METHOD", request.Method);
        yield return ("REQUEST_SCHEME", request.Scheme);
        if (request.IsHttps)
        {
            yield return ("HTTPS", "on");
        }
        yield return ("REQUEST_URI", UriOf(context));
        yield return ("QUERY_STRING", request.QueryString.HasValue ? request.QueryString.Value![1..] : "");
        yield return ("CONTENT_TYPE", request.ContentType ?? "");
        yield return ("CONTENT_LENGTH", length?.ToString(CultureInfo.InvariantCulture) ?? "");
        yield return ("SCRIPT_NAME", script);
        yield return ("DOCUMENT_URI", script + target.PathInfo);
        yield return ("PATH_INFO", target.PathInfo);
        if (options.Root is { } root)
        {
            string seen = Path.TrimEndingDirectorySeparator(options.ScriptRoot ?? root);
            yield return ("DOCUMENT_ROOT", seen);
            yield return ("SCRIPT_FILENAME", seen + target.Script);
            yield return ("REDIRECT_STATUS", "200");        // php-cgi asks for it (cgi.force_redirect)
            if (target.PathInfo.Length > 0)
            {
                yield return ("PATH_TRANSLATED", seen + target.PathInfo);
            }
        }
        string host = request.Headers.Host.ToString();      // as it was sent: HttpRequest.Host writes xn-- names in another way, or throws
        yield return ("SERVER_NAME", options.ServerName ?? RelayRoute.NameOf(host).ToString());
        int port = connection.LocalPort > 0 ? connection.LocalPort : RelayRoute.PortOf(host) ?? (request.IsHttps ? 443 : 80);
        yield return ("SERVER_PORT", port.ToString(CultureInfo.InvariantCulture));
        yield return ("SERVER_ADDR", Text(connection.LocalIpAddress));
        yield return ("REMOTE_ADDR", Text(connection.RemoteIpAddress));
        yield return ("REMOTE_PORT", connection.RemotePort > 0 ? connection.RemotePort.ToString(CultureInfo.InvariantCulture) : "");
        if (context.User.Identity is { IsAuthenticated: true, Name: { Length: > 0 } user })
        {
            yield return ("REMOTE_USER", user);
        }
    }

    // What is written here, whatever the front server has said.
    private static IEnumerable<(string Name, string Value)> Own(
        IReadOnlyDictionary<string, string> given, HttpContext context, FastCgiProgramOptions options, string prefix, ScriptTarget target, long? length)
    {
        if (options.Root is not null)
        {
            return Of(context, options, prefix, target, length).Where(pair => s_places.Contains(pair.Name) || !given.ContainsKey(pair.Name));
        }
        (string, string)[] always = [("CONTENT_LENGTH", length?.ToString(CultureInfo.InvariantCulture) ?? ""), ("REDIRECT_STATUS", given.GetValueOrDefault("REDIRECT_STATUS") ?? "200")];
        return target.File.Length > 0 ? [.. always, ("SCRIPT_FILENAME", target.File)] : always;
    }

    private static string Text(IPAddress? address) => address is null ? "" : (address.IsIPv4MappedToIPv6 ? address.MapToIPv4() : address).ToString();

    // X_User and X-User are one variable: whoever may not send the one must not get through with the other. So are all names with characters that a variable cannot have.
    private static bool Passes(string name) => !name.AsSpan().ContainsAnyExcept(s_variableCharacters) && !s_notPassed.Contains(name) && !ConnectionFields.Contains(name);

    private static string Variable(string field) => "HTTP_" + field.Replace('-', '_').ToUpperInvariant();

    // What the visitor has asked for, escapes and all; an absolute target without its scheme and host (RFC 9112 §3.2.2).
    private static string UriOf(HttpContext context)
    {
        string target = context.Features.Get<IHttpRequestFeature>()?.RawTarget ?? "";
        int authority = target.StartsWith('/') ? -1 : target.IndexOf("://", StringComparison.Ordinal);
        if (authority >= 0)
        {
            int path = target.AsSpan(authority + 3).IndexOfAny('/', '?');
            target = path < 0 ? "/" : target[(authority + 3 + path)..];
        }
        return target.StartsWith('/') ? target
            : context.Request.PathBase.ToUriComponent() + context.Request.Path.ToUriComponent() + context.Request.QueryString.ToUriComponent();
    }

    private static void Pair(RecordWriter writer, string name, string value) => Pair(writer, name, value, Encoding.UTF8);

    private static void GivenPair(RecordWriter writer, string name, string value) => Pair(writer, name, value, Encoding.Latin1);

    private static void Pair(RecordWriter writer, string name, string value, Encoding encoding)
    {
        Span<byte> bytes = stackalloc byte[PairMax];
        if (encoding.TryGetBytes(name, bytes, out int length) && encoding.TryGetBytes(value, bytes[length..], out int valueLength))
        {
            writer.AppendPair(bytes[..length], bytes.Slice(length, valueLength));
            return;
        }
        writer.AppendPair(encoding.GetBytes(name), encoding.GetBytes(value));
    }
}
