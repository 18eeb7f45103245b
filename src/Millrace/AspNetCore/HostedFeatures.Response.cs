// The features that make the response.

using System.IO.Pipelines;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.Primitives;
using Microsoft.Win32.SafeHandles;
using Millrace.Exchanges;

namespace Millrace.AspNetCore;

internal sealed partial class HostedFeatures : IHttpResponseFeature, IHttpResponseBodyFeature, IOpenFileFeature
{
    private Stack<KeyValuePair<Func<object, Task>, object>>? _onCompleted;
    private HeaderView? _responseHeaders;
    private ResponseStream? _stream;
    private ResponseWriter? _writer;

    int IHttpResponseFeature.StatusCode
    {
        get
        {
            using ExchangeUse use = Use();
            return Exchange.Answer.StatusCode;
        }

        set
        {
            using ExchangeUse use = Use();
            CheckNotStarted("StatusCode");
            Exchange.Answer.StatusCode = value;
        }
    }

    string? IHttpResponseFeature.ReasonPhrase
    {
        get
        {
            using ExchangeUse use = Use();
            return Exchange.Answer.ReasonPhrase;
        }

        set
        {
            using ExchangeUse use = Use();
            CheckNotStarted("ReasonPhrase");
            Exchange.Answer.ReasonPhrase = string.IsNullOrEmpty(value) ? null : value;      // the usual one, as on Kestrel
        }
    }

    IHeaderDictionary IHttpResponseFeature.Headers
    {
        get
        {
            Check();
            return _responseHeaders ??= new HeaderView(Exchange, Ticket, Exchange.Answer.Headers);
        }

        set
        {
            KeyValuePair<string, StringValues>[] entries = [.. value];
            using ExchangeUse use = Use();
            Exchange.Answer.Headers.Clear();
            foreach (KeyValuePair<string, StringValues> entry in entries)
            {
                Exchange.Answer.Headers[entry.Key] = entry.Value;
            }
        }
    }

    Stream IHttpResponseFeature.Body
    {
        get => ((IHttpResponseBodyFeature)this).Stream;
        set
        {
            using ExchangeUse use = Use();
            Stream? other = ReferenceEquals(value, _stream) ? null : value;
            Rare.ResponseBody = other;
            Exchange.Answer.IsBehindAnother |= other is not null;
        }
    }

    bool IHttpResponseFeature.HasStarted
    {
        get
        {
            using ExchangeUse use = Use();
            return Exchange.Answer.HasStarted;
        }
    }

    void IHttpResponseFeature.OnStarting(Func<object, Task> callback, object state)
    {
        using ExchangeUse use = Use();
        CheckNotStarted("OnStarting");
        (Rare.OnStarting ??= new()).Push(new(callback, state));
    }

    void IHttpResponseFeature.OnCompleted(Func<object, Task> callback, object state)
    {
        Check();
        (_onCompleted ??= new()).Push(new(callback, state));
    }

    // What was set in IHttpResponseFeature takes the place of the stream, and gets files, as on Kestrel; the writer stays the server's own.
    Stream IHttpResponseBodyFeature.Stream
    {
        get
        {
            Check();
            return _rarity?.ResponseBody ?? (_stream ??= new ResponseStream(Exchange, Ticket, this));
        }
    }

    PipeWriter IHttpResponseBodyFeature.Writer
    {
        get
        {
            Check();
            return _writer ??= new ResponseWriter(this);
        }
    }

    // Nothing is held back longer than the handler's own turn.
    void IHttpResponseBodyFeature.DisableBuffering() => Check();

    // One that has begun has, also where it is complete: as on Kestrel, nothing happens then.
    Task IHttpResponseBodyFeature.StartAsync(CancellationToken cancellationToken)
    {
        if (((IHttpResponseFeature)this).HasStarted)
        {
            return Task.CompletedTask;
        }

        Exchange.CheckWanted(Ticket, cancellationToken);
        if (StartResponse() is { } starting)
        {
            return StartLater(starting);
        }

        StartNow();
        return Task.CompletedTask;
    }

    private async Task StartLater(Task starting)
    {
        await starting.ConfigureAwait(false);
        if (!HasEnded)
        {
            StartNow();     // nobody has completed it meanwhile
        }
    }

    private void StartNow()
    {
        Exchange.Gate.Enter(Ticket);
        try
        {
            Exchange.Answer.Start();
        }
        finally
        {
            Exchange.Gate.Exit(Ticket);
        }
    }

    async Task IHttpResponseBodyFeature.CompleteAsync()
    {
        if (HasEnded)
        {
            return;
        }

        if (StartResponse() is { } starting)
        {
            await starting.ConfigureAwait(false);
        }

        await Exchange.Writes.WhenIdle(Ticket).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (!Exchange.Gate.TryEnterAgain(Ticket))
        {
            _ = HasEnded;   // another call has completed it meanwhile, or the request is over
            return;
        }

        await Complete().ConfigureAwait(false);
    }

    // Within the gate, which it leaves: for good, unless bytes are missing that the handler may still write.
    private ValueTask Complete()
    {
        try
        {
            Exchange.Answer.CheckWhole();
        }
        catch
        {
            Exchange.Gate.Exit(Ticket);
            throw;
        }

        try
        {
            return Exchange.Complete();
        }
        finally
        {
            Exchange.Gate.ExitForGood(Ticket);
        }
    }

    private bool HasEnded
    {
        get
        {
            using ExchangeUse use = Use();
            return Exchange.Answer.IsWritten;
        }
    }

    async Task IHttpResponseBodyFeature.SendFileAsync(string path, long offset, long? count, CancellationToken cancellationToken)
    {
        Check();
        if (_rarity?.ResponseBody is { } other)
        {
            await SendFileFallback.SendFileAsync(other, path, offset, count, cancellationToken).ConfigureAwait(false);
            return;
        }

        ArgumentOutOfRangeException.ThrowIfNegative(offset);
        using SafeFileHandle file = SentFile.Open(path);
        long length = RandomAccess.GetLength(file);
        long bytes = count ?? length - offset;
        if (offset > length || bytes < 0 || bytes > length - offset)
        {
            throw new ArgumentOutOfRangeException(nameof(count), $"{path} has {length} bytes; {bytes} from {offset} on are not in it.");
        }

        await SendAsync(file, offset, bytes, count is null ? FileExtent.ToTheEnd : FileExtent.Counted, cancellationToken).ConfigureAwait(false);
    }

    Task IOpenFileFeature.SendFileAsync(SafeFileHandle file, long offset, long count, CancellationToken cancellationToken)
    {
        Check();
        return SendAsync(file, offset, count, FileExtent.Counted, cancellationToken);
    }

    private async Task SendAsync(SafeFileHandle file, long offset, long bytes, FileExtent extent, CancellationToken cancellationToken)
    {
        Exchange.CheckWanted(Ticket, cancellationToken);
        if ((bytes > 0 || extent == FileExtent.ToTheEnd) && StartResponse() is { } starting)
        {
            await starting.ConfigureAwait(false);
        }

        await Exchange.Writes.While(Exchange.Writes.SendFile(file, offset, bytes, extent, Ticket, cancellationToken), Ticket, cancellationToken).ConfigureAwait(false);
    }

    // ---- callbacks ----

    public bool HasOnCompleted => _onCompleted is { Count: > 0 };

    /// <summary>Runs the OnStarting callbacks, the last registered first; null when nothing is left to wait for.</summary>
    public override Task? StartResponse()
    {
        if (_rarity is not { } rare)
        {
            return null;
        }

        if (rare.Starting is { IsCompleted: true, IsCompletedSuccessfully: false } failed)
        {
            return failed;      // the response must not begin without what one of them was to do
        }

        if (rare.OnStarting is not { Count: > 0 } callbacks || ((IHttpResponseFeature)this).HasStarted)
        {
            return null;
        }

        Task running = RunOnStarting(callbacks);
        if (running.IsCompletedSuccessfully)
        {
            return null;
        }

        rare.Starting = running;
        return running;
    }

    /// <summary>Callbacks that somebody else has set off and that still run. A callback that writes does not wait for itself.</summary>
    public Task? Starting => _rarity?.Starting is { IsCompletedSuccessfully: false } starting ? starting : null;

    private static async Task RunOnStarting(Stack<KeyValuePair<Func<object, Task>, object>> callbacks)
    {
        while (callbacks.TryPop(out KeyValuePair<Func<object, Task>, object> callback))
        {
            await callback.Key(callback.Value).ConfigureAwait(false);
        }
    }

    public async Task RunOnCompleted()
    {
        while (_onCompleted!.TryPop(out KeyValuePair<Func<object, Task>, object> callback))
        {
            try
            {
                await callback.Key(callback.Value).ConfigureAwait(false);
            }
            catch (Exception error)
            {
                Exchange.Services.Log.CallbackFailed(Exchange.TraceIdentifier, error);
            }
        }
    }

    /// <summary>The handler has failed: callbacks that have not run will not.</summary>
    public void DropOnStarting() => _rarity?.OnStarting?.Clear();

    // Within a use.
    private void CheckNotStarted(string what)
    {
        if (Exchange.Answer.HasStarted)
        {
            throw new InvalidOperationException($"{what} cannot be set because the response has already started.");
        }
    }
}
