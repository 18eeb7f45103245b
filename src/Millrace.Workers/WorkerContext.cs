// Brings what a call goes on with behind an await back to the thread of its worker.

using System.Runtime.ExceptionServices;

namespace Millrace.Workers;

internal sealed class WorkerContext(IPostOffice office) : SynchronizationContext
{
    public override void Post(SendOrPostCallback d, object? state) => office.Post(d, state);

    /// <exception cref="ObjectDisposedException">The worker has ended, or ends before its thread comes to it.</exception>
    public override void Send(SendOrPostCallback d, object? state)
    {
        if (office.IsHere)
        {
            d(state);
            return;
        }
        using var work = new SentWork(d, state);
        office.Post(SentWork.Run, work);
        work.Wait();
    }

    public override SynchronizationContext CreateCopy() => this;
}

/// <summary>Takes what is to run on a thread.</summary>
internal interface IPostOffice
{
    /// <summary>Whether whoever asks is on that thread.</summary>
    bool IsHere { get; }

    /// <summary>Where the thread has ended, it is dropped, and said; <see cref="SentWork"/> is refused.</summary>
    void Post(SendOrPostCallback callback, object? state);
}

/// <summary>What somebody waits for: it runs, or is refused.</summary>
internal sealed class SentWork(SendOrPostCallback callback, object? state) : IDisposable
{
    public static readonly SendOrPostCallback Run = static work => ((SentWork)work!).RunHere();

    private readonly ManualResetEventSlim _done = new();
    private ExceptionDispatchInfo? _thrown;

    public void Refuse()
    {
        _thrown = ExceptionDispatchInfo.Capture(new ObjectDisposedException(nameof(SynchronizationContext), "The worker to whose thread this was sent has ended."));
        _done.Set();
    }

    public void Wait()
    {
        _done.Wait();
        _thrown?.Throw();
    }

    public void Dispose() => _done.Dispose();

    private void RunHere()
    {
        try
        {
            callback(state);
        }
        catch (Exception error)
        {
            _thrown = ExceptionDispatchInfo.Capture(error);
        }
        _done.Set();
    }
}
