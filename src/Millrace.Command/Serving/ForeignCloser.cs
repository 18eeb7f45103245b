// Closes connections that an application has had, and what has come through its channel, one behind the other, each as slowly as that application likes: they keep one thread at most.

using Millrace.Platform;

namespace Millrace.Command.Serving;

/// <param name="whose">The application's name, for a sentence.</param>
internal sealed class ForeignCloser(string whose)
{
    private readonly Lock _lock = new();
    private readonly Queue<int> _left = [];
    private Action? _then;
    private bool _isClosing;
    private long _call;     // one for all, since behind each waits the next

    /// <summary>Where a call waits that closes one, for a sentence.</summary>
    public string Where { get; } = "what " + whose + " has sent";

    /// <summary>Closes these, and does not wait for it. Where the system gives no thread one of the pool's does it: who is at the other end of a connection is to see its end.</summary>
    public void Close(IEnumerable<int> descriptors)
    {
        lock (_lock)
        {
            foreach (int descriptor in descriptors)
            {
                _left.Enqueue(descriptor);
            }
            if (_isClosing || _left.Count == 0)
            {
                return;
            }
            _isClosing = true;
            _call = ForeignCalls.Begin(Where);
        }
        if (!ForeignDescriptor.TryStart(CloseAll))
        {
            _ = ThreadPool.UnsafeQueueUserWorkItem(static its => its.CloseAll(), this, preferLocal: false);
        }
    }

    /// <summary>Has this called when all are closed, on another thread. False: all are, and it is not called.</summary>
    public bool TryFollow(Action then)
    {
        lock (_lock)
        {
            _then += _isClosing ? then : null;
            return _isClosing;
        }
    }

    private void CloseAll()
    {
        Action? then;
        while (TryNext(out int descriptor, out then))
        {
            _ = SystemCalls.Close(descriptor);
        }
        then?.Invoke();
    }

    private bool TryNext(out int descriptor, out Action? then)
    {
        lock (_lock)
        {
            then = null;
            if (_left.TryDequeue(out descriptor))
            {
                return true;
            }
            _isClosing = false;
            ForeignCalls.End(_call);
            (then, _then) = (_then, null);
            return false;
        }
    }
}
