// An IServer without sockets, threads or protocol: what one request through it allocates is what hosting itself allocates,
// and no server can do with less. The features are reused from request to request.

using System.IO.Pipelines;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Abstractions;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;

namespace Millrace.Tests.Allocation;

internal sealed class NothingServer : IServer
{
    private Action<string>? _run;

    public NothingServer() => Features.Set<IServerAddressesFeature>(new ServerAddressesFeature());

    public IFeatureCollection Features { get; } = new FeatureCollection();

    public Task StartAsync<TContext>(IHttpApplication<TContext> application, CancellationToken cancellationToken)
        where TContext : notnull
    {
        var features = new ReusedFeatures<TContext>();
        _run = path =>
        {
            features.Begin(path);
            TContext context = application.CreateContext(features);
            Task task = application.ProcessRequestAsync(context);
            if (!task.IsCompletedSuccessfully)
            {
                throw new InvalidOperationException("The endpoint is expected to end at once.", task.Exception);
            }

            features.RunOnCompleted();
            application.DisposeContext(context, null);
        };
        return Task.CompletedTask;
    }

    /// <summary>Runs one GET request.</summary>
    public void Run(string path) => _run!(path);

    public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public void Dispose()
    {
    }
}

/// <summary>The least that hosting accepts.</summary>
internal sealed class ReusedFeatures<TContext> : IFeatureCollection, IHostContextContainer<TContext>,
    IHttpRequestFeature, IHttpResponseFeature, IHttpResponseBodyFeature, IHttpRequestLifetimeFeature, IHttpRequestIdentifierFeature, IEndpointFeature, IRouteValuesFeature
    where TContext : notnull
{
    private readonly HeaderDictionary _requestHeaders = new() { ["Host"] = "example.com" };
    private readonly HeaderDictionary _responseHeaders = [];
    private readonly Dictionary<Type, object> _set = [];
    private readonly Stack<KeyValuePair<Func<object, Task>, object>> _onCompleted = new();
    private readonly DiscardingWriter _writer = new();

    public TContext? HostContext { get; set; }

    public bool IsReadOnly => false;

    public int Revision { get; private set; }

    public object? this[Type key]
    {
        get => _set.TryGetValue(key, out object? value) ? value : key.IsInstanceOfType(this) ? this : null;
        set
        {
            Revision++;
            _set[key] = value!;
        }
    }

    public TFeature? Get<TFeature>() => (TFeature?)this[typeof(TFeature)];

    public void Set<TFeature>(TFeature? instance) => this[typeof(TFeature)] = instance;

    public IEnumerator<KeyValuePair<Type, object>> GetEnumerator() => _set.GetEnumerator();

    System.Collections.IEnumerator System.Collections.IEnumerable.GetEnumerator() => GetEnumerator();

    public string Protocol { get; set; } = "HTTP/1.1";

    public string Scheme { get; set; } = "http";

    public string Method { get; set; } = "GET";

    public string PathBase { get; set; } = "";

    public string Path { get; set; } = "/";

    public string QueryString { get; set; } = "";

    public string RawTarget { get; set; } = "/";

    IHeaderDictionary IHttpRequestFeature.Headers { get => _requestHeaders; set => throw new NotSupportedException(); }

    Stream IHttpRequestFeature.Body { get; set; } = Stream.Null;

    public int StatusCode { get; set; } = 200;

    public string? ReasonPhrase { get; set; }

    public bool HasStarted => false;

    IHeaderDictionary IHttpResponseFeature.Headers { get => _responseHeaders; set => throw new NotSupportedException(); }

    Stream IHttpResponseFeature.Body { get; set; } = Stream.Null;

    public void OnStarting(Func<object, Task> callback, object state) => throw new NotSupportedException();

    public void OnCompleted(Func<object, Task> callback, object state) => _onCompleted.Push(new(callback, state));

    public void RunOnCompleted()
    {
        while (_onCompleted.TryPop(out KeyValuePair<Func<object, Task>, object> callback))
        {
            callback.Key(callback.Value).GetAwaiter().GetResult();
        }
    }

    public Stream Stream => Stream.Null;

    public PipeWriter Writer => _writer;

    public void DisableBuffering()
    {
    }

    public Task StartAsync(CancellationToken cancellationToken = default) => Task.CompletedTask;

    public Task CompleteAsync() => Task.CompletedTask;

    public Task SendFileAsync(string path, long offset, long? count, CancellationToken cancellationToken = default) => throw new NotSupportedException();

    public CancellationToken RequestAborted { get; set; }

    public void Abort()
    {
    }

    public string TraceIdentifier { get; set; } = "0";

    public Endpoint? Endpoint { get; set; }

    Microsoft.AspNetCore.Routing.RouteValueDictionary IRouteValuesFeature.RouteValues { get; set; } = [];

    public void Begin(string path)
    {
        Path = RawTarget = path;
        StatusCode = 200;
        Endpoint = null;
        _responseHeaders.Clear();
        _set.Clear();
        Revision++;
    }

    private sealed class DiscardingWriter : PipeWriter
    {
        private readonly byte[] _scratch = new byte[4096];

        public override bool CanGetUnflushedBytes => true;

        public override long UnflushedBytes => 0;

        public override void Advance(int bytes)
        {
        }

        public override Memory<byte> GetMemory(int sizeHint = 0) => _scratch;

        public override Span<byte> GetSpan(int sizeHint = 0) => _scratch;

        public override ValueTask<FlushResult> FlushAsync(CancellationToken cancellationToken = default) => new(new FlushResult());

        public override void CancelPendingFlush()
        {
        }

        public override void Complete(Exception? exception = null)
        {
        }
    }
}
