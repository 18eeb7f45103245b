// The features that say what was asked, by whom, and whether it is still wanted.

using System.IO.Pipelines;
using System.Net;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Routing;
using Millrace.Exchanges;

namespace Millrace.AspNetCore;

internal partial class HostedFeatures :
    IHttpRequestFeature, IHttpRequestLifetimeFeature, IHttpRequestBodyDetectionFeature, IRequestBodyPipeFeature, IHttpConnectionFeature,
    IHttpRequestIdentifierFeature, IHttpMaxRequestBodySizeFeature, IHttpBodyControlFeature, IEndpointFeature, IRouteValuesFeature, IFastCgiFeature
{
    private string? _protocol;
    private string? _scheme;
    private string? _method;
    private string? _pathBase;
    private string? _path;
    private string? _query;
    private string? _rawTarget;
    private IHeaderDictionary? _headers;
    private Stream? _body;
    private RequestStream? _requestStream;
    private PipeReader? _bodyReader;
    private RouteValueDictionary? _routeValues;
    private IReadOnlyDictionary<string, string>? _parameters;
    private bool _addressesKnown;
    private IPAddress? _remoteAddress;
    private IPAddress? _localAddress;
    private int _remotePort;
    private int _localPort;
    private string? _connectionId;

    private RequestHead Head => _exchange.Head;

    /// <summary>The path, decoded. False: the request is refused with 400.</summary>
    public bool TryBegin()
    {
        _ticket.Take(_exchange);
        return Head.TryGetPath(out _path);
    }

    string IHttpRequestFeature.Protocol
    {
        get => _protocol ??= Head.ProtocolText;
        set => _protocol = value;
    }

    string IHttpRequestFeature.Scheme
    {
        get => _scheme ??= Head.IsHttps ? "https" : "http";
        set => _scheme = value;
    }

    string IHttpRequestFeature.Method
    {
        get => _method ??= Head.MethodText;
        set => _method = value;
    }

    string IHttpRequestFeature.PathBase
    {
        get => _pathBase ?? "";
        set => _pathBase = value;
    }

    string IHttpRequestFeature.Path
    {
        get => _path ?? "";
        set => _path = value;
    }

    string IHttpRequestFeature.QueryString
    {
        get => _query ??= Head.QueryText;
        set => _query = value;
    }

    string IHttpRequestFeature.RawTarget
    {
        get => _rawTarget ??= Head.TargetText;
        set => _rawTarget = value;
    }

    IHeaderDictionary IHttpRequestFeature.Headers
    {
        get => _headers ?? _exchange.RequestHeaders;
        set => _headers = value;
    }

    Stream IHttpRequestFeature.Body
    {
        get => _body ??= _requestStream ??= new RequestStream((BodyReader)_exchange.Body.Reader, _exchange);
        set
        {
            _body = value;
            _bodyReader = null;
        }
    }

    // A replaced body (decompression, buffering) is what the reader reads too.
    PipeReader IRequestBodyPipeFeature.Reader
    {
        get
        {
            if (_body is null || ReferenceEquals(_body, _requestStream))
            {
                return _exchange.Body.Reader;
            }

            return _bodyReader ??= PipeReader.Create(_body, new StreamPipeReaderOptions(leaveOpen: true));
        }
    }

    bool IHttpRequestBodyDetectionFeature.CanHaveBody => _exchange.Body.CanHaveBytes
        && !(_exchange.Body.Expected == 0 || (_exchange.Body.Expected < 0 && _exchange.Body.Received == 0 && IsBodyless(Head)));

    private static bool IsBodyless(RequestHead head) =>
        head.IsFastCgi && (head[head.Method].SequenceEqual("GET"u8) || head[head.Method].SequenceEqual("HEAD"u8));

    CancellationToken IHttpRequestLifetimeFeature.RequestAborted
    {
        get => _exchange.RequestAborted;
        set => _exchange.RequestAborted = value;
    }

    void IHttpRequestLifetimeFeature.Abort() => _exchange.AbortByApplication(_ticket.For(_exchange));

    string IHttpRequestIdentifierFeature.TraceIdentifier
    {
        get => _exchange.TraceIdentifier;
        set => _exchange.TraceIdentifier = value;
    }

    bool IHttpMaxRequestBodySizeFeature.IsReadOnly => _exchange.Body.HasStarted;

    long? IHttpMaxRequestBodySizeFeature.MaxRequestBodySize
    {
        get => _exchange.Body.SizeMax;
        set
        {
            if (_exchange.Body.HasStarted)
            {
                throw new InvalidOperationException("The maximum request body size cannot be modified after the app has already started reading from the request body.");
            }

            if (value is < 0)
            {
                throw new ArgumentOutOfRangeException(nameof(value), "Value must be null or a non-negative number.");
            }

            _exchange.Body.SizeMax = value;
        }
    }

    bool IHttpBodyControlFeature.AllowSynchronousIO
    {
        get => _exchange.AllowsSynchronousIO;
        set => _exchange.AllowsSynchronousIO = value;
    }

    Endpoint? IEndpointFeature.Endpoint { get; set; }

    RouteValueDictionary IRouteValuesFeature.RouteValues
    {
        get => _routeValues ??= [];
        set => _routeValues = value;
    }

    IReadOnlyDictionary<string, string> IFastCgiFeature.Parameters => _parameters ??= ParameterList.Read(Head);

    // ---- addresses ----

    string IHttpConnectionFeature.ConnectionId
    {
        get => _connectionId ??= _exchange.Connection.Id;
        set => _connectionId = value;
    }

    IPAddress? IHttpConnectionFeature.RemoteIpAddress
    {
        get
        {
            FindAddresses();
            return _remoteAddress;
        }

        set
        {
            FindAddresses();
            _remoteAddress = value;
        }
    }

    IPAddress? IHttpConnectionFeature.LocalIpAddress
    {
        get
        {
            FindAddresses();
            return _localAddress;
        }

        set
        {
            FindAddresses();
            _localAddress = value;
        }
    }

    int IHttpConnectionFeature.RemotePort
    {
        get
        {
            FindAddresses();
            return _remotePort;
        }

        set
        {
            FindAddresses();
            _remotePort = value;
        }
    }

    int IHttpConnectionFeature.LocalPort
    {
        get
        {
            FindAddresses();
            return _localPort;
        }

        set
        {
            FindAddresses();
            _localPort = value;
        }
    }

    private void FindAddresses()
    {
        if (_addressesKnown)
        {
            return;
        }

        _addressesKnown = true;
        if (Head.IsFastCgi)
        {
            _remoteAddress = Head.RemoteIPAddress;
            _localAddress = Head.LocalIPAddress;
            _remotePort = _remoteAddress is null ? 0 : Head.RemotePortNumber;
            _localPort = _localAddress is null ? 0 : Head.LocalPortNumber;
            return;
        }

        IPEndPoint? remote = _exchange.Connection.RemoteEndPoint;
        IPEndPoint? local = _exchange.Connection.LocalEndPoint;
        (_remoteAddress, _remotePort) = (remote?.Address, remote?.Port ?? 0);
        (_localAddress, _localPort) = (local?.Address, local?.Port ?? 0);
    }

    private void ResetRequest()
    {
        _protocol = _scheme = _method = _pathBase = _path = _query = _rawTarget = _connectionId = null;
        _headers = null;
        _body = null;
        _requestStream = null;
        _bodyReader = null;
        _parameters = null;
        ((IEndpointFeature)this).Endpoint = null;
        _routeValues = null;
        _addressesKnown = false;
        _remoteAddress = _localAddress = null;
        _remotePort = _localPort = 0;
    }
}
