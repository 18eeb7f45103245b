// What a driver thread is to everybody who looks at it, as it was before handlers ran on it: a handler may change it for
// itself, and the next finds it as it was.

namespace Millrace.Platform;

[System.Diagnostics.CodeAnalysis.SuppressMessage("Reliability", "CA1001", Justification = "The event lives as long as its thread.")]
internal sealed class ThreadTraits
{
    private readonly ManualResetEvent _set = new(initialState: true);
    private Thread _thread;
    private string? _name;
    private bool _isBackground;
    private ThreadPriority _priority;

    private ThreadTraits() => TakeCurrent();

    /// <summary>Those of the calling thread.</summary>
    public static ThreadTraits OfCurrent() => new();

    /// <summary>From now on those of the calling thread.</summary>
    [System.Diagnostics.CodeAnalysis.MemberNotNull(nameof(_thread))]
    public void TakeCurrent()
    {
        _thread = Thread.CurrentThread;
        (_name, _isBackground, _priority) = (_thread.Name, _thread.IsBackground, _thread.Priority);
    }

    /// <summary>On the same thread, after a handler; <paramref name="all"/>: of code that may have changed more than its name.</summary>
    public void Restore(bool all)
    {
        if (!ReferenceEquals(_thread.Name, _name))
        {
            _thread.Name = _name;
        }

        if (!all)
        {
            return;
        }

        if (_thread.IsBackground != _isBackground)
        {
            _thread.IsBackground = _isBackground;
        }

        if (_thread.Priority != _priority)
        {
            RestorePriority();
        }
    }

    private void RestorePriority()
    {
        try
        {
            _thread.Priority = _priority;
        }
        catch (ThreadStateException)
        {
            // The handler has given the thread a scheduling policy of its own, by a system call: it keeps what it has.
        }
    }

    /// <summary>Takes back a Thread.Interrupt that nothing has waited for: the cheapest wait that asks for one, for what is there already.</summary>
    public void ForgetInterruption()
    {
        try
        {
            _set.WaitOne(0);
        }
        catch (ThreadInterruptedException)
        {
            // It was for a handler that has ended.
        }
    }
}
