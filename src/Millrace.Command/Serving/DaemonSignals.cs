// The signals of a daemon, whether it serves a file or one application: SIGTERM, SIGQUIT and Ctrl+C end it, and so does a SIGHUP that says that its terminal has gone; any other SIGHUP
// is its own matter. SIGUSR1 and SIGUSR2 do nothing.

using System.Runtime.InteropServices;
using Millrace.Command.Running;

namespace Millrace.Command.Serving;

internal sealed class DaemonSignals : IDisposable
{
    private readonly List<PosixSignalRegistration> _registrations = [];
    private readonly Action _end;
    private readonly Action _kill;
    private readonly Action _reload;
    private readonly bool _hasTerminal = TerminalIsThere();
    private int _ends;
    private int _hangUps;

    /// <param name="end">Begins the end: requests that are under way are answered first. Any number of times.</param>
    /// <param name="kill">Ends everything at once: whoever presses Ctrl+C twice means it.</param>
    /// <param name="reload">Is called for SIGHUP, unless that says that the terminal has gone.</param>
    public DaemonSignals(Action end, Action kill, Action reload)
    {
        (_end, _kill, _reload) = (end, kill, reload);
        foreach (var signal in (ReadOnlySpan<PosixSignal>)[PosixSignal.SIGINT, PosixSignal.SIGTERM, PosixSignal.SIGQUIT])
        {
            Take(signal, End);
        }
        Take(PosixSignal.SIGHUP, HungUp);       // not where it is ignored: what nohup has started
        _registrations.AddRange(Posix.IgnoreUserSignals());
    }

    /// <summary>Before there is anything that takes them: SIGHUP does not end what is about to read the file, unless it says that the terminal has gone.</summary>
    /// <param name="reload">Is called for any other.</param>
    public static PosixSignalRegistration TakeHangUp(Action reload)
    {
        bool hasTerminal = TerminalIsThere();
        return PosixSignalRegistration.Create(PosixSignal.SIGHUP, context =>
        {
            context.Cancel = !hasTerminal || TerminalIsThere();
            reload();
        });
    }

    public void Dispose() => _registrations.ForEach(static registration => registration.Dispose());

    private void End()
    {
        _end();
        if (Interlocked.Increment(ref _ends) > 1)
        {
            _kill();
        }
    }

    // The kernel says that the terminal has gone, and a shell says it once more to all that it has started: nobody means more by the second.
    private void HungUp()
    {
        if (!_hasTerminal || TerminalIsThere())
        {
            _reload();
        }
        else if (Interlocked.Increment(ref _hangUps) == 1)
        {
            End();
        }
    }

    // Its own, or that of its session, which a daemon has left (Inheritance).
    private static bool TerminalIsThere() => Posix.TerminalIsThere() || ServedProcess.HasTerminal(Posix.Session());

    private void Take(PosixSignal signal, Action action) => _registrations.Add(PosixSignalRegistration.Create(signal, context =>
    {
        context.Cancel = true;
        action();
    }));
}
