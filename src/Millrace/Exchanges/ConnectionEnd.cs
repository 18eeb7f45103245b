// What an application asks to be told of a connection beyond its request: that it is to end, and that it has ended. Made when somebody
// asks. All of it is user code, and none of it runs on a loop.

using Millrace.Platform;

namespace Millrace.Exchanges;

[System.Diagnostics.CodeAnalysis.SuppressMessage("Reliability", "CA1001", Justification = "The token sources are left to the garbage collector: their tokens may be kept for ever. They hold no timer.")]
internal sealed class ConnectionEnd(ExchangeServices services)
{
    private readonly SteadyLock _lock = new();
    private readonly CancellationTokenSource _requested = new();
    private readonly CancellationTokenSource _closed = new();
    private readonly Stack<(Func<object, Task> Callback, object State)> _callbacks = new();
    private bool _isRequested;      // both under the lock
    private bool _isClosed;

    /// <summary>Fires when the connection ends behind the request in progress, on the word of the server or of the application, and at the latest when it has ended.</summary>
    public CancellationToken Requested => _requested.Token;

    /// <summary>Fires when the peer has gone, or the connection has ended.</summary>
    public CancellationToken Closed => _closed.Token;

    /// <summary>Is called when the connection has ended, last registered first. While a request of the connection is in progress: it has not ended then.</summary>
    public void OnCompleted(Func<object, Task> callback, object state)
    {
        using (_lock.Hold())
        {
            _callbacks.Push((callback, state));
        }
    }

    /// <summary>Any thread, any number of times.</summary>
    public void Request() => Fire(ref _isRequested, _requested);

    /// <summary>The peer has gone: the connection ends when the request in progress does. Any thread, any number of times.</summary>
    public void Close()
    {
        Request();
        Fire(ref _isClosed, _closed);
    }

    /// <summary>The connection has ended, or is another server's. Once, by its loop.</summary>
    public void Complete()
    {
        Close();
        if (_callbacks.Count > 0)
        {
            services.RunUserCode(static state => _ = ((ConnectionEnd)state!).RunCallbacks(), this);
        }
    }

    private void Fire(ref bool isFired, CancellationTokenSource source)
    {
        using (_lock.Hold())
        {
            if (isFired)
            {
                return;
            }

            isFired = true;
        }

        services.Cancel(source);
    }

    private async Task RunCallbacks()
    {
        while (_callbacks.TryPop(out (Func<object, Task> Callback, object State) next))
        {
            try
            {
                await next.Callback(next.State).ConfigureAwait(false);
            }
            catch (Exception error)
            {
                services.Log.ContinuationFailed(error);
            }
        }
    }
}
