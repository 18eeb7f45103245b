// How a process is ended, and how it has ended.

using System.Globalization;
using Millrace.Command.Running;

namespace Millrace.Command.Serving;

internal sealed partial class AppInstance
{
    private volatile bool _hasSentDescriptors;

    /// <summary>Prints what its threads do, among what it has printed itself, before it is killed and nobody can look any more.</summary>
    public async Task PrintStacksAsync()
    {
        if (Exited.IsCompleted)
        {
            return;
        }
        foreach (string line in await StackReader.ReadAsync(ProcessId, _start.Settings))
        {
            await _start.Output.AddAsync(line);
        }
    }

    /// <summary>Has it end: what it serves is answered first.</summary>
    public void Terminate() => _process.Signal(Posix.SigTerm);

    /// <summary>Ends it now.</summary>
    public void Kill() => _process.Signal(Posix.SigKill);

    // Each message with some may keep a thread of the daemon's for good.
    private void EndForDescriptors()
    {
        _hasSentDescriptors = true;
        Kill();
    }

    public void Dispose()
    {
        if (Interlocked.Exchange(ref _disposed, 1) == 1)
        {
            return;
        }
        if (_process is not null)
        {
            Kill();
        }
        _client?.Dispose();
        LoseLifeline();
        _report?.Dispose();
        _channel?.Dispose();
        _private?.Dispose();
        _process?.Dispose();
        LeaveGroup();
    }

    private void LeaveGroup()
    {
        if (_group is not null)
        {
            _start.Groups.Leave(_group);
        }
    }

    private async Task<string> WaitForExitAsync()
    {
        int? code = await _process.Ended.ConfigureAwait(false);
        await _ended.CancelAsync().ConfigureAwait(false);
        await Task.WhenAny(Task.WhenAll(_output?.Ended ?? Task.CompletedTask, _error?.Ended ?? Task.CompletedTask), Task.Delay(s_lastWordPatience)).ConfigureAwait(false);
        int endedForMemory = _group?.EndedForMemory ?? 0;
        LeaveGroup();
        if (code is 128 + Posix.SigKill or null && endedForMemory > 0)
        {
            return $"was ended by the kernel: it had come to its limit of memory, {Size.Text(_start.Settings.Limits.Memory ?? 0)}";
        }
        return code switch
        {
            _ when _hasSentDescriptors => "was killed: it has sent descriptors along with an answer (SCM_RIGHTS), which the daemon takes none of",
            null => "ended",
            > 128 => string.Create(CultureInfo.InvariantCulture, $"was ended by signal {code - 128}"),
            _ => string.Create(CultureInfo.InvariantCulture, $"ended with exit code {code}"),
        };
    }
}
