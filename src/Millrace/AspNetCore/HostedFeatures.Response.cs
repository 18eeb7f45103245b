// The features that make the response.

using System.IO.Pipelines;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.Primitives;
using Microsoft.Win32.SafeHandles;
using Millrace.Exchanges;

namespace Millrace.AspNetCore;

internal partial class HostedFeatures : IHttpResponseFeature, IHttpResponseBodyFeature, IResponseStarter
{
    private Stack<KeyValuePair<Func<object, Task>, object>>? _onStarting;
    private Stack<KeyValuePair<Func<object, Task>, object>>? _onCompleted;
    private ResponseStream? _stream;
    private Stream? _replacedStream;
    private ResponseWriter? _writer;
    private bool _writerTaken;
    private Task? _starting;

    int IHttpResponseFeature.StatusCode
    {
        get => _exchange.StatusCode;
        set
        {
            CheckNotStarted("StatusCode");
            _exchange.StatusCode = value;
        }
    }

    string? IHttpResponseFeature.ReasonPhrase
    {
        get => _exchange.ReasonPhrase;
        set
        {
            CheckNotStarted("ReasonPhrase");
            _exchange.ReasonPhrase = value;
        }
    }

    IHeaderDictionary IHttpResponseFeature.Headers
    {
        get => _exchange.ResponseHeaders;
        set
        {
            KeyValuePair<string, StringValues>[] entries = [.. value];
            _exchange.ResponseHeaders.Clear();
            foreach (KeyValuePair<string, StringValues> entry in entries)
            {
                _exchange.ResponseHeaders[entry.Key] = entry.Value;
            }
        }
    }

    Stream IHttpResponseFeature.Body
    {
        get => _replacedStream ?? ((IHttpResponseBodyFeature)this).Stream;
        set => _replacedStream = value;
    }

    bool IHttpResponseFeature.HasStarted => _exchange.HasStarted;

    void IHttpResponseFeature.OnStarting(Func<object, Task> callback, object state)
    {
        CheckNotStarted("OnStarting");
        (_onStarting ??= new()).Push(new(callback, state));
    }

    void IHttpResponseFeature.OnCompleted(Func<object, Task> callback, object state) => (_onCompleted ??= new()).Push(new(callback, state));

    Stream IHttpResponseBodyFeature.Stream
    {
        get
        {
            _exchange.CheckCurrent(_ticket.For(_exchange));
            return _stream ??= new ResponseStream(_exchange, this);
        }
    }

    PipeWriter IHttpResponseBodyFeature.Writer
    {
        get
        {
            if (!_writerTaken)
            {
                _exchange.CheckCurrent(_ticket.For(_exchange));
                _writer = _exchange.HasLeft ? new ResponseWriter(_exchange, this) : _writer ?? new ResponseWriter(_exchange, this);
                _writer.Begin();
                _writerTaken = true;
            }

            return _writer!;
        }
    }

    void IHttpResponseBodyFeature.DisableBuffering()
    {
        // Nothing is held back longer than the handler's own turn.
    }

    Task IHttpResponseBodyFeature.StartAsync(CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        if (StartResponse() is { } starting)
        {
            return StartLater(starting, _ticket.For(_exchange));
        }

        StartNow(_ticket.For(_exchange));
        return Task.CompletedTask;
    }

    private async Task StartLater(Task starting, long ticket)
    {
        await starting;
        StartNow(ticket);
    }

    private void StartNow(long ticket)
    {
        _exchange.Enter(ticket);
        try
        {
            _exchange.Start();
        }
        finally
        {
            _exchange.Exit(ticket);
        }
    }

    async Task IHttpResponseBodyFeature.CompleteAsync()
    {
        long ticket = _ticket.For(_exchange);
        if (_exchange.HasEnded)
        {
            return;
        }

        if (StartResponse() is { } starting)
        {
            await starting;
        }

        ValueTask sent;
        _exchange.Enter(ticket);
        try
        {
            sent = _exchange.Complete();
        }
        finally
        {
            _exchange.ExitForGood(ticket);
        }

        await sent;
    }

    async Task IHttpResponseBodyFeature.SendFileAsync(string path, long offset, long? count, CancellationToken cancellationToken)
    {
        long ticket = _ticket.For(_exchange);
        ArgumentOutOfRangeException.ThrowIfNegative(offset);
        using SafeFileHandle file = File.OpenHandle(path);
        long length = RandomAccess.GetLength(file);
        long bytes = count ?? length - offset;
        if (offset > length || bytes < 0 || bytes > length - offset)
        {
            throw new ArgumentOutOfRangeException(nameof(count), $"{path} has {length} bytes; {bytes} from {offset} on are not in it.");
        }

        if (StartResponse() is { } starting)
        {
            await starting;
        }

        await _exchange.SendFileAsync(file, offset, bytes, ticket, cancellationToken);
    }

    // ---- callbacks ----

    public bool HasOnCompleted => _onCompleted is { Count: > 0 };

    /// <summary>Runs the OnStarting callbacks, the last registered first; null when nothing is left to wait for.</summary>
    public Task? StartResponse()
    {
        if (_exchange.HasStarted || _onStarting is not { Count: > 0 })
        {
            return null;
        }

        Task running = RunOnStarting(_onStarting);
        if (running.IsCompletedSuccessfully)
        {
            return null;
        }

        _starting = running;
        return running;
    }

    /// <summary>Callbacks that somebody else has set off and that still run. A callback that writes does not wait for itself.</summary>
    public Task? Starting => _starting is { IsCompletedSuccessfully: false } ? _starting : null;

    private static async Task RunOnStarting(Stack<KeyValuePair<Func<object, Task>, object>> callbacks)
    {
        while (callbacks.TryPop(out KeyValuePair<Func<object, Task>, object> callback))
        {
            await callback.Key(callback.Value);
        }
    }

    public async Task RunOnCompleted()
    {
        while (_onCompleted!.TryPop(out KeyValuePair<Func<object, Task>, object> callback))
        {
            try
            {
                await callback.Key(callback.Value);
            }
            catch (Exception error)
            {
                _exchange.Services.Log.CallbackFailed(_exchange.TraceIdentifier, error);
            }
        }
    }

    /// <summary>The handler has failed: callbacks that have not run will not.</summary>
    public void DropOnStarting() => _onStarting?.Clear();

    private void CheckNotStarted(string what)
    {
        if (_exchange.HasStarted)
        {
            throw new InvalidOperationException($"{what} cannot be set because the response has already started.");
        }
    }

    private void ResetResponse()
    {
        _onStarting?.Clear();
        _onCompleted?.Clear();
        _starting = null;
        _stream = null;
        _replacedStream = null;
        if (_writerTaken)
        {
            _writerTaken = false;
            if (!_writer!.End())
            {
                _writer = null;
            }
        }
    }
}
