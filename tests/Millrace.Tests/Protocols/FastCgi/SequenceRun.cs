// Feeds bytes to the sequence of requests in pieces and writes down its events, one line each. It keeps nothing that depends on how the input was cut. What the
// responses do meanwhile is scripted in the vector, at a place in the input.
using Millrace.Protocols.FastCgi;

namespace Millrace.Tests.Protocols.FastCgi;

/// <summary>One pass over an input.</summary>
internal sealed class SequenceRun
{
    private readonly List<string> _events = [];
    private readonly List<(SequenceState, ResponseProgress, string)> _seen = [];
    private readonly HashSet<(SequenceState, SequenceEvent)> _happened = [];
    private readonly HashSet<(SequenceState, string)> _turns = [];
    private RequestSequence _sequence;
    private ResponseProgress _progress;
    private List<byte> _content = [];
    private SequenceEvent _first;

    /// <summary>State, progress and kind of record of everything that was read.</summary>
    public IReadOnlyList<(SequenceState State, ResponseProgress Progress, string Record)> Seen => _seen;

    /// <summary>Every event, with the state in which it came.</summary>
    public IReadOnlyCollection<(SequenceState State, SequenceEvent Event)> Happened => _happened;

    /// <summary>What the connection has told the sequence, with the state in which it did.</summary>
    public IReadOnlyCollection<(SequenceState State, string Turn)> Turns => _turns;

    public IReadOnlyList<string> Events => _events;

    public static SequenceRun Feed(VectorFile vector, IEnumerable<ReadOnlyMemory<byte>> pieces)
    {
        var run = new SequenceRun();
        run._sequence.NoteRead();
        int at = 0;
        var marks = new Queue<VectorMark>(vector.Marks);
        foreach (ReadOnlyMemory<byte> piece in pieces)
        {
            ReadOnlyMemory<byte> rest = piece;
            while (marks.TryPeek(out VectorMark? mark) && mark.At <= at + rest.Length)
            {
                if (!run.Take(rest.Span[..(mark.At - at)]))
                {
                    return run;
                }

                rest = rest[(mark.At - at)..];
                at = mark.At;
                run.Act(marks.Dequeue().Words);
            }

            if (!run.Take(rest.Span))
            {
                return run;
            }

            at += rest.Length;
        }

        RequestSequence end = run._sequence;
        run._events.Add($"end: {end.State}{(end.IsMidRequest && !end.AtRecordStart ? ", inside a record" : "")}{(end.MayMoreCome ? ", more may come" : "")}");
        return run;
    }

    private void Act(string[] words)
    {
        if (words is ["drop"] or ["response", "ended", _])
        {
            _turns.Add((_sequence.State, words[^1]));
        }

        switch (words)
        {
            case ["read"]:
                _sequence.NoteRead();
                break;
            case ["drop"]:
                _sequence.Drop();
                break;
            case ["response", "ended", string how]:
                _progress = ResponseProgress.None;
                _events.Add($"ended: {(_sequence.End(how == "keep") ? $"{_sequence.Id} is next, {Kept(_sequence.KeepsConnection)}" : "nothing is next")}");
                break;
            case ["response", string progress]:
                _progress = Enum.Parse<ResponseProgress>(progress, ignoreCase: true);
                break;
            default:
                throw new FormatException($"not a mark of a vector: {string.Join(' ', words)}");
        }
    }

    private bool Take(ReadOnlySpan<byte> input)
    {
        while (true)
        {
            if (_sequence.HasNext)
            {
                Assert.True(input.IsEmpty, "nothing is read behind the next request before the one in progress has ended");
                return true;
            }

            SequenceState before = _sequence.State;
            ushort id = _sequence.Id;
            bool isGivenUp = _sequence.IsGivenUpBy(input);
            SequenceEvent its = _sequence.Read(input, _progress, out int consumed, out RecordPart part);
            if (isGivenUp && before is (SequenceState.Stdin or SequenceState.Whole))
            {
                Assert.True(its is SequenceEvent.NextBegun or SequenceEvent.NextBegunInstead, $"{_sequence.Id} was said to be given up, and then: {its}");
            }

            _happened.Add((before, its));
            if (its == SequenceEvent.NeedMore)
            {
                Assert.Equal(input.Length, consumed);
                return true;
            }

            if (its is SequenceEvent.Faulty or SequenceEvent.BeginFaulty)
            {
                _events.Add($"{its}: {_sequence.Fault}");
                return false;
            }

            _first = _content.Count == 0 && part.IsFirst ? its : _first;
            Assert.True(part.IsFirst || its != SequenceEvent.Aborted, "one record aborts once");
            _content.AddRange(input.Slice(part.Start, part.Length));
            bool isEnd = its is SequenceEvent.BegunTwice or SequenceEvent.StdinTooEarly;
            if (part.IsLast || isEnd)
            {
                _seen.Add((before, _progress, KindOf(part, id)));
                _events.Add(Show(_first == SequenceEvent.Aborted ? _first : its, part));
                _content = [];
            }

            if (isEnd)
            {
                Assert.Equal((true, its.ToString()), (_sequence.IsLost, _sequence.Fault.ToString()));
                return false;
            }

            input = input[consumed..];
        }
    }

    // Kinds of records that a state can tell apart.
    private string KindOf(in RecordPart part, ushort id)
    {
        string whose = part.RequestId == id ? "its own" : "of another id";
        return part.Type switch
        {
            RecordType.BeginRequest when _sequence.Begin.Role != Role.Responder => $"begin, another role, {whose}",
            RecordType.BeginRequest => $"begin, {whose}",
            RecordType.Params or RecordType.Stdin when part.RequestId == id => $"{(part.ContentLength == 0 ? "the end of " : "")}{part.Type}, its own",
            RecordType.Params or RecordType.Stdin or RecordType.AbortRequest => $"{part.Type}, {whose}",
            RecordType.GetValues when part.RequestId == 0 => "values",
            0 or > RecordType.UnknownType when part.RequestId == 0 => "an unknown management record",
            _ => "a record without meaning",
        };
    }

    private string Show(SequenceEvent its, in RecordPart part) => its switch
    {
        SequenceEvent.Begun => $"{its} {part.RequestId} {Kept(_sequence.KeepsConnection)}",
        SequenceEvent.UnknownRole => $"{its} {part.RequestId} {_sequence.Begin.Role}, {Kept(_sequence.Begin.KeepConnection)}{(_sequence.ClosesBehind ? ", closes behind" : "")}",
        SequenceEvent.Params or SequenceEvent.Stdin => $"{its} {part.RequestId} {VectorRun.Show([.. _content])}",
        SequenceEvent.ValuesEnd => $"{its} {Answer()}",
        SequenceEvent.UnknownType => $"{its} {(byte)part.Type}",
        SequenceEvent.Skipped => $"{its} {VectorRun.Name(part.Type)} {part.RequestId}",
        _ => $"{its} {part.RequestId}",
    };

    private string Answer()
    {
        var answer = new byte[ManagementValues.ResultSizeMax];
        int length = ManagementValues.WriteResult([.. _content], maxConnections: 1, maxRequests: 1, multiplexes: false, answer);
        if (answer.AsSpan(0, length).IndexOf("FCGI_MPXS_CONNS"u8) < 0)
        {
            return VectorRun.Show([.. _content]);
        }

        _sequence.TellOneAtATime();
        return $"{VectorRun.Show([.. _content])}, told: one at a time";
    }

    private static string Kept(bool isKept) => isKept ? "keep" : "close";
}
