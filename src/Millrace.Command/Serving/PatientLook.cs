// Looks at what lies with an application, for so long and no longer: a file system whose server has gone, or whose program does not answer (FUSE), keeps whoever asks it, and no
// thread that waits there can be called back. Such a thread is left alone; of each of these there is one at most.

using System.Diagnostics.CodeAnalysis;
using System.Globalization;
using Millrace.Platform;

namespace Millrace.Command.Serving;

/// <param name="patience">For how long nothing may be seen; null: 20 s.</param>
/// <param name="threads">Where threads come from; null: the system.</param>
[SuppressMessage("Reliability", "CA1001", Justification = "Nobody asks for the wait handle of the semaphore, and without one it holds nothing.")]
internal sealed class PatientLook(TimeSpan? patience = null, TaskScheduler? threads = null)
{
    private static readonly TimeSpan s_pause = TimeSpan.FromMilliseconds(20);

    private readonly TimeSpan _patience = patience ?? TimeSpan.FromSeconds(20);
    private readonly TaskScheduler _threads = threads ?? TaskScheduler.Default;
    private readonly SemaphoreSlim _one = new(1);
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
        if (!_one.Wait(0, ct))
        {
            while (!await _one.WaitAsync(Left(place), ct))
            {
            }
        }
        GoesOn();
        long call = await NoteAsync(place, ct);
        Task<T> looking = Begin(place, look, call);
        _ = looking.ContinueWith(
            _ =>
            {
                ForeignCalls.End(call);
                GoesOn();       // whoever is next begins
                _one.Release();
            },
            TaskScheduler.Default);
        try
        {
            while (!looking.IsCompleted)
            {
                await ((Task)looking).WaitAsync(Left(place), ct).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
                ct.ThrowIfCancellationRequested();
            }
            return await looking;
        }
        catch
        {
            _ = looking.ContinueWith(its => Leave(its, late), TaskScheduler.Default);       // also of what has come in this very moment
            throw;
        }
    }

    // The daemon may be about to become another program.
    private async Task<long> NoteAsync(string place, CancellationToken ct)
    {
        long? call;
        try
        {
            while ((call = ForeignCalls.TryBegin(place)) is null)
            {
                await Task.Delay(s_pause, ct);
                GoesOn();
            }
        }
        catch
        {
            _one.Release();
            throw;
        }
        return call.Value;
    }

    private Task<T> Begin<T>(string place, Func<T> look, long call)
    {
        try
        {
            return Task.Factory.StartNew(look, CancellationToken.None, TaskCreationOptions.LongRunning | TaskCreationOptions.DenyChildAttach, _threads);
        }
        catch (Exception error)     // of the system's, of whatever kind
        {
            ForeignCalls.End(call);
            _one.Release();
            throw new StandstillException($"{place} cannot be looked at: no thread is left for it ({error.GetBaseException().Message.TrimEnd('.')}). Allow the daemon more (TasksMax= of its unit, ulimit -u), or memory.");
        }
    }

    // However long it takes, while whoever looks goes on.
    private TimeSpan Left(string place)
    {
        TimeSpan left = _patience - TimeSpan.FromMilliseconds(Environment.TickCount64 - Volatile.Read(ref _seenAt));
        return left > TimeSpan.Zero ? left : throw new StandstillException(Sentence(place));
    }

    private static void Leave<T>(Task<T> looking, Action<T>? late)
    {
        if (looking.IsCompletedSuccessfully)
        {
            late?.Invoke(looking.Result);
        }
        _ = looking.Exception;      // nobody wants to know any more
    }

    private string Sentence(string place) => string.Create(
        CultureInfo.InvariantCulture, $"{place} has not answered for {_patience.TotalSeconds:0} s: the file system that it lies on stands still. Have it answer (its server, or the program behind it), or unmount it (umount -f).");
}

/// <summary>A file system does not answer.</summary>
internal sealed class StandstillException(string sentences) : Exception(sentences);
