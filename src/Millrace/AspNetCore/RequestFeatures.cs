// The features that say what was asked, and whether it is still wanted. By whom is in RequestFeatures.Addresses.cs, how fast the client must be in RequestFeatures.Rates.cs.
// One object with those of HostedFeatures, so that a request allocates them once.

using System.IO.Pipelines;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Routing;
using Millrace.Exchanges;

namespace Millrace.AspNetCore;

internal abstract partial class RequestFeatures(Exchange exchange) : RequestBound(exchange),
    IHttpRequestFeature, IHttpRequestLifetimeFeature, IHttpRequestBodyDetectionFeature, IRequestBodyPipeFeature,
    IHttpRequestIdentifierFeature, IHttpMaxRequestBodySizeFeature, IHttpBodyControlFeature, IEndpointFeature, IRouteValuesFeature, IBadRequestExceptionFeature,
    IFastCgiFeature
{
    private HeaderView? _headers;
    private string? _query;
    private RequestStream? _requestStream;
    private Endpoint? _endpoint;
    private RouteValueDictionary? _routeValues;
    private protected Rarity? _rarity;

    // What few requests need: what the application has put in the place of what came, and what is asked for now and then.
    private protected sealed class Rarity
    {
        public string? Protocol;
        public string? Scheme;
        public string? Method;
        public string? PathBase;
        public string? Path;
        public string? RawTarget;
        public IHeaderDictionary? Headers;
        public Stream? Body;
        public PipeReader? BodyReader;
        public IReadOnlyDictionary<string, string>? Parameters;
        public Addresses? Addresses;
        public string? ConnectionId;
        public Stack<KeyValuePair<Func<object, Task>, object>>? OnStarting;
        public Task? Starting;
        public Stream? ResponseBody;
    }

    // Two threads that ask at a time get the same.
    private protected Rarity Rare => Volatile.Read(ref _rarity) ?? MakeRarity();

    private Rarity MakeRarity()
    {
        var made = new Rarity();
        return Interlocked.CompareExchange(ref _rarity, made, null) ?? made;
    }

    private protected ExchangeUse Use() => Exchange.Use(Ticket);

    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    private protected void Check() => Exchange.CheckCurrent(Ticket);

    // Within a use.
    private protected RequestHead Head => Exchange.Head;

    // What the application takes away is away: `request.QueryString = default` is null here, and must not bring back what came.

    string IHttpRequestFeature.Protocol
    {
        get
        {
            using ExchangeUse use = Use();
            return _rarity?.Protocol ?? Head.ProtocolText;
        }

        set
        {
            Check();
            Rare.Protocol = value;
        }
    }

    string IHttpRequestFeature.Scheme
    {
        get
        {
            using ExchangeUse use = Use();
            return _rarity?.Scheme ?? (Head.IsHttps ? "https" : "http");
        }

        set
        {
            Check();
            Rare.Scheme = value;
        }
    }

    string IHttpRequestFeature.Method
    {
        get
        {
            using ExchangeUse use = Use();
            return _rarity?.Method ?? Head.MethodText;
        }

        set
        {
            Check();
            Rare.Method = value;
        }
    }

    string IHttpRequestFeature.PathBase
    {
        get
        {
            Check();
            return _rarity?.PathBase ?? "";
        }

        set
        {
            Check();
            Rare.PathBase = value;
        }
    }

    string IHttpRequestFeature.Path
    {
        get
        {
            using ExchangeUse use = Use();
            return _rarity?.Path ?? Head.PathText;
        }

        set
        {
            Check();
            Rare.Path = value ?? "";
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
            _query = value ?? "";
        }
    }

    string IHttpRequestFeature.RawTarget
    {
        get
        {
            using ExchangeUse use = Use();
            return _rarity?.RawTarget ?? Head.TargetText;
        }

        set
        {
            Check();
            Rare.RawTarget = value ?? "";
        }
    }

    IHeaderDictionary IHttpRequestFeature.Headers
    {
        get
        {
            Check();
            return _rarity?.Headers ?? (_headers ??= new HeaderView(Exchange, Ticket, Exchange.RequestHeaders));
        }

        set
        {
            Check();
            Rare.Headers = value;
        }
    }

    Stream IHttpRequestFeature.Body
    {
        get
        {
            using ExchangeUse use = Use();
            return _rarity?.Body ?? (_requestStream ??= new RequestStream((BodyReader)Exchange.Body.Reader, Exchange, Ticket));
        }

        set
        {
            Check();
            Rarity rare = Rare;
            rare.Body = value;
            rare.BodyReader = null;
        }
    }

    // A replaced body (decompression, buffering) is what the reader reads too, and is disposed of with the request then, as on Kestrel. The
    // reader is not completed: that would give memory to others which a read that nobody awaits may still fill.
    PipeReader IRequestBodyPipeFeature.Reader
    {
        get
        {
            using ExchangeUse use = Use();
            if (_rarity is not { Body: { } body } rare || ReferenceEquals(body, _requestStream))
            {
                return Exchange.Body.Reader;
            }

            if (rare.BodyReader is not { } reader)
            {
                rare.BodyReader = reader = PipeReader.Create(body, new StreamPipeReaderOptions(leaveOpen: true));
                ((IHttpResponseFeature)this).OnCompleted(DisposeOf, body);
            }

            return reader;
        }
    }

    private static Task DisposeOf(object body)
    {
        ((Stream)body).Dispose();
        return Task.CompletedTask;
    }

    bool IHttpRequestBodyDetectionFeature.CanHaveBody
    {
        get
        {
            using ExchangeUse use = Use();
            return Exchange.Body.IsPromised && !(Head.IsFastCgi && IsFoundEmpty);
        }
    }

    // A web server gives each request a STDIN, and where it says no length only what comes tells whether there is a body. The end of that
    // may come later than the head: a POST of which nothing has come has a body if it says what that is. Over HTTP the
    // head says it: a chunked body without a byte is one, whether its end has come by now or not.
    private bool IsFoundEmpty
    {
        get
        {
            RequestBody body = Exchange.Body;
            return body.Expected < 0 && body.Received == 0 && (body.State == BodyState.Complete || IsBodyless(Head) || Head.ContentType.IsEmpty);
        }
    }

    private static bool IsBodyless(RequestHead head) => head[head.Method].SequenceEqual("GET"u8) || head[head.Method].SequenceEqual("HEAD"u8);

    CancellationToken IHttpRequestLifetimeFeature.RequestAborted
    {
        get
        {
            using ExchangeUse use = Use();
            return Exchange.Life.Token;
        }

        set
        {
            using ExchangeUse use = Use();
            Exchange.Life.Token = value;
        }
    }

    void IHttpRequestLifetimeFeature.Abort() => Exchange.AbortByApplication(Ticket);

    string IHttpRequestIdentifierFeature.TraceIdentifier
    {
        get
        {
            using ExchangeUse use = Use();
            return Exchange.TraceIdentifier;
        }

        set
        {
            using ExchangeUse use = Use();
            Exchange.TraceIdentifier = value;
        }
    }

    // As on Kestrel it is there from the start, and says nothing before the handler has ended: for OnCompleted.
    Exception? IBadRequestExceptionFeature.Error
    {
        get
        {
            using ExchangeUse use = Use();
            return Exchange.Rejection;
        }
    }

    bool IHttpMaxRequestBodySizeFeature.IsReadOnly
    {
        get
        {
            using ExchangeUse use = Use();
            return Exchange.Body.HasStarted;
        }
    }

    long? IHttpMaxRequestBodySizeFeature.MaxRequestBodySize
    {
        get
        {
            using ExchangeUse use = Use();
            return Exchange.Body.SizeMax;
        }

        set
        {
            using ExchangeUse use = Use();
            if (Exchange.Body.HasStarted)
            {
                throw new InvalidOperationException("The maximum request body size cannot be modified after the app has already started reading from the request body.");
            }

            if (value is < 0)
            {
                throw new ArgumentOutOfRangeException(nameof(value), "Value must be null or a non-negative number.");
            }

            Exchange.Body.SizeMax = value;
        }
    }

    bool IHttpBodyControlFeature.AllowSynchronousIO
    {
        get
        {
            using ExchangeUse use = Use();
            return Exchange.AllowsSynchronousIO;
        }

        set
        {
            using ExchangeUse use = Use();
            Exchange.AllowsSynchronousIO = value;
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
            return Rare.Parameters ??= ParameterList.Read(Head);
        }
    }
}
