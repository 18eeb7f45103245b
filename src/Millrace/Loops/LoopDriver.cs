// A thread that drives a loop, stands by to take one over, or runs single handlers as a worker. With it goes the scratch
// that makes requests cheap: an input and an output buffer (Exchanges/DriverBuffers.cs), parse tables and spare exchanges, used by one connection
// after the other. The thread itself is in DriverThread, which DriverPool has.

using Millrace.Exchanges;
using Millrace.Platform;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.Http1;

namespace Millrace.Loops;

internal sealed class LoopDriver(LoopServices services) : DriverBuffers(services)
{
    private readonly ThreadTraits _traits = ThreadTraits.OfCurrent();

    public CgiHead Cgi { get; } = new()
    {
        TargetLengthMax = Math.Max(services.Options.MaxRequestLineBytes, 16 * 1024),
        HeaderCountMax = services.Options.MaxHeaders + services.Options.RoutedFields,
        RefusesDotSegments = services.Options.DotSegments == DotSegments.Refuse,
        Repeats = services.Options.AmbiguousHeaders switch
        {
            AmbiguousHeaders.Refuse => HeaderRepeats.Refuse,
            AmbiguousHeaders.Keep => HeaderRepeats.Keep,
            _ => HeaderRepeats.Adaptive,
        },
        IsRouted = services.Options.IsRouted,
    };

    private Http1Head? _http1;

    /// <summary>A reader for a request head; it stays with a connection whose head arrives in pieces.</summary>
    public Http1Head TakeHttp1Head()
    {
        Http1Head head = _http1 ?? new Http1Head();
        _http1 = null;
        return head;
    }

    public void Return(Http1Head head) => _http1 = head;

    /// <summary>The context handlers must leave behind as they found it.</summary>
    public ExecutionContext Context { get; private set; } = ExecutionContext.Capture()!;

    /// <summary>The calling thread is the one it goes with. It is made before there is that thread, which would have nobody to tell that there is no memory.</summary>
    public void BeginThread()
    {
        _traits.TakeCurrent();
        Context = ExecutionContext.Capture()!;
        BeginBuffers();
    }

    /// <summary>Before user code: an interruption that came too late for what ran before is nobody's.</summary>
    public void ForgetInterruption()
    {
        if (services.Code.MayInterrupt)
        {
            _traits.ForgetInterruption();
        }
    }

    /// <summary>
    /// Undoes what a handler may have left on the thread: Activity.Current, culture, AsyncLocals, a synchronization context, the thread's
    /// name, priority and background state. Runs the change handlers of AsyncLocals, which are user code: on a loop it comes
    /// before <see cref="EventLoop.Leave"/>.
    /// </summary>
    public void RestoreContext()
    {
        SynchronizationContext.SetSynchronizationContext(null);
        if (!ReferenceEquals(ExecutionContext.Capture(), Context))
        {
            ForgetInterruption();       // it would end the process in a change handler that waits
            ExecutionContext.Restore(Context);
            SynchronizationContext.SetSynchronizationContext(null);
        }

        _traits.Restore(all: services.Code.MayChange);
    }
}
