// tests/vectors/http1/sequence: what the bytes of a connection belong to, request after request. Each vector whole, cut in two at every byte, and byte by byte; all
// of them together see every event in every state in which it can come.

using Millrace.Protocols.Http1;

namespace Millrace.Tests.Protocols.Http1;

public sealed class SequenceTests
{
    private static readonly (SequenceState, SequenceEvent)[] s_possible =
    [
        (SequenceState.Idle, SequenceEvent.NeedMore), (SequenceState.Idle, SequenceEvent.HeadEnd), (SequenceState.Idle, SequenceEvent.HeadFaulty),
        (SequenceState.Head, SequenceEvent.NeedMore), (SequenceState.Head, SequenceEvent.HeadEnd), (SequenceState.Head, SequenceEvent.HeadFaulty),
        (SequenceState.Body, SequenceEvent.NeedMore), (SequenceState.Body, SequenceEvent.Body), (SequenceState.Body, SequenceEvent.BodyEnd), (SequenceState.Body, SequenceEvent.BodyFaulty),
        (SequenceState.Draining, SequenceEvent.NeedMore), (SequenceState.Draining, SequenceEvent.Drained), (SequenceState.Draining, SequenceEvent.DrainedEnd), (SequenceState.Draining, SequenceEvent.BodyFaulty),
        (SequenceState.Answering, SequenceEvent.Behind), (SequenceState.Tunnel, SequenceEvent.Tunnelled), (SequenceState.Closing, SequenceEvent.Skipped),
    ];

    public static TheoryData<int, string> Vectors() => [.. SequenceVector.All.Select(static (vector, i) => (i, vector.ToString()))];

    [Theory]
    [MemberData(nameof(Vectors))]
    public void Vector_gives_its_events_wherever_it_is_cut(int index, string name)
    {
        SequenceVector vector = SequenceVector.All[index];
        string expected = string.Join('\n', vector.Expected);
        Assert.Equal(expected, string.Join('\n', SequenceRun.Feed(vector, []).Events));
        for (int cut = 1; cut < vector.Bytes.Length; cut++)
        {
            string found = string.Join('\n', SequenceRun.Feed(vector, [cut]).Events);
            Assert.True(expected == found, $"{name}: cut at {cut}:\n{found}");
        }

        Assert.Equal(expected, string.Join('\n', SequenceRun.Feed(vector, Enumerable.Range(1, Math.Max(0, vector.Bytes.Length - 1))).Events));
    }

    [Fact]
    public void There_is_a_vector_for_every_event_in_every_state_and_no_other_pair()
    {
        HashSet<(SequenceState, SequenceEvent)> seen = [];
        foreach (SequenceVector vector in SequenceVector.All)
        {
            seen.UnionWith(SequenceRun.Feed(vector, []).Seen);
            seen.UnionWith(SequenceRun.Feed(vector, Enumerable.Range(1, Math.Max(0, vector.Bytes.Length - 1))).Seen);
        }

        Assert.Equal(s_possible.Order(), seen.Order());
    }

    [Fact]
    public void There_is_a_vector_for_every_turn_the_connection_takes_in_every_state_in_which_it_can() =>
        Assert.Equal(
            new HashSet<(SequenceState, string)>
            {
                (SequenceState.Body, "end"), (SequenceState.Answering, "end"), (SequenceState.Answering, "upgrade"), (SequenceState.Idle, "close"), (SequenceState.Head, "close"),
                (SequenceState.Body, "close"), (SequenceState.Answering, "close"), (SequenceState.Draining, "close"),
            }.Order(),
            SequenceVector.All.SelectMany(static vector => SequenceRun.Feed(vector, []).Turns).Distinct().Order());
}
