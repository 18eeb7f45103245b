// One visitor of a program: a request, its context, and what has become of it.

using System.Net;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Connector;

namespace Millrace.Tests.Simulation.Children;

[System.Diagnostics.CodeAnalysis.SuppressMessage("Design", "CA1001", Justification = "They hold nothing but memory.")]
internal sealed class ChildVisit : IHttpRequestBodyDetectionFeature
{
    private readonly ChildrenWorld _world;
    private readonly FastCgiProgramOptions _options;
    private readonly CancellationTokenSource _leaving = new();
    private readonly DefaultHttpContext _context = new();
    private readonly Reader _reader = new();
    private readonly bool _takesBodyFirst;
    private readonly long _beganMs;
    private ProgramRequest? _request;
    private Task _visit = Task.CompletedTask;
    private bool _poolHasFailed;

    public ChildVisit(string id, ChildrenWorld world, FastCgiProgramOptions options, bool takesBodyFirst)
    {
        (Id, _world, _options, _takesBodyFirst) = (id, world, options, takesBodyFirst);
        SeededRandom random = world.Random;
        RequestFacts facts = world.Of(id);
        facts.Size = random.Chance(80) ? random.Below(2_000) : random.Size(100_000);
        facts.HasLength = random.Chance(50);
        _beganMs = world.Time.NowMs;
        string[] methods = ["GET", "GET", "GET", "HEAD", "OPTIONS", "POST", "POST", "PUT", "DELETE"];
        _context.Request.Method = methods[random.Below(methods.Length)];
        _context.Request.Protocol = "HTTP/1.1";
        _context.Request.Path = "/" + id;
        _context.Connection.RemoteIpAddress = _context.Connection.LocalIpAddress = IPAddress.Loopback;
        _context.Features.Set<IHttpRequestBodyDetectionFeature>(this);
        _context.Features.Set<IHttpResponseBodyFeature>(new StreamResponseBodyFeature(_reader));
        _context.RequestAborted = _leaving.Token;
        if (_context.Request.Method is "POST" or "PUT")
        {
            int length = random.Chance(70) ? random.Below(3_000) : random.Below(60_000);
            CanHaveBody = length > 0;
            _context.Request.Body = new MemoryStream(new byte[length]);
            _context.Request.ContentLength = length;
        }
    }

    public string Id { get; }

    public bool CanHaveBody { get; }

    /// <summary>RFC 9110 §9.2.2, as the client has it.</summary>
    public bool IsSafe => _context.Request.Method is "GET" or "HEAD" or "OPTIONS";

    public bool IsOver { get; private set; }

    /// <summary>Why there is no whole answer; null: there is.</summary>
    public Exception? Failure { get; private set; }

    public bool HasLeft => _leaving.IsCancellationRequested;

    public TimeSpan Took { get; private set; }

    /// <summary>Whether it takes what comes.</summary>
    public bool IsReading
    {
        set
        {
            if (value)
            {
                _reader.GoOn();
            }
            else
            {
                _reader.IsPaused = true;
            }
        }
    }

    /// <summary>Whether something of an answer had come.</summary>
    public bool HasBegun => Failure is ConnectorException error && !error.Message.Contains("without an answer", StringComparison.Ordinal);

    public bool IsRight => (_context.Response.ContentLength is not { } length || _context.Request.Method == "HEAD" || length == _reader.Length) && _context.Response.Headers["X-Id"] == Id && _reader.Text == (_context.Request.Method == "HEAD" ? "" : _world.BodyOf(Id));

    public void Begin(ConnectionPool? connections, ChildPool? pool)
    {
        _world.Note($"{Id} asks, {_context.Request.Method}");
        _visit = RunAsync(connections, pool);
    }

    public void Leave()
    {
        _world.Note($"{Id} leaves");
        _leaving.Cancel();
    }

    /// <summary>Looks whether it is over. One for which the pool has answered before its child ended goes on on another thread then, which is waited for.</summary>
    public void Collect()
    {
        if (IsOver || !(_poolHasFailed ? _request!.Released.IsCompleted : _visit.IsCompleted))
        {
            return;
        }

        Assert.True(_visit.Wait(TimeSpan.FromMinutes(1)));
        IsOver = true;
        _request!.Dispose();
        Took = TimeSpan.FromMilliseconds(_world.Time.NowMs - _beganMs);
        _world.Note($"{Id} has {(Failure is null ? "its answer" : $"{Failure.GetType().Name} {Failure.Message}")}");
    }

    private async Task RunAsync(ConnectionPool? connections, ChildPool? pool)
    {
        ProgramRequest request = _request = new ProgramRequest(_context, _options, given: null);
        try
        {
            await request.PrepareAsync("", new ScriptTarget(TargetKind.Script, PathInfo: "/" + Id), keepsConnection: pool is not null || connections!.KeepsConnections, _takesBodyFirst);
            if (pool is null)
            {
                _ = await request.RunAsync(connections!, _context.RequestAborted);
            }
            else
            {
                await request.RunAtFreeAsync(run => AskPoolAsync(pool, run));
            }

            request.ShowFirst();
            await _context.Response.BodyWriter.FlushAsync(CancellationToken.None);
        }
        catch (Exception error)
        {
            Failure = error;
        }
    }

    private async Task AskPoolAsync(ChildPool pool, Func<IProgramConnections, CancellationToken, Task<bool>> run)
    {
        _poolHasFailed = false;
        try
        {
            await pool.RunAsync(Id, run, _context.RequestAborted);
        }
        catch
        {
            _poolHasFailed = true;
            throw;
        }
    }

    /// <summary>The answer as it was.</summary>
    public string Shown => $"X-Id {_context.Response.Headers["X-Id"]}, {_reader.Text.Length} bytes instead of {_world.BodyOf(Id).Length}: {_reader.Text[..Math.Min(40, _reader.Text.Length)]}";

    public override string ToString() => $"{Id} {_context.Request.Method}{(HasLeft ? ", left" : "")}: {(IsOver ? Failure?.Message ?? "answered" : "under way")}";

    // Takes nothing while it is paused.
    private sealed class Reader : MemoryStream
    {
        private TaskCompletionSource _goesOn = new();

        public bool IsPaused { get; set; }

        public string Text => System.Text.Encoding.Latin1.GetString(ToArray());

        public void GoOn()
        {
            IsPaused = false;
            _goesOn.TrySetResult();
        }

        public override async ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
        {
            while (IsPaused)
            {
                cancellationToken.ThrowIfCancellationRequested();
                _goesOn = new TaskCompletionSource();
                using CancellationTokenRegistration leaving = cancellationToken.UnsafeRegister(static state => ((TaskCompletionSource)state!).TrySetResult(), _goesOn);
                await _goesOn.Task.ConfigureAwait(false);
            }

            Write(buffer.Span);
        }
    }
}
