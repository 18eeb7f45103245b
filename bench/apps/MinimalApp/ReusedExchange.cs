// The features of one GET /hello, reused for every request: the least that hosting accepts. What hosting itself has set stays,
// as it does in a server that reuses its features. Used by HostingOnlyServer alone.
using System.Collections;
using System.Globalization;
using System.IO.Pipelines;
using Microsoft.AspNetCore.Hosting.Server.Abstractions;
using Microsoft.AspNetCore.Http.Features;

namespace MinimalApp;

internal sealed class ReusedExchange<TContext> : IFeatureCollection, IHostContextContainer<TContext>,
    IHttpRequestFeature, IHttpResponseFeature, IHttpResponseBodyFeature, IHttpRequestLifetimeFeature, IHttpRequestIdentifierFeature
    where TContext : notnull
{
    private readonly HeaderDictionary requestHeaders = new() { ["Host"] = "127.0.0.1" };
    private readonly HeaderDictionary responseHeaders = [];
    private readonly Dictionary<Type, object> set = [];
    private readonly DiscardingWriter writer = new();
    private int requests;

    public TContext? HostContext { get; set; }

    // IFeatureCollection
    public bool IsReadOnly => false;
    public int Revision { get; private set; }

    public object? this[Type key]
    {
        get => key.IsInstanceOfType(this) ? this : set.GetValueOrDefault(key);
        set
        {
            Revision++;
            if (value is null)
            {
                set.Remove(key);
            }
            else
            {
                set[key] = value;
            }
        }
    }

    public TFeature? Get<TFeature>() => this is TFeature own ? own : (TFeature?)set.GetValueOrDefault(typeof(TFeature));
    public void Set<TFeature>(TFeature? instance) => this[typeof(TFeature)] = instance;
    public IEnumerator<KeyValuePair<Type, object>> GetEnumerator() => set.GetEnumerator();
    IEnumerator IEnumerable.GetEnumerator() => set.GetEnumerator();

    // IHttpRequestFeature
    public string Protocol { get; set; } = "HTTP/1.1";
    public string Scheme { get; set; } = "http";
    public string Method { get; set; } = "GET";
    public string PathBase { get; set; } = "";
    public string Path { get; set; } = "/hello";
    public string QueryString { get; set; } = "";
    public string RawTarget { get; set; } = "/hello";
    IHeaderDictionary IHttpRequestFeature.Headers { get => requestHeaders; set => throw new NotSupportedException(); }
    Stream IHttpRequestFeature.Body { get; set; } = Stream.Null;

    // IHttpResponseFeature
    public int StatusCode { get; set; } = 200;
    public string? ReasonPhrase { get; set; }
    public bool HasStarted => false;
    IHeaderDictionary IHttpResponseFeature.Headers { get => responseHeaders; set => throw new NotSupportedException(); }
    Stream IHttpResponseFeature.Body { get; set; } = Stream.Null;
    public void OnStarting(Func<object, Task> callback, object state) => throw new NotSupportedException();
    public void OnCompleted(Func<object, Task> callback, object state) => throw new NotSupportedException();

    // IHttpResponseBodyFeature
    public Stream Stream => Stream.Null;
    public PipeWriter Writer => writer;
    public void DisableBuffering()
    {
    }

    public Task StartAsync(CancellationToken cancellationToken = default) => Task.CompletedTask;
    public Task CompleteAsync() => Task.CompletedTask;
    public Task SendFileAsync(string path, long offset, long? count, CancellationToken cancellationToken = default) => throw new NotSupportedException();

    // IHttpRequestLifetimeFeature, IHttpRequestIdentifierFeature
    public CancellationToken RequestAborted { get; set; }
    public void Abort()
    {
    }

    public string TraceIdentifier { get; set; } = "0";

    public void Reset()
    {
        StatusCode = 200;
        responseHeaders.Clear();
        Revision++;
        TraceIdentifier = string.Create(CultureInfo.InvariantCulture, $"1:{++requests:X8}");    // hosting asks each request for its own
    }

    private sealed class DiscardingWriter : PipeWriter
    {
        private readonly byte[] scratch = new byte[4096];

        public override void Advance(int bytes)
        {
        }

        public override Memory<byte> GetMemory(int sizeHint = 0) => scratch;
        public override Span<byte> GetSpan(int sizeHint = 0) => scratch;
        public override ValueTask<FlushResult> FlushAsync(CancellationToken cancellationToken = default) => new(new FlushResult());
        public override void CancelPendingFlush()
        {
        }

        public override void Complete(Exception? exception = null)
        {
        }
    }
}
