// A request whose visitor may leave. Where nobody else has asked for its token the server tells of it without one (RequestLife.cs): it would be three objects for each request, and next to no visitor leaves.

using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Exchanges;
using Millrace.Platform;

namespace Millrace.Connector;

internal abstract class WatchedRequest(HttpContext context) : ICancelListener
{
    private CancellationToken? _leaving;        // null: nobody has asked for it here
    private RequestBound? _teller;              // whose request tells without it
    private volatile bool _hasLeft;             // as it has told

    /// <summary>Fires when the visitor leaves: the request's own, unless it has been set.</summary>
    protected CancellationToken Leaving
    {
        get => _leaving ??= context.RequestAborted;
        set => _leaving = value;
    }

    protected bool HasLeft => _hasLeft || _leaving is { IsCancellationRequested: true };

    /// <summary>The token of who has left, whether the request has ended by now or not.</summary>
    protected CancellationToken LeftToken => _leaving ?? new CancellationToken(canceled: true);

    /// <exception cref="OperationCanceledException">The visitor has left.</exception>
    protected void ThrowIfLeft()
    {
        if (HasLeft)
        {
            throw new OperationCanceledException(LeftToken);
        }
    }

    /// <summary>The visitor has left, between <see cref="BeginWatch"/> and <see cref="EndWatch"/>. Any thread, a little later.</summary>
    protected abstract Task AbortAsync();

    protected CancellationTokenRegistration BeginWatch()
    {
        if (_leaving is null && (context.AsMade() ?? context.Features.Get<IHttpRequestLifetimeFeature>()) is RequestBound its && its.Exchange.TryUse(its.Ticket, out ExchangeUse use))
        {
            using (use)
            {
                if (its.Exchange.Life.TryTell(this))
                {
                    _teller = its;
                    return default;
                }
            }
        }
        return Leaving.UnsafeRegister(static request => _ = ((WatchedRequest)request!).AbortAsync(), this);
    }

    /// <summary>From here on nobody is told. Who has left by now is known, and may be told of yet.</summary>
    protected void EndWatch(CancellationTokenRegistration watch)
    {
        watch.Dispose();
        if (_teller is not { } its)
        {
            return;
        }
        _teller = null;
        if (its.Exchange.TryUse(its.Ticket, out ExchangeUse use))
        {
            using (use)
            {
                its.Exchange.Life.Untell();
            }
        }
    }

    void ICancelListener.OnCancelled()
    {
        _hasLeft = true;
        Steady.Queue(static request => _ = ((WatchedRequest)request!).AbortAsync(), this);
    }
}
