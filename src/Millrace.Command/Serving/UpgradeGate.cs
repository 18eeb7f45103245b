// Closed while a daemon is about to become another program: nothing that it has written down for that one is let go of meanwhile.

namespace Millrace.Command.Serving;

internal sealed class UpgradeGate
{
    private volatile TaskCompletionSource? _closed;

    public bool IsOpen => _closed is null;

    /// <summary>Ends when it is open.</summary>
    public Task WhenOpen => _closed?.Task ?? Task.CompletedTask;

    public void Close() => _closed = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);

    public void Open()
    {
        var closed = _closed;
        _closed = null;
        closed?.TrySetResult();
    }
}
