// The command `millrace` (or a sample) as a process of its own, the way a user starts it. Ended by its process id only.

using System.Diagnostics;
using System.Runtime.InteropServices;
using System.Text;

namespace Millrace.Interop.Command;

internal sealed partial class CommandProcess : IAsyncDisposable
{
    public const int SigInt = 2;
    public const int SigTerm = 15;
    public const int SigKill = 9;

    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(60);

    private readonly Process _process;
    private readonly StringBuilder _output = new();
    private readonly StringBuilder _error = new();

    private CommandProcess(Process process)
    {
        _process = process;
        process.OutputDataReceived += (_, line) => Append(_output, line.Data);
        process.ErrorDataReceived += (_, line) => Append(_error, line.Data);
        process.BeginOutputReadLine();
        process.BeginErrorReadLine();
    }

    public int Id => _process.Id;

    public string Output => Read(_output);

    public string Error => Read(_error);

    /// <summary>The folder of the solution this test was built from.</summary>
    public static string Repository { get; } = FindRepository();

    /// <summary>The assembly of a project, as built with this test.</summary>
    public static string AssemblyOf(string project, string name)
    {
        string configuration = new DirectoryInfo(AppContext.BaseDirectory).Parent!.Name;
        return Path.Combine(Repository, project, "bin", configuration, "net10.0", name + ".dll");
    }

    public static CommandProcess Start(string assembly, params IEnumerable<string> arguments) => StartProgram("dotnet", [assembly, .. arguments]);

    /// <summary>Any program, as a user or a service manager starts it.</summary>
    public static CommandProcess StartProgram(string program, params IEnumerable<string> arguments)
    {
        // What nohup starts ignores SIGHUP, and so does all that it starts.
        var start = new ProcessStartInfo("env", ["--default-signal=HUP", program, .. arguments])
        {
            RedirectStandardOutput = true,
            RedirectStandardError = true,
            WorkingDirectory = Repository,
        };
        // What the machine this test runs on says about addresses is not the test's business.
        start.Environment.Remove("ASPNETCORE_URLS");
        start.Environment.Remove("ASPNETCORE_ENVIRONMENT");
        start.Environment.Remove("MILLRACE_COMMAND");
        return new CommandProcess(Process.Start(start)!);
    }

    private static string HostAssembly => AssemblyOf("src/Millrace.Command", "Millrace.Command");

    public static CommandProcess Millrace(params IEnumerable<string> arguments) => Start(HostAssembly, arguments);

    /// <summary>The command with variables in its environment.</summary>
    public static CommandProcess MillraceWith(IEnumerable<string> variables, params IEnumerable<string> arguments) => StartProgram("env", [.. variables, "dotnet", HostAssembly, .. arguments]);

    /// <summary>The command as a terminal starts it: what a shell starts in the background ignores SIGINT, and so does all that it starts.</summary>
    public static CommandProcess HeedingSignals(params IEnumerable<string> arguments) =>
        StartProgram("env", ["--default-signal=INT", "dotnet", HostAssembly, .. arguments]);

    /// <summary>Runs the command to its end.</summary>
    public static async Task<(int ExitCode, string Output, string Error)> RunAsync(params IEnumerable<string> arguments)
    {
        await using var process = Millrace(arguments);
        int exitCode = await process.WaitForExitAsync();
        return (exitCode, process.Output, process.Error);
    }

    /// <summary>Waits until a text has been printed on standard output.</summary>
    public Task WaitForOutputAsync(string text) => WaitForAsync(() => Output, text);

    /// <summary>Waits until a text has been printed on standard error.</summary>
    public Task WaitForErrorAsync(string text) => WaitForAsync(() => Error, text);

    public Task<int> WaitForExitAsync() => WaitForExitAsync(Patience);

    public async Task<int> WaitForExitAsync(TimeSpan patience)
    {
        using var deadline = new CancellationTokenSource(patience);
        await _process.WaitForExitAsync(deadline.Token);
        return _process.ExitCode;
    }

    public void Signal(int signal) => Assert.Equal(0, Kill(_process.Id, signal));

    public async ValueTask DisposeAsync()
    {
        if (!_process.HasExited)
        {
            _ = Kill(_process.Id, SigTerm);
            try
            {
                await WaitForExitAsync();
            }
            catch (OperationCanceledException)
            {
                _process.Kill(entireProcessTree: true);
            }
        }
        _process.Dispose();
    }

    private async Task WaitForAsync(Func<string> printed, string text)
    {
        long started = Stopwatch.GetTimestamp();
        while (!printed().Contains(text, StringComparison.Ordinal))
        {
            if (_process.HasExited || Stopwatch.GetElapsedTime(started) > Patience)
            {
                throw new IOException($"'{text}' was not printed. Output: {Output} Error: {Error}");
            }
            await Task.Delay(20);
        }
    }

    private static void Append(StringBuilder text, string? line)
    {
        if (line is not null)
        {
            lock (text)
            {
                text.Append(line).Append('\n');
            }
        }
    }

    private static string Read(StringBuilder text)
    {
        lock (text)
        {
            return text.ToString();
        }
    }

    private static string FindRepository()
    {
        var folder = new DirectoryInfo(AppContext.BaseDirectory);
        while (!File.Exists(Path.Combine(folder.FullName, "Millrace.slnx")))
        {
            folder = folder.Parent ?? throw new DirectoryNotFoundException("The tests of the command run from inside a clone of the repository.");
        }
        return folder.FullName;
    }

    [LibraryImport("libc", EntryPoint = "kill")]
    private static partial int Kill(int process, int signal);
}
