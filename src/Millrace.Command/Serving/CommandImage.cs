// The command as it is installed where this process was started from: another version may lie there by now, or none.

using System.Collections;
using System.Diagnostics;
using System.Globalization;
using System.Text;
using Millrace.Command.Running;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal sealed class CommandImage
{
    /// <summary>The verb by which a program says whether it understands a state.</summary>
    public const string ProbeVerb = "takeover";

    /// <summary>The descriptor of the state that a program begins with.</summary>
    public const string StateVariable = "MILLRACE_SERVE_STATE";

    private const string RunningProgram = "/proc/self/exe";
    private const int WordsMax = 2000;

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(30);

    private readonly string _path;
    private readonly string[] _arguments;
    private readonly int _own;      // how many of them are the command itself

    private CommandImage(string path, string[] arguments)
    {
        (_path, _arguments) = (path, arguments);
        _own = Math.Max(1, Array.IndexOf(arguments, "serve"));
    }

    /// <summary>That of this process, asked at its start: what it was called by may be a link, and lead to another version later.</summary>
    public static CommandImage OfProcess()
    {
        string[] arguments = ControlFolder.Read("/proc/self", "cmdline").Split('\0')[..^1];
        string called = arguments.FirstOrDefault("");
        IEnumerable<string> places = called.Contains('/', StringComparison.Ordinal)
            ? [Path.GetFullPath(called)]
            : (Environment.GetEnvironmentVariable("PATH") ?? "").Split(':').Where(static folder => folder.StartsWith('/')).Select(folder => Path.Combine(folder, called));
        string? path = FileFacts.Behind(RunningProgram, out _) is { } running ? places.FirstOrDefault(place => FileFacts.Behind(place, out _) is { } its && its.IsSame(running)) : null;
        return new CommandImage(path ?? Environment.ProcessPath ?? called, arguments);
    }

    /// <summary>Has the program say whether it can go on from a state. The answer is why not, or null.</summary>
    public async Task<string?> WhyNotAsync(byte[] state)
    {
        if (DaemonState.WhyTooLong(state.Length) is { } tooLong)
        {
            return tooLong;
        }
        string name = string.Join(' ', _arguments[1.._own].Prepend(_path));
        using var limit = new CancellationTokenSource(s_patience);
        try
        {
            using var probe = ProcessStart.Now(Describe());
            try
            {
                var complaint = WordsAsync(probe.StandardError, limit.Token);
                var said = WordsAsync(probe.StandardOutput, limit.Token);
                await TellAsync(probe, state, limit.Token);
                await probe.WaitForExitAsync(limit.Token);
                _ = await said;
                string why = await complaint;
                return probe.ExitCode == 0 ? null : string.Create(CultureInfo.InvariantCulture, $"{name} cannot take over (exit code {probe.ExitCode}): {why}");
            }
            finally
            {
                probe.Kill();
            }
        }
        catch (Exception error) when (error is System.ComponentModel.Win32Exception or IOException or InvalidOperationException or CommandFailure)
        {
            return $"{name} cannot be started: {error.Message}.";
        }
        catch (OperationCanceledException)
        {
            return string.Create(CultureInfo.InvariantCulture, $"{name} has not said within {s_patience.TotalSeconds:0} s whether it can take over.");
        }
    }

    /// <summary>Makes this process that program, which goes on from a state. The answer comes only where that cannot be done: why.</summary>
    /// <param name="state">From where.</param>
    /// <param name="isOver">Asked last: whether this process is to end instead.</param>
    public string Become(DaemonState state, Func<bool> isOver) => ProcessStart.With(() =>
    {
        byte[] text = state.Write();
        if (DaemonState.WhyTooLong(text.Length) is { } tooLong)
        {
            return tooLong;     // since it was asked for: behind the next step it would be too late
        }
        using var memory = Posix.MemoryFile("millrace-state");
        RandomAccess.Write(memory, text, 0);
        int descriptor = (int)memory.DangerousGetHandle();
        int[] kept = [.. state.Descriptors.Append(descriptor).Where(static each => each >= 0)];
        var environment = Environment.GetEnvironmentVariables().Cast<DictionaryEntry>().Select(static variable => $"{variable.Key}={variable.Value}");
        Array.ForEach(kept, static each => _ = SystemCalls.Fcntl(each, SystemCalls.F_SETFD, 0));
        string why = isOver() ? "the daemon stops" : Posix.Execute(_path, _arguments, environment.Append(string.Create(CultureInfo.InvariantCulture, $"{StateVariable}={descriptor}")));
        Array.ForEach(kept, static each => _ = SystemCalls.Fcntl(each, SystemCalls.F_SETFD, SystemCalls.FD_CLOEXEC));
        return $"{_path} cannot be run: {why}.";
    });

    /// <summary>The state that this process begins with; null where it is a fresh one.</summary>
    /// <exception cref="CommandFailure">It is not understood.</exception>
    public static DaemonState? TakeState()
    {
        string? number = Environment.GetEnvironmentVariable(StateVariable);
        Environment.SetEnvironmentVariable(StateVariable, null);
        if (!int.TryParse(number, NumberStyles.None, CultureInfo.InvariantCulture, out int descriptor))
        {
            return null;
        }
        using var memory = new Microsoft.Win32.SafeHandles.SafeFileHandle(descriptor, ownsHandle: true);
        if (DaemonState.WhyTooLong(RandomAccess.GetLength(memory)) is { } tooLong)
        {
            throw new CommandFailure(ExitCode.Failure, tooLong);
        }
        byte[] text = new byte[RandomAccess.GetLength(memory)];
        _ = RandomAccess.Read(memory, text, 0);
        return DaemonState.Read(text, out string why) ?? throw new CommandFailure(ExitCode.Failure, why);
    }

    private ProcessStartInfo Describe()
    {
        var start = new ProcessStartInfo(_path, [.. _arguments[1.._own], ProbeVerb]) { RedirectStandardInput = true, RedirectStandardOutput = true, RedirectStandardError = true };
        foreach (string name in AppInstance.DaemonsOwn)
        {
            start.Environment.Remove(name);
        }
        return start;
    }

    private static async Task TellAsync(Process probe, byte[] state, CancellationToken ct)
    {
        try
        {
            await probe.StandardInput.BaseStream.WriteAsync(state, ct);
            probe.StandardInput.Close();
        }
        catch (IOException)
        {
            // It does not listen; what it has said says why.
        }
    }

    private static async Task<string> WordsAsync(StreamReader from, CancellationToken ct)
    {
        var text = new StringBuilder();
        var lines = new LineReader(from, WordsMax);
        while (await lines.ReadAsync(ct) is { } line)
        {
            text.Append(text.Length is > 0 and < WordsMax ? " " : "").Append(text.Length < WordsMax ? line : "");
        }
        return text.Length == 0 ? "it has said nothing" : text.ToString();
    }
}
