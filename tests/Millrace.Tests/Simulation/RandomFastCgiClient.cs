// A front server of a random life: requests as records, and what may come back for them (FastCGI 1.0 §3.3, §5).

using System.Buffers.Binary;
using System.Globalization;

namespace Millrace.Tests.Simulation;

internal sealed class RandomFastCgiClient : RandomClient
{
    private readonly Dictionary<int, int> _foreignBegins = [];
    private FrontEnd? _front;
    private int _judged;
    private int _managementExpected;
    private readonly bool _knows;       // that requests come one at a time

    public RandomFastCgiClient(RandomLife life, int number)
        : base(life, number)
    {
        Pipelines = Trouble is Trouble.None or Trouble.FinishesSending or Trouble.Aborts && Random.Chance(20);
        _knows = !life.IsSlow && Random.Chance(20);
        Write();
    }

    protected override SimulatedListener Listener => Simulation.Listener;

    protected override bool HasValues => _front!.Management.Count > 0;

    protected override void Connected(SimulatedSocket socket) => _front = new FrontEnd(socket);

    protected override int ReadUpTo(int max) => _front!.Read(max);

    // ---- the script ----

    private void Write()
    {
        int count = Random.Between(1, 4);
        int id = Random.Chance(70) ? 1 : Random.Between(1, 65_535);
        int troubled = Random.Below(count);
        if (_knows)
        {
            _managementExpected++;
            Send(Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MPXS_CONNS", ""))));
            Then(Step.WaitForValues);
        }

        for (int i = 0; i < count; i++)
        {
            bool last = i == count - 1;
            bool gaveUp = false;
            Plan plan = PlanMaker.Make(Random, NameOf(i), id, !last || Random.Chance(60), Life.BodyMax, isAborted: Trouble == Trouble.Aborts && i == troubled, mayEnd: !Life.IsSlow);
            Add(plan);
            if (Trouble != Trouble.None && i == troubled)
            {
                if (!WriteTroubled(plan, mayGiveUp: _knows && !last, out gaveUp))
                {
                    return;
                }
            }
            else
            {
                WriteRequest(PlanMaker.Records(Random, plan, out int paramsEnd), plan, paramsEnd, disturbs: true);
            }

            // Behind ABORT_REQUEST any id may follow; behind a request that is wanted only its own, or another when it has ended.
            bool waits = (!Pipelines && !gaveUp) || last;
            if (waits)
            {
                Then(Step.WaitForAnswers, i + 1);
            }

            if (gaveUp)
            {
                id = id < 65_534 ? id + 2 : 1;
            }
            else if ((waits || (Trouble == Trouble.Aborts && i == troubled)) && !last && Random.Chance(50))
            {
                id = Math.Min(id + 2, 65_535);
            }
        }

        if (Trouble == Trouble.FinishesSending)
        {
            Then(Step.FinishSending);
        }
        else if (Random.Chance(50))
        {
            Then(Step.Close);
        }
    }

    private void WriteRequest(List<byte[]> records, Plan plan, int paramsEnd, bool disturbs)
    {
        plan.HeadStart = StreamLength;
        for (int i = 0; i < records.Count; i++)
        {
            if (i == paramsEnd + 1)
            {
                plan.BodyOffset = StreamLength;
            }

            if (disturbs && i > 0 && Random.Chance(3))
            {
                Send(Extra(plan, inParams: i <= paramsEnd));
            }

            if (i > paramsEnd)
            {
                plan.AddPiece(StreamLength + Wire.HeaderSize, BinaryPrimitives.ReadUInt16BigEndian(records[i].AsSpan(4)));
            }

            Send(records[i]);
        }

        if (records.Count <= paramsEnd + 1)
        {
            plan.BodyOffset = StreamLength;     // cut off before its body
        }

        plan.StreamEnd = StreamLength;
    }

    // Records that a server answers or passes over without harm to the request.
    private byte[] Extra(Plan plan, bool inParams)
    {
        int other = plan.Id == 9_999 ? 9_998 : 9_999;
        switch (Random.Below(inParams ? 5 : 4))
        {
            case 0:
                _managementExpected++;
                return Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MAX_CONNS", ""), ("FCGI_MPXS_CONNS", ""), ("OTHER", "")), padding: Random.Below(8));
            case 1:
                _managementExpected++;
                return Wire.Record((byte)Random.Between(12, 255), 0, new byte[Random.Below(300)]);
            case 2:
                return Wire.Record(Wire.Stdin, other, new byte[Random.Below(300)], padding: 3);
            case 3:
                return Wire.Record(Wire.Abort, other, []);
            default:
                _foreignBegins[other] = _foreignBegins.GetValueOrDefault(other) + 1;
                return Wire.BeginRequest(other);
        }
    }

    // False: nothing follows. It gives a request up by the next one, as HAProxy does, if it knows that the server has one at a time.
    private bool WriteTroubled(Plan plan, bool mayGiveUp, out bool gaveUp)
    {
        gaveUp = false;
        List<byte[]> records = PlanMaker.Records(Random, plan, out int paramsEnd);
        switch (Trouble)
        {
            case Trouble.FinishesSending or Trouble.NeverReads when Random.Chance(70):
                plan.IsDisturbed = Trouble == Trouble.NeverReads;
                WriteRequest(records, plan, paramsEnd, disturbs: false);
                Then(Trouble == Trouble.NeverReads ? Step.Stall : Step.FinishSending);
                return false;
            case Trouble.Aborts:
                plan.IsDisturbed = true;
                gaveUp = mayGiveUp && Random.Chance(50) && !plan.IsWholeBeforeAbort;
                int cut = Random.Between(gaveUp ? paramsEnd + 1 : 1, records.Count);
                WriteRequest(records[..cut], plan, paramsEnd, disturbs: true);
                if (!gaveUp)
                {
                    Send(Wire.Record(Wire.Abort, plan.Id, []));
                }

                return true;
        }

        plan.IsDisturbed = true;
        plan.IsGarbled = Trouble == Trouble.SendsGarbage;
        byte[] bytes = [.. records.SelectMany(static record => record)];
        plan.BodyOffset = StreamLength + records.Take(paramsEnd + 1).Sum(static record => (long)record.Length);
        int sent = Random.Between(0, bytes.Length - 1);
        bool isBehindRequest = Trouble == Trouble.SendsGarbage && !Life.IsSlow && sent % 3 == 0;
        Send(bytes[..(isBehindRequest ? bytes.Length : sent)]);
        switch (Trouble)
        {
            case Trouble.SendsGarbage:
                // In one piece with a question: it is found while the answer is in the server's hands, and the request may wait for its turn.
                Send([.. isBehindRequest ? Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MAX_CONNS", ""))) : [], .. Enumerable.Range(0, 300).Select(_ => (byte)Random.Between(2, 255))]);
                break;
            default:
                Then(Trouble switch
                {
                    Trouble.Closes => Step.Close,
                    Trouble.Resets => Step.Reset,
                    Trouble.FinishesSending => Step.FinishSending,
                    _ => Step.Stall,
                });
                break;
        }

        return false;
    }

    // ---- judging ----

    protected override void Judge()
    {
        FrontEnd front = _front!;
        if (front.Fault is { } fault)
        {
            Violated($"client {Number} was sent {fault}");
            return;
        }

        for (; _judged < front.Ended.Count; _judged++)
        {
            JudgeEnded(front.Ended[_judged]);
        }

        foreach ((int id, ReceivedResponse open) in front.Open)
        {
            if (Answers >= Plans.Count || Plans[Answers].Id != id)
            {
                Violated($"client {Number} was sent output of id {id}, which it does not wait for");
            }
            else if (open.HasHead)
            {
                JudgeBytes(Plans[Answers], open);
            }
        }

        if (front.IsAtEnd || (IsStalled && front.Socket.ServerClosed))
        {
            JudgeEnd();
        }
        else if (StepsLeft == 0 && Answers >= Plans.Count && (Trouble != Trouble.SendsGarbage || Life.IsOver) && Plans[^1].KeepsConnection)
        {
            IsDone = Trouble != Trouble.None || IsManagementDone;
        }
    }

    // What was asked beside the requests has been answered: each question once, each foreign request refused once.
    private bool IsManagementDone
    {
        get
        {
            if (_front!.Management.Count > _managementExpected)
            {
                Violated($"client {Number} was answered {_front.Management.Count} management records instead of {_managementExpected}");
            }

            return _front.Management.Count == _managementExpected && _foreignBegins.Values.All(static count => count == 0);
        }
    }

    protected override string Besides =>
        string.Create(CultureInfo.InvariantCulture, $", {_front?.Management.Count} of {_managementExpected} management records answered, {_foreignBegins.Values.Sum()} foreign requests not refused");

    private void JudgeEnded(ReceivedResponse response)
    {
        if (_foreignBegins.TryGetValue(response.Id, out int foreign) && foreign > 0 && response.ProtocolStatus == 1)
        {
            _foreignBegins[response.Id] = foreign - 1;
            return;
        }

        if (Answers >= Plans.Count || Plans[Answers].Id != response.Id)
        {
            Violated($"client {Number} was sent the end of id {response.Id}, which it does not wait for");
            return;
        }

        Plan plan = Plans[Answers++];
        Tell(plan);
        Simulation.Trace("answered", Number, Answers);
        if (response.ProtocolStatus == 2 && MayBeRefused)
        {
            if (plan.Started > 0 || response.Stdout.Length > 0)
            {
                Violated($"request {plan.Name} was refused as one too many, but it was run {plan.Started} times and has {response.Stdout.Length} bytes of output");
            }

            return;
        }

        if (plan.Started > 0 && plan.Finished == 0 && !plan.HasEnded)
        {
            Violated($"request {plan.Name} was ended before its handler");
        }

        if (response.HasHead)
        {
            JudgeBytes(plan, response);
        }

        if (!plan.IsDisturbed)
        {
            JudgeWhole(plan, response);
        }
    }

    private void JudgeWhole(Plan plan, ReceivedResponse response)
    {
        if (response.ProtocolStatus != 0)
        {
            Violated($"request {plan.Name} was ended with protocol status {response.ProtocolStatus}");
        }

        if (!(plan.Finished == 1 || plan.HasEnded) || !response.HasHead || response.Status != plan.Status || plan.BreaksOff)
        {
            Violated($"request {plan.Name} was ended as complete, with status {(response.HasHead ? response.Status : -1)} instead of {plan.Status}, after {plan.Finished} runs");
        }
        else if (plan.Status == 200 && response.Body.Length != plan.WrittenLength)
        {
            Violated($"request {plan.Name} was answered with {response.Body.Length} bytes instead of {plan.WrittenLength}");
        }
    }

    private void JudgeBytes(Plan plan, ReceivedResponse response)
    {
        if (response.Status != 200)
        {
            return;
        }

        ReadOnlySpan<byte> body = plan.FailsInFile ? response.Body.TrimEnd((byte)0) : response.Body;    // the rest of a record that the file did not fill
        int from = Math.Min(response.Judged, body.Length);
        if ((from == 0 && response.Field("X-Name") != plan.Name) || !Plan.Matches(plan.ResponsePattern, from, body[from..]))
        {
            Violated($"request {plan.Name} was sent bytes that are not its own");
        }

        response.Judged = body.Length;
    }

    // The server has ended the connection: was it allowed to?
    private void JudgeEnd()
    {
        IsDone = true;
        if (WasTurnedAway(_front!.BytesRead))
        {
            return;
        }

        if (Answers < Plans.Count)
        {
            Plan plan = Plans[Answers];
            if (!MayEndWithout(plan))
            {
                Violated($"the connection of client {Number} ended before request {plan.Name} was answered (run {plan.Started} times, {plan.Finished} ended)");
            }

            long received = (_front.Open.TryGetValue(plan.Id, out ReceivedResponse? open) && open.HasHead ? open.Body.Length : 0) + _front.OpenContent;
            JudgeCut(plan, open is { HasHead: true } && !_front.IsBrokenOff);
            JudgeBroken(plan, received, looksWhole: !_front.EndsInsideRecord && !Socket!.WasReset);
        }
        else if (Plans[^1].KeepsConnection && StepsLeft > 0 && !IsLate && !Life.IsDraining && !Life.TimePassed && Trouble == Trouble.None)
        {
            Violated($"client {Number} was cut off although it asked to keep the connection");
        }
    }
}
