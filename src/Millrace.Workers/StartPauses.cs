// When a worker may be tried to be made again where one could not: behind a pause that doubles, a little at random. Belongs to the pool's lock.

namespace Millrace.Workers;

internal sealed class StartPauses(Limits limits)
{
    /// <summary>Starts that have failed, one behind the other.</summary>
    public int Failures { get; private set; }

    /// <summary>Why the last one did; null: it did not.</summary>
    public Exception? Failure { get; private set; }

    public long NotBefore { get; private set; }

    public void NoteFailure(Exception error, long now)
    {
        Failure = error;
        double pause = Math.Min(limits.StartPause * Math.Pow(2, Math.Min(Failures, 40)), limits.StartPauseMax);
        Failures++;
        NotBefore = now + (long)(pause * (0.8 + (0.2 * Random.Shared.NextDouble())));
    }

    /// <summary>What is noted where one has been given up before it was there.</summary>
    public TimeoutException NotMade(WorkerEnd reason) => new(reason == WorkerEnd.StartLimit
        ? FormattableString.Invariant($"It was still being made after {limits.StartTime.TotalSeconds:0.###} s (StartLimit), and has been left alone. Raise StartLimit if it takes so long; what it waits for is shown by dotnet-stack report -p PID.")
        : $"It was given up while it was being made ({reason}).");

    /// <summary>A better reason for a failure that has been noted.</summary>
    public void NoteReason(Exception error) => Failure = Failures > 0 ? error : null;

    /// <summary>Ends the pauses, where a worker lives.</summary>
    public void NoteLife(bool lives)
    {
        if (lives)
        {
            Failures = 0;
            Failure = null;
        }
    }
}
