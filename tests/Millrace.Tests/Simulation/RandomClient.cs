// One front server of a random life: sends what its script says, reads as it likes, and judges what comes back.

using System.Globalization;

namespace Millrace.Tests.Simulation;

/// <summary>How a client misbehaves, if it does.</summary>
internal enum Trouble
{
    None,
    Aborts,
    FinishesSending,
    Closes,
    Resets,
    Stalls,
    NeverReads,
    SendsGarbage,
}

internal sealed class RandomClient
{
    private enum Step
    {
        Send,
        WaitForAnswers,
        FinishSending,
        Close,
        Reset,
        Stall,
    }

    private readonly RandomLife _life;
    private readonly SeededRandom _random;
    private readonly List<Plan> _plans = [];
    private readonly Queue<(Step Step, byte[] Bytes, int Answers)> _script = new();
    private readonly Dictionary<int, int> _foreignBegins = [];
    private FrontEnd? _front;
    private int _sentOfItem;
    private int _judged;
    private int _answers;
    private int _managementExpected;
    private long _streamLength;
    private bool _pausesReading;
    private bool _pipelines;

    public RandomClient(RandomLife life, int number)
    {
        _life = life;
        _random = life.Simulation.Random;
        Number = number;
        Trouble = _random.Chance(60) ? Trouble.None : (Trouble)_random.Between(1, 7);
        Write();
    }

    public int Number { get; }

    public Trouble Trouble { get; }

    public FrontEnd? Front => _front;

    public IReadOnlyList<Plan> Plans => _plans;

    /// <summary>Nothing more is expected in either direction.</summary>
    public bool IsDone { get; private set; }

    private Simulation Simulation => _life.Simulation;

    // ---- the script ----

    private void Write()
    {
        int count = _random.Between(1, 4);
        _pipelines = Trouble is Trouble.None or Trouble.FinishesSending && _random.Chance(20);
        int id = _random.Chance(70) ? 1 : _random.Between(1, 65_535);
        int troubled = _random.Below(count);
        for (int i = 0; i < count; i++)
        {
            bool last = i == count - 1;
            Plan plan = PlanMaker.Make(_random, string.Create(CultureInfo.InvariantCulture, $"/c{Number}/r{i}"), id, !last || _random.Chance(60), _life.BodyMax,
                isAborted: Trouble == Trouble.Aborts && i == troubled);
            _plans.Add(plan);
            _life.Add(plan);
            if (Trouble != Trouble.None && i == troubled)
            {
                if (!WriteTroubled(plan))
                {
                    return;
                }
            }
            else
            {
                WriteRequest(PlanMaker.Records(_random, plan, out int paramsEnd), plan, paramsEnd, disturbs: true);
            }

            if (!_pipelines || last)
            {
                _script.Enqueue((Step.WaitForAnswers, [], i + 1));
                id = _pipelines || _random.Chance(50) ? id : Math.Min(id + 2, 65_535);
            }
        }

        if (Trouble == Trouble.FinishesSending)
        {
            _script.Enqueue((Step.FinishSending, [], 0));
        }
        else if (_random.Chance(50))
        {
            _script.Enqueue((Step.Close, [], 0));
        }
    }

    private void WriteRequest(List<byte[]> records, Plan plan, int paramsEnd, bool disturbs)
    {
        for (int i = 0; i < records.Count; i++)
        {
            if (disturbs && i > 0 && _random.Chance(3))
            {
                Send(Extra(plan, inParams: i <= paramsEnd));
            }

            if (i == paramsEnd + 1)
            {
                plan.BodyOffset = _streamLength;
            }

            Send(records[i]);
        }
    }

    // Records that a server answers or passes over without harm to the request.
    private byte[] Extra(Plan plan, bool inParams)
    {
        int other = plan.Id == 9_999 ? 9_998 : 9_999;
        switch (_random.Below(inParams ? 5 : 4))
        {
            case 0:
                _managementExpected++;
                return Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MAX_CONNS", ""), ("FCGI_MPXS_CONNS", ""), ("OTHER", "")), padding: _random.Below(8));
            case 1:
                _managementExpected++;
                return Wire.Record((byte)_random.Between(12, 255), 0, new byte[_random.Below(300)]);
            case 2:
                return Wire.Record(Wire.Stdin, other, new byte[_random.Below(300)], padding: 3);
            case 3:
                return Wire.Record(Wire.Abort, other, []);
            default:
                _foreignBegins[other] = _foreignBegins.GetValueOrDefault(other) + 1;
                return Wire.BeginRequest(other);
        }
    }

    private void Send(byte[] bytes)
    {
        _script.Enqueue((Step.Send, bytes, 0));
        _streamLength += bytes.Length;
    }

    // False: nothing follows.
    private bool WriteTroubled(Plan plan)
    {
        List<byte[]> records = PlanMaker.Records(_random, plan, out int paramsEnd);
        switch (Trouble)
        {
            case Trouble.FinishesSending or Trouble.NeverReads when _random.Chance(70):
                plan.IsDisturbed = Trouble == Trouble.NeverReads;
                WriteRequest(records, plan, paramsEnd, disturbs: false);
                _script.Enqueue((Trouble == Trouble.NeverReads ? Step.Stall : Step.FinishSending, [], 0));
                return false;
            case Trouble.Aborts:
                plan.IsDisturbed = true;
                int cut = _random.Between(1, records.Count);
                WriteRequest(records[..cut], plan, paramsEnd, disturbs: true);
                Send(Wire.Record(Wire.Abort, plan.Id, []));
                return true;
        }

        plan.IsDisturbed = true;
        plan.IsGarbled = Trouble == Trouble.SendsGarbage;
        byte[] bytes = [.. records.SelectMany(static record => record)];
        plan.BodyOffset = _streamLength + records.Take(paramsEnd + 1).Sum(static record => (long)record.Length);
        Send(bytes[.._random.Between(0, bytes.Length - 1)]);
        _script.Enqueue(Trouble switch
        {
            Trouble.Closes => (Step.Close, [], 0),
            Trouble.Resets => (Step.Reset, [], 0),
            Trouble.FinishesSending => (Step.FinishSending, [], 0),
            Trouble.SendsGarbage => (Step.Send, [.. Enumerable.Range(0, 300).Select(_ => (byte)_random.Between(2, 255))], 0),
            _ => (Step.Stall, [], 0),
        });
        return false;
    }

    // ---- living ----

    /// <summary>One thing; false when there was nothing to do. <paramref name="eager"/>: all that can be done.</summary>
    public bool Act(bool eager)
    {
        if (IsDone)
        {
            return false;
        }

        if (_front is null)
        {
            if (Simulation.Listener.Refuses)
            {
                IsDone = true;
                return true;
            }

            _front = new FrontEnd(Simulation.World.Connect(Simulation.Listener));
            _life.Connected(this);
            return true;
        }

        bool did = Advance(eager);
        did |= Deliver(eager);
        did |= Read(eager);
        Judge();
        return did;
    }

    private bool Advance(bool eager)
    {
        if (!_script.TryPeek(out (Step Step, byte[] Bytes, int Answers) item) || (!eager && _random.Chance(30)))
        {
            return false;
        }

        switch (item.Step)
        {
            case Step.Send:
                int left = item.Bytes.Length - _sentOfItem;
                int count = eager || _random.Chance(60) ? left : _random.Between(1, Math.Max(1, left));
                _front!.Send(item.Bytes.AsSpan(_sentOfItem, Math.Min(count, left)));
                _sentOfItem += count;
                if (_sentOfItem < item.Bytes.Length)
                {
                    return true;
                }

                _sentOfItem = 0;
                break;
            case Step.WaitForAnswers:
                if (_answers < item.Answers)
                {
                    return false;
                }

                break;
            case Step.FinishSending:
                _front!.Socket.ClientFinish();
                break;
            case Step.Close:
                Simulation.Trace("client closes", Number);
                _front!.Socket.ClientClose();
                IsDone = true;
                break;
            case Step.Reset:
                Simulation.Trace("client resets", Number);
                _front!.Socket.ClientReset();
                IsDone = true;
                break;
            default:
                return false;
        }

        _script.Dequeue();
        return true;
    }

    private bool Deliver(bool eager)
    {
        SimulatedSocket socket = _front!.Socket;
        if (!socket.CanDeliver || (!eager && _random.Chance(30)))
        {
            return false;
        }

        int count = socket.Deliver(eager || _random.Chance(50) ? int.MaxValue : _random.Size(40_000));
        Simulation.Trace("deliver", Number, count);
        return true;
    }

    private bool Read(bool eager)
    {
        if (Trouble == Trouble.NeverReads && _script.TryPeek(out (Step Step, byte[] Bytes, int Answers) item) && item.Step == Step.Stall)
        {
            return false;
        }

        if (!eager)
        {
            _pausesReading ^= _random.Chance(5);
            if (_pausesReading || _random.Chance(30))
            {
                return false;
            }
        }

        int count = _front!.Read(eager || _random.Chance(50) ? int.MaxValue : 1 + _random.Size(20_000));
        if (count > 0)
        {
            Simulation.Trace("client reads", Number, count);
        }

        return count > 0;
    }

    // ---- judging ----

    private void Judge()
    {
        FrontEnd front = _front!;
        if (front.Fault is { } fault)
        {
            Simulation.Violated($"client {Number} was sent {fault}");
            return;
        }

        for (; _judged < front.Ended.Count; _judged++)
        {
            JudgeEnded(front.Ended[_judged]);
        }

        foreach ((int id, ReceivedResponse open) in front.Open)
        {
            if (_answers >= _plans.Count || _plans[_answers].Id != id)
            {
                Simulation.Violated($"client {Number} was sent output of id {id}, which it does not wait for");
            }
            else if (open.HasHead)
            {
                JudgeBytes(_plans[_answers], open);
            }
        }

        if (front.IsAtEnd || (Trouble == Trouble.NeverReads && front.Socket.ServerClosed))
        {
            JudgeEnd();
        }
        else if (_script.Count == 0 && _answers >= _plans.Count && (Trouble != Trouble.SendsGarbage || _life.IsOver))
        {
            IsDone |= _plans[^1].KeepsConnection;
        }
    }

    private void JudgeEnded(ReceivedResponse response)
    {
        if (_foreignBegins.TryGetValue(response.Id, out int foreign) && foreign > 0 && response.ProtocolStatus == 1)
        {
            _foreignBegins[response.Id] = foreign - 1;
            return;
        }

        if (_answers >= _plans.Count || _plans[_answers].Id != response.Id)
        {
            Simulation.Violated($"client {Number} was sent the end of id {response.Id}, which it does not wait for");
            return;
        }

        Plan plan = _plans[_answers++];
        Simulation.Trace("answered", Number, _answers);
        if (response.ProtocolStatus == 2 && _life.MayOverload)
        {
            return;
        }

        if (plan.Started > 0 && plan.Finished == 0)
        {
            Simulation.Violated($"request {plan.Name} was ended before its handler");
        }

        if (plan.IsDisturbed)
        {
            return;
        }

        if (response.ProtocolStatus != 0)
        {
            Simulation.Violated($"request {plan.Name} was ended with protocol status {response.ProtocolStatus}");
        }

        if (plan.Finished != 1 || !response.HasHead || response.Status != plan.Status || plan.BreaksOff)
        {
            Simulation.Violated($"request {plan.Name} was ended as complete, with status {(response.HasHead ? response.Status : -1)} instead of {plan.Status}, after {plan.Finished} runs");
            return;
        }

        if (plan.Status == 200)
        {
            JudgeBytes(plan, response);
            if (response.Body.Length != plan.WrittenLength)
            {
                Simulation.Violated($"request {plan.Name} was answered with {response.Body.Length} bytes instead of {plan.WrittenLength}");
            }
        }
    }

    private void JudgeBytes(Plan plan, ReceivedResponse response)
    {
        if (response.Status == 200 && (response.Field("X-Name") != plan.Name || !Plan.Matches(plan.ResponsePattern, 0, response.Body)))
        {
            Simulation.Violated($"request {plan.Name} was sent bytes that are not its own");
        }
    }

    // The server has ended the connection: was it allowed to?
    private void JudgeEnd()
    {
        IsDone = true;
        if (_life.MayRefuseConnections || Trouble is Trouble.Closes or Trouble.Resets)
        {
            return;
        }

        if (_answers >= _plans.Count)
        {
            if (_plans[^1].KeepsConnection && _script.Count > 0 && !_life.IsDraining && Trouble == Trouble.None)
            {
                Simulation.Violated($"client {Number} was cut off although it asked to keep the connection");
            }

            return;
        }

        Plan plan = _plans[_answers];
        bool mayEnd = plan.BreaksOff || plan.IsDisturbed || Trouble is Trouble.SendsGarbage or Trouble.Stalls or Trouble.NeverReads
            || (_life.IsDraining && (plan.Started == 0 || Simulation.IsCutting))
            || (Trouble == Trouble.FinishesSending && _answers > 0 && _plans[_answers - 1].IsDisturbed)
            || (_pipelines && _front!.Socket.AnswersLost && (_life.IsDraining || _plans.Exists(static each => each.BreaksOff)))
            || _front!.Socket.HasLingered
            || _life.TimePassed;
        if (!mayEnd)
        {
            Simulation.Violated($"the connection of client {Number} ended before request {plan.Name} was answered (run {plan.Started} times, {plan.Finished} ended)");
        }
    }

    /// <summary>Nothing moves any more: is this client served?</summary>
    public string? Complaint()
    {
        if (IsDone || (Trouble == Trouble.SendsGarbage && _script.Count == 0) || (_script.TryPeek(out (Step Step, byte[] Bytes, int Answers) item) && item.Step == Step.Stall))
        {
            return null;
        }

        return $"client {Number} ({Trouble}) waits: {_answers} of {_plans.Count} requests answered, {_script.Count} steps left, next {(_script.TryPeek(out item) ? item.Step : null)}, {_front?.Socket.InFlight} bytes in flight, {_front?.Socket.Unread} unread";
    }

    public string Describe() => string.Join('\n', _plans.Select(plan => $"  client {Number} {Trouble}: {plan}, started {plan.Started}, finished {plan.Finished}, body read {plan.BodyRead}"));

    /// <summary>The client leaves whatever it was doing.</summary>
    public void Leave()
    {
        IsDone = true;
        _front?.Socket.ClientClose();
    }
}
