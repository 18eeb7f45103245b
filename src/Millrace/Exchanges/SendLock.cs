// The send lock of an exchange: protects what the handler's thread and the loop both send. Taken before the lock of an abort, never
// inside it. Whoever has it may be with the kernel, which reads a file that lies on a slow disk: no loop waits for that.

using Millrace.Platform;

namespace Millrace.Exchanges;

internal sealed class SendLock : SteadyLock
{
    private bool _isInFile;

    /// <summary>Whoever has the lock is with the kernel, which reads the file.</summary>
    public bool IsInFile => Volatile.Read(ref _isInFile);

    public void EnterFile() => Volatile.Write(ref _isInFile, true);

    public void LeaveFile() => Volatile.Write(ref _isInFile, false);

    /// <summary>For a loop. False while the kernel reads a file for whoever has it: all that was to be sent leaves ahead of the file, or behind it.</summary>
    public bool TryHold(out Holder held) => TryHold(ref _isInFile, out held);
}
