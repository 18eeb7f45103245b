// SIGHUP, SIGUSR1 and SIGUSR2 end a process at once unless somebody takes them: a `kill -USR1` out of habit, as after the
// turning of logs, would cut every request short. Here they do nothing but a line in the log, unless the application has taken
// them before the server starts, or whoever started it has them ignored (nohup). A SIGHUP says that the terminal has gone
// where there is one: then a host stops, as for SIGTERM. Signals that stop a process on purpose are the host's.

using System.Globalization;
using System.Runtime.InteropServices;
using Millrace.Observe;

namespace Millrace;

internal sealed class IdleSignals : IDisposable
{
    private const PosixSignal UserSignal1 = (PosixSignal)10;     // positive numbers are those of the system, signal(7)
    private const PosixSignal UserSignal2 = (PosixSignal)12;

    private static readonly (PosixSignal Signal, int Number, string Name)[] s_signals =
        [(PosixSignal.SIGHUP, 1, "SIGHUP"), (UserSignal1, 10, "SIGUSR1"), (UserSignal2, 12, "SIGUSR2")];

    private static readonly Lock s_lock = new();
    private static readonly Dictionary<int, int> s_taken = [];      // by number: how many servers of this process have it

    private readonly List<(int Number, PosixSignalRegistration Registration)> _registrations = [];
    private readonly Log _log;
    private readonly Action? _stop;

    private IdleSignals(Log log, Action? stop) => (_log, _stop) = (log, stop);

    /// <summary>Takes those that nobody has taken.</summary>
    /// <param name="log">Says that one has come.</param>
    /// <param name="stop">Stops the application when its terminal goes; null where nobody can: then such a SIGHUP ends it as it would without a server.</param>
    /// <exception cref="MillraceStartException">What is taken already cannot be seen. Nothing is taken then.</exception>
    /// <remarks>Before the server starts: then none of them ends it, and what fails here fails while there is nothing to take down.</remarks>
    public static IdleSignals Take(Log log, Action? stop)
    {
        var signals = new IdleSignals(log, stop);
        try
        {
            signals.Take();
            return signals;
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            signals.Dispose();
            throw new MillraceStartException(
                $"Which signals are taken cannot be read from /proc ({error.Message}); allow the process more descriptors (ulimit -n, LimitNOFILE=), mount /proc, or set IgnoreSignals to false.", error);
        }
        catch
        {
            signals.Dispose();
            throw;
        }
    }

    private void Take()
    {
        lock (s_lock)
        {
            ulong foreign = CaughtOrIgnored();
            foreach ((PosixSignal signal, int number, string name) in s_signals)
            {
                bool isTerminals = signal == PosixSignal.SIGHUP && HasTerminal();
                int taken = s_taken.GetValueOrDefault(number);
                if ((taken > 0 || (foreign & (1UL << (number - 1))) == 0) && !(isTerminals && _stop is null))
                {
                    _registrations.Add((number, PosixSignalRegistration.Create(signal, context => OnSignal(context, name, isTerminals))));
                    s_taken[number] = taken + 1;
                }
            }
        }
    }

    private void OnSignal(PosixSignalContext context, string name, bool isTerminals)
    {
        context.Cancel = true;
        if (isTerminals)
        {
            _log.TerminalGone();
            _stop!();
        }
        else
        {
            _log.SignalIgnored(name);
        }
    }

    public void Dispose()
    {
        lock (s_lock)
        {
            foreach ((int number, PosixSignalRegistration registration) in _registrations)
            {
                registration.Dispose();
                s_taken[number]--;
            }

            _registrations.Clear();
        }
    }

    // proc(5): a mask in hexadecimal digits, the bit of signal 1 is the lowest.
    private static ulong CaughtOrIgnored()
    {
        ulong mask = 0;
        foreach (string line in File.ReadLines("/proc/self/status"))
        {
            if (line.StartsWith("SigIgn:", StringComparison.Ordinal) || line.StartsWith("SigCgt:", StringComparison.Ordinal))
            {
                mask |= ulong.Parse(line.AsSpan("SigIgn:".Length).Trim(), NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture);
            }
        }

        return mask;
    }

    // proc(5): the fifth number behind the name in parentheses is the controlling terminal's, 0 for none.
    private static bool HasTerminal()
    {
        string state = File.ReadAllText("/proc/self/stat");
        string[] fields = state[(state.LastIndexOf(')') + 2)..].Split(' ');
        return fields[4] != "0";
    }
}
