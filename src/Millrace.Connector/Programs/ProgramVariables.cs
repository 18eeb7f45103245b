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

    private static readonly OwnName s_gatewayInterface = new("GATEWAY_INTERFACE");
    private static readonly OwnName s_serverSoftware = new("SERVER_SOFTWARE");
    private static readonly OwnName s_serverProtocol = new("SERVER_PROTOCOL");
    private static readonly OwnName s_requestMethod = new("REQUEST_METHOD");
    private static readonly OwnName s_requestScheme = new("REQUEST_SCHEME");
    private static readonly OwnName s_https = new("HTTPS");
    private static readonly OwnName s_requestUri = new("REQUEST_URI");
    private static readonly OwnName s_queryString = new("QUERY_STRING");
    private static readonly OwnName s_contentType = new("CONTENT_TYPE");
    private static readonly OwnName s_contentLength = new("CONTENT_LENGTH");
    private static readonly OwnName s_scriptName = new("SCRIPT_NAME");
    private static readonly OwnName s_documentUri = new("DOCUMENT_URI");
    private static readonly OwnName s_pathInfo = new("PATH_INFO");
    private static readonly OwnName s_documentRoot = new("DOCUMENT_ROOT");
    private static readonly OwnName s_scriptFilename = new("SCRIPT_FILENAME");
    private static readonly OwnName s_redirectStatus = new("REDIRECT_STATUS");
    private static readonly OwnName s_pathTranslated = new("PATH_TRANSLATED");
    private static readonly OwnName s_serverName = new("SERVER_NAME");
    private static readonly OwnName s_serverPort = new("SERVER_PORT");
    private static readonly OwnName s_serverAddr = new("SERVER_ADDR");
    private static readonly OwnName s_remoteAddr = new("REMOTE_ADDR");
    private static readonly OwnName s_remotePort = new("REMOTE_PORT");
    private static readonly OwnName s_remoteUser = new("REMOTE_USER");

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
            pairs.Add(s_contentLength, length);
            pairs.Add(s_redirectStatus, "200");
            if (target.File.Length > 0)
            {
                pairs.Add(s_scriptFilename, target.File);
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
        pairs.Add(s_gatewayInterface, "CGI/1.1");
        pairs.Add(s_serverSoftware, "millrace");
        pairs.Add(s_serverProtocol, request.Protocol);
        pairs.Add(s_requestScheme, request.Scheme);
        pairs.Add(s_requestMethod, request.Method);
        if (request.IsHttps)
        {
            pairs.Add(s_https, "on");
        }
        pairs.Add(s_requestUri, UriOf(context));
        pairs.Add(s_queryString, request.QueryString.HasValue ? request.QueryString.Value![1..] : "");
        pairs.Add(s_contentType, request.ContentType ?? "");
        pairs.Add(s_contentLength, length);
        pairs.Add(s_scriptName, script);
        pairs.Add(s_documentUri, script, target.PathInfo);
        pairs.Add(s_pathInfo, target.PathInfo);
        if (options.Root is { } root)
        {
            string seen = Path.TrimEndingDirectorySeparator(options.ScriptRoot ?? root);
            pairs.Add(s_documentRoot, seen);
            pairs.Add(s_scriptFilename, seen + target.Script);
            pairs.Add(s_redirectStatus, "200");        // php-cgi asks for it (cgi.force_redirect)
            if (target.PathInfo.Length > 0)
            {
                pairs.Add(s_pathTranslated, seen + target.PathInfo);
            }
        }
        string host = request.Headers.Host.ToString();      // as it was sent: HttpRequest.Host writes xn-- names in another way, or throws
        pairs.Add(s_serverName, options.ServerName ?? RelayRoute.NameOf(host));
        int port = ends.LocalPort > 0 ? ends.LocalPort : RelayRoute.PortOf(host) ?? (request.IsHttps ? 443 : 80);
        pairs.Add(s_serverPort, port);
        pairs.Add(s_serverAddr, Text(ends.Local));
        pairs.Add(s_remoteAddr, Text(ends.Remote));
        pairs.Add(s_remotePort, ends.RemotePort > 0 ? ends.RemotePort : null);
        if (context.AsMade() is null && context.Features.Get<IHttpAuthenticationFeature>()?.User?.Identity is { IsAuthenticated: true, Name: { Length: > 0 } user })      // HttpContext.User would make one for each visitor
        {
            pairs.Add(s_remoteUser, user);
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
        string target = context.RawTarget() ?? "";
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

    // A name that is the same for each request.
    private sealed class OwnName(string text)
    {
        public string Text => text;

        public byte[] Bytes { get; } = Encoding.ASCII.GetBytes(text);
    }

    // What is written here gives way to the application's own variables, and to a front server's where they are not of the program's place.
    private readonly struct OwnPairs(RecordWriter writer, FastCgiProgramOptions options, IReadOnlyDictionary<string, string>? given)
    {
        private readonly bool _areAll = given is null && options.Variables.Count == 0;

        public void Add(OwnName name, ReadOnlySpan<char> value)
        {
            if ((_areAll || GivesItsOwn(name.Text)) && !writer.TryAppendPair(name.Bytes, value))
            {
                EncodedPair(writer, name.Text, value, Encoding.UTF8);
            }
        }

        private bool GivesItsOwn(string name) => !options.Variables.ContainsKey(name) && (given is null || s_places.Contains(name) || !given.ContainsKey(name));

        /// <summary>Null: an empty one.</summary>
        public void Add(OwnName name, long? number)
        {
            Span<char> digits = stackalloc char[DigitsMax];
            int count = 0;
            _ = number?.TryFormat(digits, out count, provider: CultureInfo.InvariantCulture);
            Add(name, digits[..count]);
        }

        /// <summary>A value in two parts.</summary>
        public void Add(OwnName name, string first, string second)
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
