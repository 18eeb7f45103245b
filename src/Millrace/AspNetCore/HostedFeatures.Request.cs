// The features that say what was asked, by whom, and whether it is still wanted.

using System.IO.Pipelines;
using System.Net;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Routing;
using Millrace.Exchanges;

namespace Millrace.AspNetCore;

internal sealed partial class HostedFeatures :
    IHttpRequestFeature, IHttpRequestLifetimeFeature, IHttpRequestBodyDetectionFeature, IRequestBodyPipeFeature, IHttpConnectionFeature,
    IHttpRequestIdentifierFeature, IHttpMaxRequestBodySizeFeature, IHttpBodyControlFeature, IEndpointFeature, IRouteValuesFeature, IBadRequestExceptionFeature,
    IFastCgiFeature
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
    private Endpoint? _endpoint;
    private RouteValueDictionary? _routeValues;
    private IReadOnlyDictionary<string, string>? _parameters;
    private Addresses? _addresses;
    private string? _connectionId;

    private sealed record Addresses
    {
        public IPAddress? Remote { get; set; }

        public IPAddress? Local { get; set; }

        public int RemotePort { get; set; }

        public int LocalPort { get; set; }
    }

    // Within a use.
    private RequestHead Head => _exchange.Head;

    string IHttpRequestFeature.Protocol
    {
        get
        {
            using ExchangeUse use = Use();
            return _protocol ??= Head.ProtocolText;
        }

        set
        {
            Check();
            _protocol = value;
        }
    }

    string IHttpRequestFeature.Scheme
    {
        get
        {
            using ExchangeUse use = Use();
            return _scheme ??= Head.IsHttps ? "https" : "http";
        }

        set
        {
            Check();
            _scheme = value;
        }
    }

    string IHttpRequestFeature.Method
    {
        get
        {
            using ExchangeUse use = Use();
            return _method ??= Head.MethodText;
        }

        set
        {
            Check();
            _method = value;
        }
    }

    string IHttpRequestFeature.PathBase
    {
        get
        {
            Check();
            return _pathBase ?? "";
        }

        set
        {
            Check();
            _pathBase = value;
        }
    }

    string IHttpRequestFeature.Path
    {
        get
        {
            using ExchangeUse use = Use();
            return _path ??= Head.PathText;
        }

        set
        {
            Check();
            _path = value;
        }
    }

    string IHttpRequestFeature.QueryString
    {
        get
        {
            using ExchangeUse use = Use();
            return _query ??= Head.QueryText;
        }

        set
        {
            Check();
            _query = value;
        }
    }

    string IHttpRequestFeature.RawTarget
    {
        get
        {
            using ExchangeUse use = Use();
            return _rawTarget ??= Head.TargetText;
        }

        set
        {
            Check();
            _rawTarget = value;
        }
    }

    IHeaderDictionary IHttpRequestFeature.Headers
    {
        get
        {
            Check();
            return _headers ??= new HeaderView(_exchange, _ticket, _exchange.RequestHeaders);
        }

        set
        {
            Check();
            _headers = value;
        }
    }

    Stream IHttpRequestFeature.Body
    {
        get
        {
            using ExchangeUse use = Use();
            return _body ??= _requestStream ??= new RequestStream((BodyReader)_exchange.Body.Reader, _exchange, _ticket);
        }

        set
        {
            Check();
            _body = value;
            _bodyReader = null;
        }
    }

    // A replaced body (decompression, buffering) is what the reader reads too.
    PipeReader IRequestBodyPipeFeature.Reader
    {
        get
        {
            using ExchangeUse use = Use();
            if (_body is null || ReferenceEquals(_body, _requestStream))
            {
                return _exchange.Body.Reader;
            }

            return _bodyReader ??= PipeReader.Create(_body, new StreamPipeReaderOptions(leaveOpen: true));
        }
    }

    bool IHttpRequestBodyDetectionFeature.CanHaveBody
    {
        get
        {
            using ExchangeUse use = Use();
            RequestBody body = _exchange.Body;
            return body.CanHaveBytes && !(body.Expected == 0 || (body.Expected < 0 && body.Received == 0 && IsBodyless(Head)));
        }
    }

    private static bool IsBodyless(RequestHead head) =>
        head.IsFastCgi && (head[head.Method].SequenceEqual("GET"u8) || head[head.Method].SequenceEqual("HEAD"u8));

    CancellationToken IHttpRequestLifetimeFeature.RequestAborted
    {
        get
        {
            using ExchangeUse use = Use();
            return _exchange.RequestAborted;
        }

        set
        {
            using ExchangeUse use = Use();
            _exchange.RequestAborted = value;
        }
    }

    void IHttpRequestLifetimeFeature.Abort() => _exchange.AbortByApplication(_ticket);

    string IHttpRequestIdentifierFeature.TraceIdentifier
    {
        get
        {
            using ExchangeUse use = Use();
            return _exchange.TraceIdentifier;
        }

        set
        {
            using ExchangeUse use = Use();
            _exchange.TraceIdentifier = value;
        }
    }

    // As on Kestrel it is there from the start, and says nothing before the handler has ended: for OnCompleted.
    Exception? IBadRequestExceptionFeature.Error
    {
        get
        {
            using ExchangeUse use = Use();
            return _exchange.Rejection;
        }
    }

    bool IHttpMaxRequestBodySizeFeature.IsReadOnly
    {
        get
        {
            using ExchangeUse use = Use();
            return _exchange.Body.HasStarted;
        }
    }

    long? IHttpMaxRequestBodySizeFeature.MaxRequestBodySize
    {
        get
        {
            using ExchangeUse use = Use();
            return _exchange.Body.SizeMax;
        }

        set
        {
            using ExchangeUse use = Use();
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
        get
        {
            using ExchangeUse use = Use();
            return _exchange.AllowsSynchronousIO;
        }

        set
        {
            using ExchangeUse use = Use();
            _exchange.AllowsSynchronousIO = value;
        }
    }

    Endpoint? IEndpointFeature.Endpoint
    {
        get
        {
            Check();
            return _endpoint;
        }

        set
        {
            Check();
            _endpoint = value;
        }
    }

    /// <summary>The pattern of the route that was chosen, such as <c>/items/{id}</c>.</summary>
    public string? Route => (_endpoint as Microsoft.AspNetCore.Routing.RouteEndpoint)?.RoutePattern.RawText;

    RouteValueDictionary IRouteValuesFeature.RouteValues
    {
        get
        {
            Check();
            return _routeValues ??= [];
        }

        set
        {
            Check();
            _routeValues = value;
        }
    }

    IReadOnlyDictionary<string, string> IFastCgiFeature.Parameters
    {
        get
        {
            using ExchangeUse use = Use();
            return _parameters ??= ParameterList.Read(Head);
        }
    }

    // ---- addresses ----

    string IHttpConnectionFeature.ConnectionId
    {
        get
        {
            using ExchangeUse use = Use();
            return _connectionId ??= _exchange.Connection.Id;
        }

        set
        {
            Check();
            _connectionId = value;
        }
    }

    IPAddress? IHttpConnectionFeature.RemoteIpAddress
    {
        get => FindAddresses().Remote;
        set => FindAddresses().Remote = value;
    }

    IPAddress? IHttpConnectionFeature.LocalIpAddress
    {
        get => FindAddresses().Local;
        set => FindAddresses().Local = value;
    }

    int IHttpConnectionFeature.RemotePort
    {
        get => FindAddresses().RemotePort;
        set => FindAddresses().RemotePort = value;
    }

    int IHttpConnectionFeature.LocalPort
    {
        get => FindAddresses().LocalPort;
        set => FindAddresses().LocalPort = value;
    }

    private Addresses FindAddresses()
    {
        using ExchangeUse use = Use();
        return _addresses ??= Head.IsFastCgi
            ? Reported(Head.RemoteIPAddress, Head.RemotePortNumber, Head.LocalIPAddress, Head.LocalPortNumber)
            : OfSocket(_exchange.Connection.RemoteEndPoint, _exchange.Connection.LocalEndPoint);
    }

    private static Addresses Reported(IPAddress? remote, int remotePort, IPAddress? local, int localPort) =>
        new() { Remote = remote, RemotePort = remote is null ? 0 : remotePort, Local = local, LocalPort = local is null ? 0 : localPort };

    private static Addresses OfSocket(IPEndPoint? remote, IPEndPoint? local) =>
        new() { Remote = remote?.Address, RemotePort = remote?.Port ?? 0, Local = local?.Address, LocalPort = local?.Port ?? 0 };
}
