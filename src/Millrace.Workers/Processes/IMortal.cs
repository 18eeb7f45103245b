// What a pool has to know of workers that can die by themselves, and be killed: processes.

namespace Millrace.Workers.Processes;

internal interface IMortal
{
    /// <summary>Ends with the worker.</summary>
    Task<Death> Death { get; }

    /// <summary>Why it is to be replaced behind the call that it has had; None: it is not.</summary>
    WorkerEnd Wish { get; }

    /// <summary>Whether nobody has seen yet that it serves: where it ends now it is as one that could not be made.</summary>
    bool IsUntried { get; }

    /// <summary>Its process.</summary>
    int ProcessId { get; }

    /// <summary>Looks at what it is doing, and kills it.</summary>
    /// <returns>What it was doing, in sentences.</returns>
    Task<string> KillAsync(WorkerEnd reason);
}

/// <param name="Reason">Why.</param>
/// <param name="Cause">The same in a sentence.</param>
internal sealed record Death(WorkerEnd Reason, Exception Cause);
