// A process of an application, whoever has started it: this program, the one that this process was before, or a daemon that has gone. One that was not started
// here is held by a descriptor (pidfd_open(2)), so that no signal ever reaches another process that has got its number.

using System.Diagnostics;
using System.Globalization;
using Millrace.Command.Running;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal sealed class ServedProcess : IDisposable
{
    private const int NoSuchProcess = 3;    // ESRCH

    private readonly TaskCompletionSource<int?> _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly Process? _started;
    private readonly Lock _lock = new();
    private Doorbell.Watching? _watching;
    private int _descriptor = -1;

    private ServedProcess(int id, ulong startTime, Process? started) => (Id, StartTime, _started) = (id, startTime, started);

    public int Id { get; }

    /// <summary>When it was started, as the kernel counts: with its number it names one process and no other as long as the machine runs. 0 where it is not known.</summary>
    public ulong StartTime { get; }

    /// <summary>Ends with it: its exit code, or 128 and the signal that has ended it; null where that is not known.</summary>
    public Task<int?> Ended => _ended.Task;

    /// <summary>Resident memory in bytes; 0 where it cannot be had.</summary>
    public long Memory => Field(Text("statm").Split(' '), 1) * Environment.SystemPageSize;

    /// <summary>One that was started here.</summary>
    public static ServedProcess Of(Process process)
    {
        var served = new ServedProcess(process.Id, StartTimeOf(process.Id), process);
        _ = served.WaitAsync(process);
        return served;
    }

    /// <summary>One that was started before; it has ended already where no process has this number and this time.</summary>
    /// <exception cref="InstanceException">It is there, and cannot be held.</exception>
    public static ServedProcess Find(int id, ulong startTime)
    {
        var served = new ServedProcess(id, startTime, started: null) { _descriptor = Posix.OpenProcess(id) };
        if (served._descriptor < 0 && SystemCalls.Errno is not (NoSuchProcess or SystemCalls.EINVAL) and var errno)
        {
            throw new InstanceException(string.Create(CultureInfo.InvariantCulture, $"Process {id} cannot be held: {SystemCalls.Describe(errno)}."));
        }
        if (served._descriptor < 0 || StartTimeOf(id) != startTime)
        {
            served.End();
            return served;
        }
        _ = SystemCalls.Fcntl(served._descriptor, SystemCalls.F_SETFD, SystemCalls.FD_CLOEXEC);
        try
        {
            served._watching = Doorbell.Watch(served._descriptor, _ => served.End());
        }
        catch (MillraceStartException error)
        {
            served.Dispose();
            throw new InstanceException($"Process {id} cannot be watched: {error.Message}");
        }
        return served;
    }

    /// <summary>Ends one that nobody looks after.</summary>
    public static void Kill(int id, ulong startTime)
    {
        int descriptor = Posix.OpenProcess(id);
        if (StartTimeOf(id) == startTime)
        {
            if (descriptor >= 0)
            {
                Posix.Send(descriptor, Posix.SigKill);
            }
            else if (Fact(id, 1) == Environment.ProcessId)
            {
                _ = Posix.Kill(id, Posix.SigKill);      // a child keeps its number until it is waited for; to signal another's would be to signal anybody
            }
        }
        _ = descriptor >= 0 ? SystemCalls.Close(descriptor) : 0;
    }

    /// <summary>When a process was started, as the kernel counts; 0 where there is none.</summary>
    public static ulong StartTimeOf(int id) => (ulong)Fact(id, 19);

    /// <summary>Whether a process has a controlling terminal, and that has not gone.</summary>
    public static bool HasTerminal(int id) => Fact(id, 4) != 0;

    // proc_pid_stat(5): the name, in parentheses, may hold anything; the fields behind it are counted.
    private static long Fact(int id, int index)
    {
        string text = Text(id, "stat");
        return Field(text[(text.LastIndexOf(')') + 1)..].Split(' ', StringSplitOptions.RemoveEmptyEntries), index);
    }

    public void Signal(int signal)
    {
        lock (_lock)
        {
            if (_ended.Task.IsCompleted)
            {
                return;
            }
            if (_started is null)
            {
                Posix.Send(_descriptor, signal);
                return;
            }
            try
            {
                _ = _started.HasExited ? 0 : Posix.Kill(_started.Id, signal);
            }
            catch (InvalidOperationException)
            {
                // Disposed of meanwhile.
            }
        }
    }

    public void Dispose()
    {
        lock (_lock)
        {
            _watching?.Dispose();
            _ = _descriptor >= 0 ? SystemCalls.Close(_descriptor) : 0;
            _descriptor = -1;
            if (_started is null)
            {
                _ended.TrySetResult(null);
            }
        }
        _started?.Dispose();
    }

    private async Task WaitAsync(Process process)
    {
        try
        {
            await process.WaitForExitAsync().ConfigureAwait(false);
            _ended.TrySetResult(process.ExitCode);
        }
        catch (InvalidOperationException)
        {
            _ended.TrySetResult(null);      // disposed of meanwhile
        }
    }

    private void End()
    {
        lock (_lock)
        {
            _ended.TrySetResult(Posix.ExitCodeOf(Id));
        }
    }

    private string Text(string file) => _ended.Task.IsCompleted ? "" : Text(Id, file);

    private static string Text(int id, string file) => ControlFolder.Read(string.Create(CultureInfo.InvariantCulture, $"/proc/{id}"), file);

    private static long Field(string[] fields, int index) =>
        index < fields.Length && long.TryParse(fields[index], NumberStyles.None, CultureInfo.InvariantCulture, out long value) ? value : 0;
}
