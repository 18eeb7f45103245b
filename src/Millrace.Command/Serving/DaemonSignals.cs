// The signals of a daemon, whether it serves a file or one application: SIGTERM, SIGQUIT and Ctrl+C end it, SIGHUP is its own matter, SIGUSR1 and SIGUSR2 do nothing.

using System.Runtime.InteropServices;
using Millrace.Command.Running;

namespace Millrace.Command.Serving;

internal sealed class DaemonSignals : IDisposable
{
    private readonly List<PosixSignalRegistration> _registrations = [];
    private readonly Action _end;
    private readonly Action _kill;
    private int _ends;

    /// <param name="end">Begins the end: requests that are under way are answered first. Any number of times.</param>
    /// <param name="kill">Ends everything at once: whoever presses Ctrl+C twice means it.</param>
    /// <param name="hangUp">Is called for SIGHUP.</param>
    public DaemonSignals(Action end, Action kill, Action<DaemonSignals> hangUp)
    {
        (_end, _kill) = (end, kill);
        foreach (var signal in (ReadOnlySpan<PosixSignal>)[PosixSignal.SIGINT, PosixSignal.SIGTERM, PosixSignal.SIGQUIT])
        {
            Take(signal, End);
        }
        Take(PosixSignal.SIGHUP, () => hangUp(this));
        _registrations.AddRange(Posix.IgnoreUserSignals());
    }

    /// <summary>As if one of those that end it had come.</summary>
    public void End()
    {
        _end();
        if (Interlocked.Increment(ref _ends) > 1)
        {
            _kill();
        }
    }

    public void Dispose() => _registrations.ForEach(static registration => registration.Dispose());

    private void Take(PosixSignal signal, Action action) => _registrations.Add(PosixSignalRegistration.Create(signal, context =>
    {
        context.Cancel = true;
        action();
    }));
}
