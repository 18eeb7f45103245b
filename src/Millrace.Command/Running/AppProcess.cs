// The app as a child process with the start-up hook: its terminal is ours, its signals are ours, its exit code becomes ours.
// The hook reports the real addresses over a pipe once the app listens.

using System.Diagnostics;
using System.IO.Pipes;
using System.Runtime.InteropServices;

namespace Millrace.Command.Running;

/// <param name="App">What to start.</param>
/// <param name="Addresses">Addresses to listen on, or null for those of the app and its environment.</param>
/// <param name="AreChosen">Whether nobody named these addresses.</param>
/// <param name="EnvironmentName">ASP.NET Core's environment (Development, Production), or null for the one that is set.</param>
/// <param name="Arguments">Arguments for the app.</param>
internal sealed record AppStart(RunnableApp App, IReadOnlyList<string>? Addresses, bool AreChosen, string? EnvironmentName, IReadOnlyList<string> Arguments);

internal sealed class AppProcess : IDisposable
{
    /// <summary>How the user called the command, set by its launcher; not for the app.</summary>
    public const string CommandVariable = "MILLRACE_COMMAND";

    // For what the app said last, once it has ended: the pipe does not end with it where a child of its holds it too.
    private static readonly TimeSpan s_lastWordPatience = TimeSpan.FromMilliseconds(500);

    private readonly AnonymousPipeServerStream _report = new(PipeDirection.In, HandleInheritability.Inheritable);
    private readonly List<PosixSignalRegistration> _signals = [];
    private readonly Lock _starting = new();
    private Process? _process;      // null until it has been started
    private int _earlySignal;       // the last that came before that; 0 for none
    private int _interrupts;
    private volatile bool _isReady;  // signals that mean nothing to the app do not end it any more

    private AppProcess()
    {
    }

    public static AppProcess Start(AppStart start)
    {
        var app = new AppProcess();
        try
        {
            // In this order: a signal that comes between the two would end the command alone, and leave the app behind.
            app.PassSignalsOn();
            app.Launch(start);
            return app;
        }
        catch
        {
            app.Dispose();
            throw;
        }
    }

    /// <summary>Waits until the app listens.</summary>
    /// <param name="chosen">Its addresses as they were chosen, or null where somebody named them.</param>
    /// <returns>Its addresses with real ports; empty if it ended, or builds no web host after all.</returns>
    /// <exception cref="CommandFailure">The server could not start.</exception>
    public async Task<IReadOnlyList<string>> WaitForAddressesAsync(ChosenAddresses? chosen)
    {
        // The reader is not disposed of: it may wait for good, on a pipe that somebody else keeps open.
        var report = new StreamReader(_report).ReadLineAsync();
        await Task.WhenAny(report, _process!.WaitForExitAsync());
        string? line = await Task.WhenAny(report, Task.Delay(s_lastWordPatience)) == report ? await report : null;
        if (line is [('!' or '?') and var kind, .. var reason])
        {
            await WaitForExitAsync();
            throw new CommandFailure(ExitCode.Failure, kind == '!' && chosen is not null ? chosen.Explain(reason) : reason);
        }
        return line is null ? [] : line.Split(';', StringSplitOptions.RemoveEmptyEntries);
    }

    /// <returns>The app's exit code; 128 + signal if a signal ended it.</returns>
    public async Task<int> WaitForExitAsync()
    {
        var process = _process!;
        await process.WaitForExitAsync();
        return process.ExitCode;
    }

    public void Dispose()
    {
        foreach (var signal in _signals)
        {
            signal.Dispose();
        }
        if (_process is not null)
        {
            Send(Posix.SigTerm);    // the command ends by a failure of its own: its app does not outlive it
        }
        _report.Dispose();
        _process?.Dispose();
    }

    internal static ProcessStartInfo Describe(AppStart start, string reportDescriptor)
    {
        var info = new ProcessStartInfo(start.App.Executable ?? DotNet.Path) { WorkingDirectory = start.App.WorkingDirectory };
        if (start.App.Executable is null)
        {
            info.ArgumentList.Add(start.App.Assembly);
        }
        foreach (string argument in start.Arguments)
        {
            info.ArgumentList.Add(argument);
        }
        string hook = Path.Combine(AppContext.BaseDirectory, "Millrace.StartupHook.dll");
        string? others = Environment.GetEnvironmentVariable("DOTNET_STARTUP_HOOKS");
        info.Environment["DOTNET_STARTUP_HOOKS"] = string.IsNullOrEmpty(others) ? hook : hook + ":" + others;
        info.Environment.Remove(CommandVariable);
        info.Environment["MILLRACE_RUN_REPORT"] = reportDescriptor;
        PassedSockets.OfProcess().Describe(info.Environment, Environment.ProcessId);
        if (start.Addresses is not null)
        {
            info.Environment["MILLRACE_RUN_URLS"] = string.Join(';', start.Addresses);
            if (start.AreChosen)
            {
                info.Environment["MILLRACE_RUN_CHOSEN"] = "1";
            }
        }
        if (start.EnvironmentName is not null)
        {
            info.Environment["ASPNETCORE_ENVIRONMENT"] = start.EnvironmentName;
            info.Environment["DOTNET_ENVIRONMENT"] = start.EnvironmentName;
        }
        return info;
    }

    private void Launch(AppStart start)
    {
        Process process;
        try
        {
            process = Process.Start(Describe(start, _report.GetClientHandleAsString())) ?? throw new CommandFailure(ExitCode.Failure, "The application could not be started.");
        }
        catch (System.ComponentModel.Win32Exception error)
        {
            throw new CommandFailure(ExitCode.Failure, $"{start.App.Executable ?? DotNet.Path} cannot be started: {error.Message}. Install .NET 10, or publish the application again.");
        }
        finally
        {
            _report.DisposeLocalCopyOfClientHandle();
        }
        lock (_starting)
        {
            _process = process;
        }
        if (_earlySignal != 0)
        {
            Send(_earlySignal);
        }
    }

    // A terminal sends Ctrl+C to the app as well; it ends once all the same. Whoever presses it twice means it.
    private void PassSignalsOn()
    {
        foreach (var signal in (ReadOnlySpan<PosixSignal>)[PosixSignal.SIGINT, PosixSignal.SIGTERM, PosixSignal.SIGQUIT])
        {
            _signals.Add(PosixSignalRegistration.Create(signal, context =>
            {
                context.Cancel = true;
                bool isSecondInterrupt = context.Signal == PosixSignal.SIGINT && Interlocked.Increment(ref _interrupts) > 1;
                Send(isSecondInterrupt ? Posix.SigKill : context.Signal == PosixSignal.SIGINT ? Posix.SigInt : Posix.SigTerm);
            }));
        }
        foreach (int signal in (ReadOnlySpan<int>)[Posix.SigHup, Posix.SigUsr1, Posix.SigUsr2])
        {
            _signals.Add(PosixSignalRegistration.Create((PosixSignal)signal, context =>
            {
                context.Cancel = true;
                PassOn(signal);
            }));
        }
    }

    /// <summary>The app listens, or has no server to wait for: what SIGHUP, SIGUSR1 and SIGUSR2 mean is its own decision from now on.</summary>
    public void PassAllSignalsOn() => _isReady = true;

    // Before, they would end it as they end any program: SIGHUP does, since the terminal may have gone, and the others do nothing.
    private void PassOn(int signal)
    {
        if (_isReady)
        {
            Send(signal);
        }
        else if (signal == Posix.SigHup)
        {
            Send(Posix.SigTerm);
        }
    }

    private void Send(int signal)
    {
        lock (_starting)
        {
            if (_process is null)
            {
                _earlySignal = signal;
                return;
            }
        }
        try
        {
            if (!_process.HasExited)
            {
                _ = Posix.Kill(_process.Id, signal);
            }
        }
        catch (InvalidOperationException)
        {
            // It has ended and been disposed of meanwhile.
        }
    }
}
