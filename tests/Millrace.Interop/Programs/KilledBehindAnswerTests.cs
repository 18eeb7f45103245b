// A process that is killed at the very moment when its whole answer is there: the call has failed, and what is kept of the answer is still being sent.

using System.IO.Pipelines;
using System.Reflection;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Routing;
using Microsoft.Extensions.Logging;
using Millrace.Connector;
using Millrace.Interop.FrontEnds;
using Millrace.Workers;

namespace Millrace.Interop.Programs;

public sealed class KilledBehindAnswerTests : IDisposable
{
    private readonly TemporaryDirectory _site = new("killed");

    public void Dispose() => _site.Dispose();

    [Fact]
    public async Task The_request_does_not_end_while_what_was_kept_of_its_answer_is_being_sent()
    {
        string go = Path.Combine(_site.Path, "go");
        await File.WriteAllTextAsync(Path.Combine(_site.Path, "slow.php"), $"<?php echo 'first'; flush(); while (!file_exists('{go}')) {{ usleep(1000); clearstatcache(); }}");
        await using var pool = new ProcessPool(new ProcessPoolOptions { Command = "php-cgi", Arguments = { "-d", "output_buffering=0" }, Min = 1, Max = 1 });
        WebApplicationBuilder builder = WebApplication.CreateBuilder();
        builder.Logging.ClearProviders();
        await using WebApplication app = builder.Build();
        var clock = new TouchedClock();
        app.MapFastCgi("/{**path}", pool, options =>
        {
            options.Root = _site.Path;
            typeof(FastCgiProgramOptions).GetProperty("Clock", BindingFlags.Instance | BindingFlags.NonPublic)!.SetValue(options, clock);
        });
        RequestDelegate answer = ((IEndpointRouteBuilder)app).DataSources.Single().Endpoints.Single().RequestDelegate!;
        using var visitor = new SlowVisitor();
        HttpContext context = visitor.Context("/slow.php");

        Task answered = answer(context);
        await visitor.Flushing.WaitAsync(TimeSpan.FromSeconds(30));
        await Task.Delay(500);      // the next that comes of the answer is its end, and nothing else touches the clock before
        clock.Touched = () =>
        {
            if (File.Exists(go))
            {
                clock.Touched = null;
                Assert.True(pool.Kill(pool.GetStatus().Workers.Single(static worker => worker.ProcessId is not null).Id));
            }
        };
        await File.WriteAllTextAsync(go, "");
        await Assert.ThrowsAsync<IOException>(() => answered.WaitAsync(TimeSpan.FromSeconds(30)));      // for middleware that would keep the answer

        Assert.Equal((true, true, true), (visitor.IsAborted, clock.Touched is null, visitor.HasLeftFlush));
    }

    // Is looked at with each piece that has come of an answer, before that is looked at (ReadTimeout).
    private sealed class TouchedClock : TimeProvider
    {
        public Action? Touched { get; set; }

        public override long GetTimestamp()
        {
            Touched?.Invoke();
            return base.GetTimestamp();
        }
    }

    // A server's response of which the first flush does not end before it is given up, nor at once then.
    private sealed class SlowVisitor : PipeWriter, IHttpResponseFeature, IHttpResponseBodyFeature, IHttpRequestLifetimeFeature, IDisposable
    {
        private readonly byte[] _memory = new byte[64 * 1024];
        private readonly CancellationTokenSource _aborted = new();
        private readonly TaskCompletionSource _flushing = new(TaskCreationOptions.RunContinuationsAsynchronously);

        public bool HasLeftFlush { get; private set; }

        public bool IsAborted => _aborted.IsCancellationRequested;

        public Task Flushing => _flushing.Task;

        public DefaultHttpContext Context(string path)
        {
            var features = new FeatureCollection();
            features.Set<IHttpRequestFeature>(new HttpRequestFeature { Method = "GET", Path = path, RawTarget = path, Protocol = "HTTP/1.1", Scheme = "http" });
            features.Set<IHttpResponseFeature>(this);
            features.Set<IHttpResponseBodyFeature>(this);
            features.Set<IHttpRequestLifetimeFeature>(this);
            var context = new DefaultHttpContext(features);
            context.Request.RouteValues["path"] = path[1..];
            return context;
        }

        public override async ValueTask<FlushResult> FlushAsync(CancellationToken cancellationToken = default)
        {
            HasStarted = true;
            _ = _flushing.TrySetResult();
            await Task.Delay(Timeout.Infinite, cancellationToken).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            await Task.Delay(300, CancellationToken.None);
            HasLeftFlush = true;
            throw new OperationCanceledException(cancellationToken);
        }

        public override void Advance(int bytes) => _ = bytes;

        public override Memory<byte> GetMemory(int sizeHint = 0) => _memory;

        public override Span<byte> GetSpan(int sizeHint = 0) => _memory;

        public override void CancelPendingFlush() => _ = _memory;

        public override void Complete(Exception? exception = null) => _ = exception;

        public void Dispose() => _aborted.Dispose();

        public void Abort() => _aborted.Cancel();

        public CancellationToken RequestAborted { get => _aborted.Token; set => throw new NotSupportedException(); }

        public int StatusCode { get; set; } = 200;

        public string? ReasonPhrase { get; set; }

        public bool HasStarted { get; private set; }

        public Stream Body { get => Stream.Null; set => throw new NotSupportedException(); }

        public Stream Stream => Stream.Null;

        public PipeWriter Writer => this;

        public IHeaderDictionary Headers { get; set; } = new HeaderDictionary();

        public void OnStarting(Func<object, Task> callback, object state) => _ = callback;

        public void OnCompleted(Func<object, Task> callback, object state) => _ = callback;

        public void DisableBuffering() => _ = _memory;

        public Task StartAsync(CancellationToken cancellationToken = default) => Task.CompletedTask;

        public Task SendFileAsync(string path, long offset, long? count, CancellationToken cancellationToken = default) => throw new NotSupportedException();

        public Task CompleteAsync() => Task.CompletedTask;
    }
}
