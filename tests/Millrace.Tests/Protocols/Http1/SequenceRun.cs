// Feeds the bytes of a connection to the sequence of its requests in pieces, as a connection does, and writes down the events. Pieces of one body are one line, so
// that nothing depends on how the input was cut.

using System.Text;
using Millrace.Protocols.Http1;

namespace Millrace.Tests.Protocols.Http1;

/// <summary>One pass over a vector.</summary>
internal sealed class SequenceRun
{
    private static readonly Http1Limits s_limits = new();

    private readonly List<string> _events = [];
    private readonly HashSet<(SequenceState, SequenceEvent)> _seen = [];
    private readonly HashSet<(SequenceState, string)> _turns = [];
    private readonly Http1Head _head = new();
    private readonly List<byte> _rest = [];         // given, and not consumed
    private readonly List<byte> _data = [];         // of the event in progress
    private SequenceEvent _kind;
    private RequestSequence _sequence;
    private bool _isOver;           // how far the bytes before a fault have been taken depends on the cuts

    public IReadOnlyList<string> Events => _events;

    public IReadOnlySet<(SequenceState State, SequenceEvent Event)> Seen => _seen;

    public IReadOnlySet<(SequenceState State, string Turn)> Turns => _turns;

    public static SequenceRun Feed(SequenceVector vector, IEnumerable<int> cuts)
    {
        var run = new SequenceRun();
        int at = 0;
        foreach (int stop in cuts.Concat(vector.Marks.Select(static mark => mark.At)).Append(vector.Bytes.Length).Distinct().Order())
        {
            run._rest.AddRange(vector.Bytes[at..stop]);
            run.Read();
            at = stop;
            foreach ((int _, string turn) in vector.Marks.Where(mark => mark.At == stop))
            {
                run.Flush();
                run.Turn(turn);
                run.Read();
            }
        }

        run.Flush();
        run._events.Add($"end: {run._sequence.State}{(run._sequence.IsMidRequest ? ", mid request" : "")}{(run._sequence.MayMoreCome ? ", more may come" : "")}{(run._rest.Count > 0 && run._sequence.State == SequenceState.Answering ? $", {run._rest.Count} bytes wait" : "")}");
        return run;
    }

    private void Turn(string turn)
    {
        _turns.Add((_sequence.State, turn));
        switch (turn)
        {
            case "end":
                _sequence.End();
                break;
            case "upgrade":
                _sequence.Upgrade();
                break;
            case "close":
                _sequence.Close();
                break;
            default:
                throw new FormatException($"not a turn: {turn}");
        }

        _events.Add($"{turn}: {_sequence.State}");
    }

    private void Read()
    {
        while (_rest.Count > 0 && !_isOver)
        {
            byte[] input = [.. _rest];
            SequenceState before = _sequence.State;
            SequenceEvent its = _sequence.Read(input, _head, s_limits, out int consumed, out ByteRange piece);
            _seen.Add((before, its));
            Take(its, piece.Of(input), input);
            _rest.RemoveRange(0, consumed);
            if (its is SequenceEvent.HeadFaulty or SequenceEvent.BodyFaulty)
            {
                _isOver = true;
            }

            if (its is SequenceEvent.NeedMore or SequenceEvent.Behind || _isOver)
            {
                return;
            }
        }
    }

    private void Take(SequenceEvent its, ReadOnlySpan<byte> piece, byte[] input)
    {
        SequenceEvent kind = its switch { SequenceEvent.BodyEnd => SequenceEvent.Body, SequenceEvent.DrainedEnd => SequenceEvent.Drained, _ => its };
        if (kind is SequenceEvent.Body or SequenceEvent.Drained or SequenceEvent.Tunnelled or SequenceEvent.Skipped)
        {
            if (kind != _kind)
            {
                Flush();
            }

            _kind = kind;
            _data.AddRange(piece);
        }

        switch (its)
        {
            case SequenceEvent.HeadEnd:
                Flush();
                _events.Add($"head {Text(_head.Method.Of(input))} {Text(_head.Target.Of(input))}");
                break;
            case SequenceEvent.BodyEnd:
                Flush();
                _events.Add(_sequence.Trailers.Length == 0 ? "body ends" : $"body ends, trailers: {_sequence.Trailers.Length}");
                break;
            case SequenceEvent.DrainedEnd:
                Flush();
                _events.Add("drained to its end");
                break;
            case SequenceEvent.HeadFaulty or SequenceEvent.BodyFaulty:
                Flush();
                _events.Add($"{its}: {_sequence.Fault}");
                break;
        }
    }

    private void Flush()
    {
        if (_data.Count > 0)
        {
            _events.Add($"{_kind} {Text([.. _data])}");
            _data.Clear();
        }
    }

    private static string Text(ReadOnlySpan<byte> bytes) => EscapedBytes.Format(bytes.ToArray());
}
