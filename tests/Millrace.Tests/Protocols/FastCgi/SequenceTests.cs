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

    [Fact]
    public void There_is_a_vector_for_every_event_in_every_state_in_which_it_can_come()
    {
        HashSet<(SequenceState, SequenceEvent)> seen = [];
        foreach (VectorFile vector in Vectors)
        {
            seen.UnionWith(SequenceRun.Feed(vector, [vector.Input]).Happened);
            seen.UnionWith(SequenceRun.Feed(vector, Enumerable.Range(0, vector.Input.Length).Select(at => (ReadOnlyMemory<byte>)vector.Input.AsMemory(at, 1))).Happened);
        }

        Assert.Equal(Possible.Order(), seen.Order());
    }

    [Fact]
    public void There_is_a_vector_for_every_turn_the_connection_takes_in_every_state_in_which_it_can() =>
        Assert.Equal(
            new HashSet<(SequenceState, string)>
            {
                (SequenceState.Params, "drop"), (SequenceState.Stdin, "drop"), (SequenceState.Whole, "drop"),
                (SequenceState.Stdin, "keep"), (SequenceState.Whole, "keep"), (SequenceState.Stdin, "close"), (SequenceState.Whole, "close"),
            }.Order(),
            Vectors.SelectMany(static vector => SequenceRun.Feed(vector, [vector.Input]).Turns).Distinct().Order());

    private static IEnumerable<VectorFile> Vectors =>
        VectorTests.Files.Select(static row => VectorFile.Load(row.Data)).Where(static vector => vector.Depth == VectorDepth.Sequence);

    // What is for nobody, or about the connection, may come at any time.
    private static IEnumerable<(SequenceState State, SequenceEvent Event)> Possible =>
        Enum.GetValues<SequenceState>().SelectMany(static state => EventsIn(state).Concat(
        [
            SequenceEvent.NeedMore, SequenceEvent.Faulty, SequenceEvent.BeginFaulty, SequenceEvent.Values, SequenceEvent.ValuesEnd,
            SequenceEvent.UnknownType, SequenceEvent.Skipped,
        ]).Select(its => (state, its)));

    private static SequenceEvent[] EventsIn(SequenceState state) => state switch
    {
        SequenceState.Idle => [SequenceEvent.Begun, SequenceEvent.UnknownRole],
        SequenceState.Params => [SequenceEvent.Params, SequenceEvent.ParamsEnd, SequenceEvent.StdinTooEarly, SequenceEvent.Aborted, SequenceEvent.BegunTwice, SequenceEvent.Multiplexed],
        SequenceState.Stdin =>
        [
            SequenceEvent.Stdin, SequenceEvent.StdinEnd, SequenceEvent.Aborted, SequenceEvent.BegunTwice, SequenceEvent.Multiplexed, SequenceEvent.UnknownRole,
            SequenceEvent.NextBegun, SequenceEvent.NextBegunInstead,
        ],
        _ => [SequenceEvent.Aborted, SequenceEvent.BegunTwice, SequenceEvent.Multiplexed, SequenceEvent.UnknownRole, SequenceEvent.NextBegun, SequenceEvent.NextBegunInstead],
    };

    // Before its head is whole no request is given to anybody.
    private static ResponseProgress[] ProgressIn(SequenceState state) =>
        state is SequenceState.Idle or SequenceState.Params ? [ResponseProgress.None] : Enum.GetValues<ResponseProgress>();
}
