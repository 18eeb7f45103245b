// RFC 3875: what the variables of a request mean. Reads one whole PARAMS stream and says where everything lies in it; no strings, no copies, no I/O.
using Millrace.Protocols.FastCgi;
using Millrace.Protocols.Text;

namespace Millrace.Protocols.Cgi;

/// <summary>
/// The head of a request that came as CGI variables. One object serves many requests: after the first few it allocates nothing. All places are offsets into the
/// stream given to <see cref="Read"/>.
/// </summary>
public sealed class CgiHead
{
    private const int HttpPrefixLength = 5;
    private const int InitialCapacity = 64;

    private readonly RepeatedHeaders _repeated = new();
    private CgiVariableValues _values;
    private PairRange[] _parameters = new PairRange[InitialCapacity];
    private HeaderSlice[] _headers = new HeaderSlice[InitialCapacity];
    private int _parameterCount;
    private int _headerCount;
    private int _fieldCount;    // those that were dropped too
    private int _hostIndex;     // of Host among the headers, -1 where it is not there

    /// <summary>Most bytes of REQUEST_URI; longer ones are answered with 414. Kept by <see cref="Reset"/>.</summary>
    public int TargetLengthMax { get; set; } = 16 * 1024;

    /// <summary>Most variables that begin with HTTP_, whatever becomes of them; more are answered with 431. Kept by <see cref="Reset"/>.</summary>
    public int HeaderCountMax { get; set; } = 100;

    /// <summary>Whether a path with dot segments is refused (<see cref="DotSegment"/>). Kept by <see cref="Reset"/>.</summary>
    public bool RefusesDotSegments { get; set; } = true;

    /// <summary>What is done with headers that are there more than once. Kept by <see cref="Reset"/>.</summary>
    public HeaderRepeats Repeats { get; set; }

    /// <summary>Whether a router of shared addresses is among those who send requests: without one nobody is believed to be one. Kept by <see cref="Reset"/>.</summary>
    public bool IsRouted { get; set; }

    /// <summary>REQUEST_METHOD: a token.</summary>
    public Slice Method => _values[(int)CgiVariable.RequestMethod];

    /// <summary>REQUEST_URI: the target as the client sent it. Not present or empty in front servers that do not send it; see <see cref="TargetPath.Rebuild"/>.</summary>
    public Slice RequestUri => _values[(int)CgiVariable.RequestUri];

    /// <summary>SCRIPT_NAME, decoded by the web server (RFC 3875 §4.1.13).</summary>
    public Slice ScriptName => _values[(int)CgiVariable.ScriptName];

    /// <summary>PATH_INFO, decoded by the web server (RFC 3875 §4.1.5).</summary>
    public Slice PathInfo => _values[(int)CgiVariable.PathInfo];

    /// <summary>QUERY_STRING, as sent, without the question mark (RFC 3875 §4.1.7).</summary>
    public Slice QueryString => _values[(int)CgiVariable.QueryString];

    /// <summary>SERVER_PROTOCOL, for instance <c>HTTP/1.1</c>: the protocol between client and web server (RFC 3875 §4.1.16).</summary>
    public Slice Protocol => _values[(int)CgiVariable.ServerProtocol];

    /// <summary>Whom the request is for, empty or valid: the authority of the target if it has one (RFC 9112 §3.2.2, §3.2.3), else HTTP_HOST.</summary>
    public Slice Host => _values[(int)CgiVariable.HttpHost];

    /// <summary>The target says the host, and there is no HTTP_HOST (HTTP/1.0).</summary>
    public bool HasHostInTargetOnly => _hostIndex < 0 && Host.Length > 0;

    /// <summary>SERVER_NAME, not validated: empty, HTML-escaped or with a port in some front servers.</summary>
    public Slice ServerName => _values[(int)CgiVariable.ServerName];

    /// <summary>SERVER_PORT, not validated.</summary>
    public Slice ServerPort => _values[(int)CgiVariable.ServerPort];

    /// <summary>SERVER_ADDR, not validated; the path of a Unix socket in some front servers.</summary>
    public Slice ServerAddress => _values[(int)CgiVariable.ServerAddress];

    /// <summary>REMOTE_ADDR, not validated.</summary>
    public Slice RemoteAddress => _values[(int)CgiVariable.RemoteAddress];

    /// <summary>REMOTE_PORT, not validated.</summary>
    public Slice RemotePort => _values[(int)CgiVariable.RemotePort];

    /// <summary>CONTENT_TYPE; empty counts as absent (RFC 3875 §4.1.3).</summary>
    public Slice ContentType => _values[(int)CgiVariable.ContentType];

    /// <summary>CONTENT_LENGTH in bytes; -1 where it is absent or empty (RFC 3875 §4.1.2).</summary>
    public long ContentLength { get; private set; } = -1;

    /// <summary>Whether HTTPS is on, 1 or true in any case, or REQUEST_SCHEME is https.</summary>
    public bool IsHttps { get; private set; }

    /// <summary>Request headers in the order they came, repeated ones too; without those that end at the web server. CONTENT_TYPE and CONTENT_LENGTH are not among them.</summary>
    public ReadOnlySpan<HeaderSlice> Headers => _headers.AsSpan(0, _headerCount);

    /// <summary>All variables in the order they came.</summary>
    public ReadOnlySpan<PairRange> Parameters => _parameters.AsSpan(0, _parameterCount);

    /// <summary>Forgets the last request and keeps the room it took.</summary>
    public void Reset()
    {
        _values = default;
        _parameterCount = 0;
        _headerCount = _fieldCount = 0;
        _hostIndex = -1;
        ContentLength = -1;
        IsHttps = false;
    }

    /// <summary>Reads the variables of one request; what was read before is forgotten.</summary>
    /// <param name="parameters">The contents of all PARAMS records of the request, joined.</param>
    /// <param name="maxParameters">Most pairs that are taken.</param>
    /// <returns><see cref="CgiFault.None"/>, or the first fault that was found; then the properties say what was read up to there.</returns>
    public CgiFault Read(ReadOnlySpan<byte> parameters, int maxParameters)
    {
        Reset();
        int position = 0;
        while (position < parameters.Length)
        {
            if (NameValuePairs.Read(parameters, position, out PairRange pair, out position, out _) != ReadResult.Done)
            {
                return CgiFault.BrokenPair;
            }

            if (_parameterCount == maxParameters)
            {
                return CgiFault.TooManyParameters;
            }

            CgiFault fault = Take(parameters, pair);
            if (fault != CgiFault.None)
            {
                return fault;
            }
        }

        return Judge(parameters);
    }

    private CgiFault Take(ReadOnlySpan<byte> parameters, PairRange pair)
    {
        if (_parameterCount == _parameters.Length)
        {
            Array.Resize(ref _parameters, 2 * _parameters.Length);
        }

        _parameters[_parameterCount++] = pair;
        ReadOnlySpan<byte> name = pair.NameIn(parameters);
        if (name.StartsWith("HTTP_"u8))
        {
            return TakeHeader(parameters, pair);
        }

        CgiVariable variable = CgiVariableNames.Recognise(name);
        return variable == CgiVariable.Other ? CgiFault.None : TakeVariable(parameters, variable, new Slice(pair.ValueStart, pair.ValueLength));
    }

    // The last value counts, as it does to PHP: an administrator overrides a line of the included fastcgi_params below it. One that differs is refused where two
    // readers could take the request for two different ones.
    private CgiFault TakeVariable(ReadOnlySpan<byte> parameters, CgiVariable variable, Slice value)
    {
        ref Slice slot = ref _values[(int)variable];
        if (slot.IsPresent && variable < CgiVariable.ScriptName && !slot.In(parameters).SequenceEqual(value.In(parameters)))
        {
            return CgiFault.ParametersDisagree;
        }

        slot = value;
        return CgiFault.None;
    }

    private CgiFault TakeHeader(ReadOnlySpan<byte> parameters, PairRange pair)
    {
        if (++_fieldCount > HeaderCountMax)
        {
            return CgiFault.TooManyHeaders;
        }

        var header = new HeaderSlice(pair.NameStart + HttpPrefixLength, pair.NameLength - HttpPrefixLength, pair.ValueStart, pair.ValueLength);
        HeaderFate fate = HeaderFilter.Judge(header.NameIn(parameters));
        if (fate == HeaderFate.Drop)
        {
            return CgiFault.None;
        }

        if (fate == HeaderFate.Host)
        {
            bool isRepeated = Host.IsPresent;
            CgiFault fault = TakeVariable(parameters, CgiVariable.HttpHost, new Slice(pair.ValueStart, pair.ValueLength));
            if (isRepeated)
            {
                return fault;
            }

            _hostIndex = _headerCount;
        }
        else if (!Ascii.IsFieldValue(header.ValueIn(parameters)))
        {
            return CgiFault.HeaderValueInvalid;
        }

        if (_headerCount == _headers.Length)
        {
            Array.Resize(ref _headers, 2 * _headers.Length);
        }

        _headers[_headerCount++] = header;
        return CgiFault.None;
    }

    private CgiFault Judge(ReadOnlySpan<byte> parameters)
    {
        ReadOnlySpan<byte> method = Method.In(parameters);
        if (method.IsEmpty)
        {
            return CgiFault.MethodMissing;
        }

        if (!Ascii.IsToken(method))
        {
            return CgiFault.MethodNotToken;
        }

        if (method.ContainsAnyInRange((byte)'a', (byte)'z'))
        {
            return CgiFault.MethodCase;
        }

        CgiFault fault = JudgeTarget(parameters, method);
        if (fault != CgiFault.None)
        {
            return fault;
        }

        IsHttps = SaysHttps(parameters);
        fault = JudgeHost(parameters, method);
        if (fault != CgiFault.None)
        {
            return fault;
        }

        if (!Ascii.IsFieldValue(ContentType.In(parameters)) || !Ascii.IsFieldValue(Protocol.In(parameters)))
        {
            return CgiFault.HeaderValueInvalid;
        }

        ReadOnlySpan<byte> software = _values[(int)CgiVariable.ServerSoftware].In(parameters);
        if (!(IsRouted && RepeatedHeaders.AreLines(software)) && _repeated.AreAmbiguous(parameters, Headers, Repeats, RepeatedHeaders.IsJoining(software)))
        {
            return CgiFault.AmbiguousHeader;
        }

        return ReadContentLength(parameters);
    }

    // RFC 9112 §3.2.2: the authority of an absolute target stands in for whatever Host says. §3.2.3: CONNECT has none but its target's.
    private CgiFault JudgeHost(ReadOnlySpan<byte> parameters, ReadOnlySpan<byte> method)
    {
        ReadOnlySpan<byte> host = Host.In(parameters);
        if (!host.IsEmpty && !HostValue.IsValid(host))
        {
            return CgiFault.HostInvalid;
        }

        ReadOnlySpan<byte> target = RequestUri.In(parameters);
        Slice authority;
        if (method.SequenceEqual("CONNECT"u8) && !target.IsEmpty)
        {
            if (!host.IsEmpty && !RequestTarget.IsSameAuthority(target, host))
            {
                return CgiFault.HostDisagrees;
            }

            authority = RequestUri;
        }
        else
        {
            int start = TargetPath.AuthorityStart(target);
            if (start == 0)
            {
                return CgiFault.None;
            }

            CgiFault fault = JudgeAbsolute(target[..start], parameters);
            if (fault != CgiFault.None)
            {
                return fault;
            }

            int length = target[start..].IndexOfAny((byte)'/', (byte)'?');
            authority = new Slice(RequestUri.Start + start, length < 0 ? target.Length - start : length);
            if (_hostIndex >= 0)
            {
                _headers[_hostIndex] = _headers[_hostIndex] with { ValueStart = authority.Start, ValueLength = authority.Length };
            }
        }

        _values[(int)CgiVariable.HttpHost] = authority;
        return CgiFault.None;
    }

    // A web server that takes an absolute target for something else has chosen site and rules for something else. Apache goes by Host where the scheme is not
    // that of the connection; H2O 2.2 knows no absolute targets and makes a path of the whole: "/http://host/path", or "/http:/path" of "http://../path". Caddy sends none but
    // what is left of "x:http://host/path", for which it has found neither path nor host.
    private CgiFault JudgeAbsolute(ReadOnlySpan<byte> schemeAndSlashes, ReadOnlySpan<byte> parameters)
    {
        if ((schemeAndSlashes.Length == "https://".Length) != IsHttps)
        {
            return CgiFault.SchemeDisagrees;
        }

        ReadOnlySpan<byte> path = PathInfo.In(parameters);
        bool isWhole = path.Length > schemeAndSlashes.Length && path[0] == '/' && path[1..].StartsWith(schemeAndSlashes[..^1]);
        return isWhole || KnowsNoAbsolute(_values[(int)CgiVariable.ServerSoftware].In(parameters)) ? CgiFault.PathDisagrees : CgiFault.None;
    }

    private static bool KnowsNoAbsolute(ReadOnlySpan<byte> serverSoftware) => serverSoftware.StartsWith("Caddy"u8) || serverSoftware.StartsWith("h2o"u8);

    private CgiFault ReadContentLength(ReadOnlySpan<byte> parameters)
    {
        Slice text = _values[(int)CgiVariable.ContentLength];

        // Caddy up to 2.6 says -1 of a body whose length it does not know. Nobody is misled: the body ends with STDIN.
        if (text.IsEmpty || text.In(parameters).SequenceEqual("-1"u8))
        {
            return CgiFault.None;
        }

        if (!Ascii.TryParseContentLength(text.In(parameters), out long length))
        {
            return CgiFault.ContentLengthInvalid;
        }

        ContentLength = length;
        return CgiFault.None;
    }

    private CgiFault JudgeTarget(ReadOnlySpan<byte> parameters, ReadOnlySpan<byte> method)
    {
        ReadOnlySpan<byte> target = RequestUri.In(parameters);
        if (target.IsEmpty)
        {
            // The target will be built from SCRIPT_NAME and PATH_INFO: it must come out in origin form, or be the asterisk.
            ReadOnlySpan<byte> path = ScriptName.IsEmpty ? PathInfo.In(parameters) : ScriptName.In(parameters);
            return path.IsEmpty ? CgiFault.TargetMissing
                : path[0] == '/' || (path.SequenceEqual("*"u8) && method.SequenceEqual("OPTIONS"u8)) ? CgiFault.None
                : CgiFault.TargetInvalid;
        }

        if (target.Length > TargetLengthMax)
        {
            return CgiFault.TargetTooLong;
        }

        return RequestTarget.IsValid(target, method) ? JudgePath(target, parameters) : CgiFault.TargetInvalid;
    }

    /// <summary>Judges the path of a target: its dot segments, and whether it is the path for which the web server has chosen its rules, where that is told (MILLRACE_PATH).</summary>
    /// <param name="target">A valid target: REQUEST_URI, which <see cref="Read"/> has judged already, or the one that was rebuilt because there was none.</param>
    /// <param name="parameters">The stream given to <see cref="Read"/>.</param>
    /// <returns><see cref="CgiFault.None"/>, <see cref="CgiFault.DotSegments"/> or <see cref="CgiFault.PathDisagrees"/>.</returns>
    public CgiFault JudgePath(ReadOnlySpan<byte> target, ReadOnlySpan<byte> parameters)
    {
        TargetPath.Split(target, out Slice place, out _);
        ReadOnlySpan<byte> path = place.In(target);
        if (RefusesDotSegments && DotSegment.IsIn(path))
        {
            return CgiFault.DotSegments;
        }

        ReadOnlySpan<byte> told = _values[(int)CgiVariable.MillracePath].In(parameters);
        if (told.IsEmpty)
        {
            return CgiFault.None;
        }

        // RFC 9110 §7.1: an absolute URI without a path means its root; the asterisk and an authority have no path that could differ.
        path = path.IsEmpty && TargetPath.AuthorityStart(target) > 0 ? "/"u8 : path;
        return path.IsEmpty || FrontPath.IsSame(path, told) ? CgiFault.None : CgiFault.PathDisagrees;
    }

    private bool SaysHttps(ReadOnlySpan<byte> parameters)
    {
        ReadOnlySpan<byte> https = _values[(int)CgiVariable.Https].In(parameters);
        return Ascii.EqualsLowerCase(https, "on"u8) || https.SequenceEqual("1"u8) || Ascii.EqualsLowerCase(https, "true"u8)
            || Ascii.EqualsLowerCase(_values[(int)CgiVariable.RequestScheme].In(parameters), "https"u8);
    }
}
