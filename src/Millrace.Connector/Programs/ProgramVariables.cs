// From a request to the variables of a program (RFC 3875 §4.1), as nginx gives them with its fastcgi_params, so that what runs there runs here. What a visitor says reaches the program in HTTP_*
// variables alone, and each of these has one field that it can come from.

using System.Buffers;
using System.Collections.Frozen;
using System.Globalization;
using System.Net;
using System.Text;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Http.Features.Authentication;
using Microsoft.Extensions.Primitives;
using Microsoft.Net.Http.Headers;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connector;

internal static class ProgramVariables
{
    private const int PairMax = 512;
    private const int PlaceMax = 256;
    private const int DigitsMax = 20;

    private static readonly SearchValues<char> s_variableCharacters = SearchValues.Create("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");

    private static readonly FrozenSet<string> s_notPassed = FrozenSet.Create(
        StringComparer.OrdinalIgnoreCase,
        [
            "Proxy",                // HTTP_PROXY is an environment variable that programs believe (CVE-2016-5385)
            "Expect", "HTTP2-Settings", "Proxy-Authorization", "Trailer",
            .. ConnectionFields.Names,
        ]);

    // What a front server says of a script is not so where the script is found here, and a target may be written in several ways; all else goes on as it was said.
    private static readonly FrozenSet<string> s_places = FrozenSet.Create(
        StringComparer.Ordinal,
        ["REQUEST_URI", "SCRIPT_NAME", "SCRIPT_FILENAME", "DOCUMENT_URI", "DOCUMENT_ROOT", "PATH_INFO", "PATH_TRANSLATED", "CONTENT_LENGTH", "MILLRACE_PATH"]);

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
        var pairs = new OwnPairs(writer, options, given);
        if (given is null || options.Root is not null)
        {
            WriteOwn(pairs, context, options, prefix, target, length);
        }
        else
        {
            pairs.Add("CONTENT_LENGTH", length);
            pairs.Add("REDIRECT_STATUS", "200");
            if (target.File.Length > 0)
            {
                pairs.Add("SCRIPT_FILENAME", target.File);
            }
        }
        foreach (var (name, value) in given ?? s_none)
        {
            bool isOwn = options.Root is not null ? s_places.Contains(name) : name is "CONTENT_LENGTH" || (name is "SCRIPT_FILENAME" && target.File.Length > 0);
            if (!isOwn && !name.StartsWith("HTTP_", StringComparison.Ordinal) && !options.Variables.ContainsKey(name))
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
            if (Passes(name))
            {
                WriteField(writer, options, given, name, values);
            }
        }
        writer.EndStream(RecordType.Params);
    }

    private static void WriteOwn(in OwnPairs pairs, HttpContext context, FastCgiProgramOptions options, string prefix, in ScriptTarget target, long? length)
    {
        HttpRequest request = context.Request;
        var ends = VisitorEnds.Of(context);
        string script = prefix + target.Script;
        pairs.Add("GATEWAY_INTERFACE", "CGI/1.1");
        pairs.Add("SERVER_SOFTWARE", "millrace");
        pairs.Add("SERVER_PROTOCOL", request.Protocol);
        pairs.Add("REQUEST_METHOD", request.Method);
        pairs.Add("REQUEST_SCHEME", request.Scheme);
        if (request.IsHttps)
        {
            pairs.Add("HTTPS", "on");
        }
        pairs.Add("REQUEST_URI", UriOf(context));
        pairs.Add("QUERY_STRING", request.QueryString.HasValue ? request.QueryString.Value![1..] : "");
        pairs.Add("CONTENT_TYPE", request.ContentType ?? "");
        pairs.Add("CONTENT_LENGTH", length);
        pairs.Add("SCRIPT_NAME", script);
        pairs.Add("DOCUMENT_URI", script, target.PathInfo);
        pairs.Add("PATH_INFO", target.PathInfo);
        if (options.Root is { } root)
        {
            string seen = Path.TrimEndingDirectorySeparator(options.ScriptRoot ?? root);
            pairs.Add("DOCUMENT_ROOT", seen);
            pairs.Add("SCRIPT_FILENAME", seen + target.Script);
            pairs.Add("REDIRECT_STATUS", "200");        // php-cgi asks for it (cgi.force_redirect)
            if (target.PathInfo.Length > 0)
            {
                pairs.Add("PATH_TRANSLATED", seen + target.PathInfo);
            }
        }
        string host = request.Headers.Host.ToString();      // as it was sent: HttpRequest.Host writes xn-- names in another way, or throws
        pairs.Add("SERVER_NAME", options.ServerName ?? RelayRoute.NameOf(host));
        int port = ends.LocalPort > 0 ? ends.LocalPort : RelayRoute.PortOf(host) ?? (request.IsHttps ? 443 : 80);
        pairs.Add("SERVER_PORT", port);
        pairs.Add("SERVER_ADDR", Text(ends.Local));
        pairs.Add("REMOTE_ADDR", Text(ends.Remote));
        pairs.Add("REMOTE_PORT", ends.RemotePort > 0 ? ends.RemotePort : null);
        if (context.Features.Get<IHttpAuthenticationFeature>()?.User?.Identity is { IsAuthenticated: true, Name: { Length: > 0 } user })      // HttpContext.User would make one for each visitor
        {
            pairs.Add("REMOTE_USER", user);
        }
    }

    // A field of the request. The usual one goes without a string for the name of its variable.
    private static void WriteField(RecordWriter writer, FastCgiProgramOptions options, IReadOnlyDictionary<string, string>? given, string name, StringValues values)
    {
        if (given is null && options.Variables.Count == 0 && values.Count == 1 && writer.TryAppendField(name, values.ToString()))
        {
            return;
        }
        string variable = "HTTP_" + name.Replace('-', '_').ToUpperInvariant();
        if (options.Variables.ContainsKey(variable))
        {
            return;
        }
        if (values.Count == 1 && !name.Equals(HeaderNames.Host, StringComparison.OrdinalIgnoreCase) && given?.TryGetValue(variable, out string? one) == true)      // the host may be the target's
        {
            GivenPair(writer, variable, one);
            return;
        }
        Pair(writer, variable, values.Count == 1 ? values.ToString() : string.Join(name.Equals("Cookie", StringComparison.OrdinalIgnoreCase) ? "; " : ", ", values.ToArray()));
    }

    private static string Text(IPAddress? address) => address is null ? "" : (address.IsIPv4MappedToIPv6 ? address.MapToIPv4() : address).ToString();

    // X_User and X-User are one variable: whoever may not send the one must not get through with the other. So are all names with characters that a variable cannot have.
    private static bool Passes(string name) => !name.AsSpan().ContainsAnyExcept(s_variableCharacters) && !s_notPassed.Contains(name);

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

    private static void Pair(RecordWriter writer, string name, ReadOnlySpan<char> value) => Pair(writer, name, value, Encoding.UTF8);

    private static void GivenPair(RecordWriter writer, string name, string value) => Pair(writer, name, value, Encoding.Latin1);

    private static void Pair(RecordWriter writer, string name, ReadOnlySpan<char> value, Encoding encoding)
    {
        if (!writer.TryAppendPair(name, value))
        {
            EncodedPair(writer, name, value, encoding);
        }
    }

    private static void EncodedPair(RecordWriter writer, string name, ReadOnlySpan<char> value, Encoding encoding)
    {
        Span<byte> bytes = stackalloc byte[PairMax];
        if (encoding.TryGetBytes(name, bytes, out int length) && encoding.TryGetBytes(value, bytes[length..], out int valueLength))
        {
            writer.AppendPair(bytes[..length], bytes.Slice(length, valueLength));
            return;
        }
        writer.AppendPair(encoding.GetBytes(name), encoding.GetBytes(value.ToString()));
    }

    // What is written here gives way to the application's own variables, and to a front server's where they are not of the program's place.
    private readonly struct OwnPairs(RecordWriter writer, FastCgiProgramOptions options, IReadOnlyDictionary<string, string>? given)
    {
        private readonly bool _areAll = given is null && options.Variables.Count == 0;

        public void Add(string name, ReadOnlySpan<char> value)
        {
            if (_areAll || (!options.Variables.ContainsKey(name) && (given is null || s_places.Contains(name) || !given.ContainsKey(name))))
            {
                Pair(writer, name, value);
            }
        }

        /// <summary>Null: an empty one.</summary>
        public void Add(string name, long? number)
        {
            Span<char> digits = stackalloc char[DigitsMax];
            int count = 0;
            _ = number?.TryFormat(digits, out count, provider: CultureInfo.InvariantCulture);
            Add(name, digits[..count]);
        }

        /// <summary>A value in two parts.</summary>
        public void Add(string name, string first, string second)
        {
            Span<char> value = stackalloc char[PlaceMax];
            if (first.TryCopyTo(value) && second.TryCopyTo(value[first.Length..]))
            {
                Add(name, value[..(first.Length + second.Length)]);
                return;
            }
            Add(name, first + second);
        }
    }
}
