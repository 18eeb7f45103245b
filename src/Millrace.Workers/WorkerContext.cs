// Brings what a call goes on with behind an await back to the thread of its worker.

namespace Millrace.Workers;

internal sealed class WorkerContext(IPostOffice office) : SynchronizationContext
{
    public override void Post(SendOrPostCallback d, object? state) => office.Post(d, state);

    public override void Send(SendOrPostCallback d, object? state)
    {
        if (Current == this)
        {
            d(state);
            return;
        }
        using var done = new ManualResetEventSlim();
        Exception? thrown = null;
        office.Post(_ =>
        {
            try
            {
                d(state);
            }
            catch (Exception error)
            {
                thrown = error;
            }
            done.Set();
        }, null);
        done.Wait();
        if (thrown is not null)
        {
            System.Runtime.ExceptionServices.ExceptionDispatchInfo.Throw(thrown);
        }
    }

    public override SynchronizationContext CreateCopy() => this;
}

/// <summary>Takes what is to run on a thread.</summary>
internal interface IPostOffice
{
    /// <summary>Where the thread has ended, it is dropped, and said.</summary>
    void Post(SendOrPostCallback callback, object? state);
}
