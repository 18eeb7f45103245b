// Who reads an application's code, for whom, and for how long.

namespace Millrace.Command.Running;

/// <param name="User">Who reads the code; null: this process's own.</param>
/// <param name="Group">Who may read the copy besides the daemon's user.</param>
/// <param name="GoesOn">Is called again and again while it is read.</param>
/// <param name="Wanted">Gives it up.</param>
internal sealed record CodeReader(OtherUser? User, uint? Group, Action GoesOn, CancellationToken Wanted)
{
    /// <summary>Files, folders and links of one copy. What is one file of the user's, with many names, is as many files of the daemon's.</summary>
    public int EntriesMax { get; init; } = 100_000;
}
