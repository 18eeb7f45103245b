// The vectors of the sequence, taken together: every kind of record in every state.
using Millrace.Protocols.FastCgi;

namespace Millrace.Tests.Protocols.FastCgi;

public sealed class SequenceTests
{
    private static readonly string[] s_begins = ["begin, its own", "begin, of another id", "begin, another role, its own", "begin, another role, of another id"];

    private static readonly string[] s_others =
    [
        "Params, its own", "the end of Params, its own", "Params, of another id", "Stdin, its own", "the end of Stdin, its own", "Stdin, of another id",
        "AbortRequest, its own", "AbortRequest, of another id", "values", "an unknown management record", "a record without meaning",
    ];

    [Fact]
    public void There_is_a_vector_for_every_record_in_every_state()
    {
        HashSet<(SequenceState, ResponseProgress, string)> seen = [.. VectorTests.Files.Select(static row => VectorFile.Load(row.Data))
            .Where(static vector => vector.Depth == VectorDepth.Sequence).SelectMany(static vector => SequenceRun.Feed(vector, [vector.Input]).Seen)];
        IEnumerable<string> missing = from state in Enum.GetValues<SequenceState>()
                                      from progress in ProgressIn(state)
                                      from record in s_begins.Concat(progress == ResponseProgress.None ? s_others : [])
                                      where !seen.Contains((state, progress, record))
                                      select $"{state}, response {progress}: {record}";
        Assert.Empty(missing);
    }

    // Before its head is whole no request is given to anybody.
    private static ResponseProgress[] ProgressIn(SequenceState state) =>
        state is SequenceState.Idle or SequenceState.Params ? [ResponseProgress.None] : Enum.GetValues<ResponseProgress>();
}
