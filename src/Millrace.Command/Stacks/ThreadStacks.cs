// What the threads of a .NET process do just now, read from a small dump that its own runtime writes: no right to trace processes is needed, and nothing in the
// process has to answer but the runtime.

using System.Globalization;
using Microsoft.Diagnostics.Runtime;
using Millrace.Command.Running;

namespace Millrace.Command.Stacks;

/// <summary>What one thread does: the methods it is in, the innermost first.</summary>
/// <param name="Thread">As the kernel numbers it.</param>
/// <param name="Methods">Empty where it runs nothing of .NET's.</param>
internal sealed record ThreadStack(int Thread, IReadOnlyList<string> Methods);

internal static class ThreadStacks
{
    /// <summary>Methods of a thread that are told. An endless recursion has more.</summary>
    public const int MethodsMax = 60;

    /// <exception cref="CommandFailure">They cannot be had.</exception>
    /// <exception cref="OperationCanceledException">Its runtime has not answered in time.</exception>
    public static async Task<IReadOnlyList<ThreadStack>> ReadAsync(int process, CancellationToken ct)
    {
        // Of no file system: nothing is left behind, whatever happens, and what the process has in its memory is nobody else's to read.
        using var dump = Posix.MemoryFile("millrace-stacks");
        try
        {
            string path = string.Create(CultureInfo.InvariantCulture, $"/proc/{Environment.ProcessId}/fd/{dump.DangerousGetHandle()}");
            await DiagnosticPort.DumpAsync(process, path, ct);
            return Read(path);
        }
        catch (Exception error) when (error is not OperationCanceledException)      // whatever it is: what is read is the process's own
        {
            throw new CommandFailure(ExitCode.Failure, $"The stacks of process {process} cannot be had: {error.Message.ReplaceLineEndings(" ").TrimEnd()}");
        }
    }

    // Neither is disposed of, which would unload a library of the runtime's: threads that have been in it go through it once more when they end. Whoever asks is a process for this alone.
    private static List<ThreadStack> Read(string dump)
    {
        var target = DataTarget.LoadDump(dump, File.OpenRead(dump));
        var runtime = target.ClrVersions.FirstOrDefault()?.CreateRuntime() ?? throw new InvalidOperationException("it has no .NET runtime that can be read.");
        return [.. runtime.Threads.Select(static thread => new ThreadStack((int)thread.OSThreadId, [.. Methods(thread)]))];
    }

    private static IEnumerable<string> Methods(ClrThread thread) => thread.EnumerateStackTrace(includeContext: false, MethodsMax * 2)
        .Select(static frame => frame.Method?.Signature ?? frame.Method?.Name)
        .OfType<string>()
        .Take(MethodsMax);
}
