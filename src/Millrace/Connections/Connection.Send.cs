// How answers leave while the loop owns the connection. What the socket does not take is kept, and nothing more is read before it has left.

using Millrace.Exchanges;
using Millrace.Loops;

namespace Millrace.Connections;

internal abstract partial class Connection<TKernel>
{
    private OutputBuffer? _pending;      // Sending: what the socket did not take

    /// <summary>Sends what is in the driver's output; what the socket does not take is kept, and reading pauses until it has left.</summary>
    private protected void SendDriverOutput(LoopDriver driver)
    {
        OutputBuffer output = driver.Output;
        if (!output.IsEmpty)
        {
            switch (SendOutput(null, output))
            {
                case SendResult.Broken:
                    output.Clear();
                    Close(reset: false);
                    return;
                case SendResult.Again:
                    _pending = driver.GiveOutputAway();
                    Enter(Stage.Sending);
                    BeginWaitingForPeer();
                    EnsureWatched();
                    WatchWriting();
                    return;
                default:
                    output.Clear();
                    break;
            }
        }

        if (IsClosing && Stage != Stage.Sending)
        {
            FinishClosing();
        }
    }

    private bool SendPending(LoopDriver driver)
    {
        OutputBuffer output = _pending!;
        switch (SendOutput(null, output))
        {
            case SendResult.Again:
                if (!_progress.IsStuck)
                {
                    BeginWaitingForPeer();
                }

                WatchWriting();
                return true;
            case SendResult.Broken:
                Close(reset: false);
                return true;
        }

        _pending = null;
        Enter(Stage.Receiving);
        Services.Return(output);
        if (IsClosing)
        {
            FinishClosing();
            return IsClosed || Receive(driver);     // lingering: the edge of what has come meanwhile is gone
        }

        SetIdleDeadline();
        return Continue(driver);
    }
}
