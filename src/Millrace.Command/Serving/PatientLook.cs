// Looks at what lies with an application, for so long and no longer: a file system whose server has gone, or whose program does not answer (FUSE), keeps whoever asks it, and no
// thread that waits there can be called back. Such a thread is left alone; of each of these there is one at most.

using System.Globalization;

namespace Millrace.Command.Serving;

internal sealed class PatientLook
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(20);

    private readonly Lock _lock = new();
    private Task _last = Task.CompletedTask;
    private long _seenAt;

    /// <summary>Whoever looks has seen something, and goes on: what takes its time is none the worse for it.</summary>
    public void GoesOn() => Volatile.Write(ref _seenAt, Environment.TickCount64);

    /// <param name="place">Where, for a sentence.</param>
    /// <param name="look">Does all of it on the thread that it is called on, which is one of its own: those of the pool are everybody's.</param>
    /// <param name="ct">Nobody waits any more.</param>
    /// <param name="late">Is given what comes when nobody waits any more.</param>
    /// <exception cref="StandstillException">There is no answer.</exception>
    public async Task<T> AtAsync<T>(string place, Func<T> look, CancellationToken ct, Action<T>? late = null)
    {
        var turn = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        Task before;
        lock (_lock)
        {
            (before, _last) = (_last, turn.Task);
            if (before.IsCompleted)
            {
                GoesOn();
            }
        }
        try
        {
            await WaitForAsync(before, place, ct);
        }
        catch
        {
            _ = before.ContinueWith(_ => turn.TrySetResult(), TaskScheduler.Default);
            throw;
        }
        GoesOn();
        Task<T> looking = Task.Factory.StartNew(look, CancellationToken.None, TaskCreationOptions.LongRunning | TaskCreationOptions.DenyChildAttach, TaskScheduler.Default);
        _ = looking.ContinueWith(
            _ =>
            {
                GoesOn();       // whoever is next begins
                turn.TrySetResult();
            },
            TaskScheduler.Default);
        try
        {
            await WaitForAsync(looking, place, ct);
            return await looking;
        }
        catch when (!looking.IsCompleted)
        {
            _ = looking.ContinueWith(its => Leave(its, late), TaskScheduler.Default);
            throw;
        }
    }

    // However long it takes, while whoever looks goes on.
    private async Task WaitForAsync(Task looking, string place, CancellationToken ct)
    {
        while (!looking.IsCompleted)
        {
            TimeSpan left = s_patience - TimeSpan.FromMilliseconds(Environment.TickCount64 - Volatile.Read(ref _seenAt));
            if (left <= TimeSpan.Zero)
            {
                throw new StandstillException(Sentence(place));
            }
            await Task.WhenAny(looking, Task.Delay(left, ct));
            ct.ThrowIfCancellationRequested();
        }
    }

    private static void Leave<T>(Task<T> looking, Action<T>? late)
    {
        if (looking.IsCompletedSuccessfully)
        {
            late?.Invoke(looking.Result);
        }
        _ = looking.Exception;      // nobody wants to know any more
    }

    private static string Sentence(string place) => string.Create(
        CultureInfo.InvariantCulture, $"{place} has not answered for {s_patience.TotalSeconds:0} s: the file system that it lies on stands still. Have it answer (its server, or the program behind it), or unmount it (umount -l).");
}

/// <summary>A file system does not answer.</summary>
internal sealed class StandstillException(string sentences) : Exception(sentences);
