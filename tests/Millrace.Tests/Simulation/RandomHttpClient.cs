// A browser or a proxy of a random life: HTTP/1.1 requests, and what may come back for them (RFC 9112 §9, RFC 9110 §10.1.1).

namespace Millrace.Tests.Simulation;

internal sealed class RandomHttpClient : RandomClient
{
    private SimulatedBrowser? _browser;
    private int _judged;
    private bool _sawClose;
    private int _tunnelJudged;

    public RandomHttpClient(RandomLife life, int number)
        : base(life, number)
    {
        Pipelines = Trouble is Trouble.None or Trouble.FinishesSending && Random.Chance(35);
        Write();
    }

    protected override SimulatedListener Listener => Simulation.HttpListener!;

    protected override void Connected(SimulatedSocket socket)
    {
        _browser = new SimulatedBrowser(socket) { ToleratesRefusals = Trouble is not (Trouble.None or Trouble.Aborts) };
        Plans.ForEach(plan => _browser.Await(new AwaitedResponse(plan.IsHead, plan.ExpectsContinue)));
    }

    protected override int ReadUpTo(int max) => _browser!.Read(max);

    protected override bool MayContinue(int request) =>
        _browser!.Responses.Count > request || (_browser.Responses.Count == request && _browser.Continues > 0 && _browser.Last is null or { IsComplete: true });

    // ---- the script ----

    private void Write()
    {
        int count = Random.Between(1, 4);
        int troubled = Random.Below(count);
        for (int i = 0; i < count; i++)
        {
            bool last = i == count - 1;
            bool isTroubled = Trouble != Trouble.None && i == troubled;
            Plan plan = PlanMaker.MakeHttp(Random, NameOf(i), !last || Random.Chance(60), Life.BodyMax, isTroubled ? Trouble : Trouble.None, mayTunnel: last, mayEnd: !Life.IsSlow);
            Add(plan);
            if (isTroubled)
            {
                WriteTroubled(plan, i);
                return;
            }

            WriteRequest(plan, i);
            if (!Pipelines || last)
            {
                Then(Step.WaitForAnswers, i + 1);
            }
        }

        if (Random.Chance(50) && !Plans[^1].IsTunnel)
        {
            Then(Step.Close);
        }
    }

    private void WriteRequest(Plan plan, int index)
    {
        byte[] head = HttpScript.Head(Random, plan);
        plan.HeadStart = StreamLength + (head.AsSpan().StartsWith("\r\n"u8) ? 2 : 0);
        Send(head);
        plan.HeadEnd = plan.BodyOffset = StreamLength;
        if (plan.ExpectsContinue || plan.IsTunnel)
        {
            Then(Step.WaitForContinue, index);
        }

        List<byte[]> pieces = plan.IsTunnel ? [Plan.Bytes(plan.RequestPattern, 0, plan.TunnelLength)] : HttpScript.Body(Random, plan);
        int left = plan.BodyLength;
        foreach (byte[] piece in pieces)
        {
            int start = plan.IsChunked ? piece.AsSpan().IndexOf("\r\n"u8) + 2 : 0;
            int count = Math.Min(left, piece.Length - start);
            plan.AddPiece(StreamLength + start, count);
            left -= count;
            Send(piece);
        }

        plan.BodyOverhead = StreamLength - plan.BodyOffset - plan.BodyLength;
        plan.StreamEnd = StreamLength;
        if (plan.IsTunnel)
        {
            Then(Step.FinishSending);
        }
    }

    private void WriteTroubled(Plan plan, int index)
    {
        bool whole = Trouble is Trouble.Aborts or Trouble.FinishesSending || (Trouble == Trouble.NeverReads && Random.Chance(70));
        plan.IsDisturbed = Trouble != Trouble.FinishesSending || Random.Chance(30);
        if (whole && (Trouble != Trouble.FinishesSending || !plan.IsDisturbed))
        {
            WriteRequest(plan, index);
        }
        else
        {
            plan.IsGarbled = Trouble == Trouble.SendsGarbage;
            byte[] head = HttpScript.Head(Random, plan);
            plan.HeadEnd = plan.BodyOffset = StreamLength + head.Length;
            byte[] bytes = [.. head, .. HttpScript.Body(Random, plan).SelectMany(static piece => piece)];
            plan.BodyOverhead = bytes.Length - head.Length - plan.BodyLength;
            Send(bytes[..Random.Between(0, bytes.Length - 1)]);
        }

        switch (Trouble)
        {
            case Trouble.SendsGarbage:
                Send([.. Enumerable.Range(0, 300).Select(_ => (byte)Random.Between(0, 255))]);
                break;
            case Trouble.Aborts or Trouble.Closes:
                Then(Step.Close);
                break;
            case Trouble.Resets:
                Then(Step.Reset);
                break;
            case Trouble.FinishesSending:
                Then(Step.FinishSending);
                break;
            default:
                Then(Step.Stall);
                break;
        }
    }

    // ---- judging ----

    protected override void Judge()
    {
        SimulatedBrowser browser = _browser!;
        browser.NoteEnd();
        if (browser.Fault is { } fault)
        {
            Violated($"client {Number} was sent {fault}");
            return;
        }

        for (; _judged < browser.Complete; _judged++)
        {
            JudgeComplete(browser.Responses[_judged]);
        }

        if (browser.Last is { IsComplete: false } open)
        {
            JudgeOpen(open);
        }

        if (browser.IsTunnel)
        {
            JudgeTunnel(Plans[^1]);
        }

        if (browser.IsAtEnd || (IsStalled && browser.Socket.ServerClosed))
        {
            JudgeEnd();
        }
        else if (StepsLeft == 0 && Answers >= Plans.Count && !_sawClose && !browser.IsTunnel && (Trouble != Trouble.SendsGarbage || Life.IsOver))
        {
            IsDone = true;
        }
    }

    private void JudgeOpen(HttpResponse open)
    {
        if (Answers >= Plans.Count)
        {
            if (!_browser!.ToleratesRefusals || open.Status < 400)
            {
                Violated($"client {Number} was sent a response of status {open.Status}, which it does not wait for");
            }
        }
        else
        {
            JudgeBytes(Plans[Answers], open);
        }
    }

    private void JudgeComplete(HttpResponse response)
    {
        if (Answers >= Plans.Count)
        {
            JudgeOpen(response);
            return;
        }

        Plan plan = Plans[Answers++];
        Tell(plan);
        Simulation.Trace("answered", Number, Answers);
        JudgeBytes(plan, response);
        if (response.Continues > 0 && !plan.BodyWanted)
        {
            Violated($"request {plan.Name} was told to continue, but its handler has not asked for the body");
        }

        bool isDisturbed = plan.IsDisturbed;
        plan.IsDisturbed |= Trouble is Trouble.Resets or Trouble.Closes or Trouble.Aborts && !plan.BodyWasWhole;      // its client may leave over its last bytes
        if (response.Closes)
        {
            SeeClose(plan, response);
        }
        else if (!plan.KeepsConnection || (plan.AsksToClose && response.Status == 200))
        {
            Violated($"request {plan.Name} was to be the last of its connection, but its response does not say so");
        }

        if (response.Status == 503 && MayBeRefused)
        {
            if (plan.Started > 0)
            {
                Violated($"request {plan.Name} was refused as one too many, but it was run");
            }
        }
        else if (!isDisturbed)
        {
            JudgeWhole(plan, response);
        }
    }

    private void SeeClose(Plan plan, HttpResponse response)
    {
        _sawClose = true;
        if (StepsLeft > 0)
        {
            // What is left of the request, or the next ones, stays unsaid.
            StopSending();
            plan.IsDisturbed |= plan.BodyLength > 0 || plan.IsChunked;
            Then(Step.Close);
        }

        bool may = !plan.KeepsConnection || plan.AsksToClose || plan.IsDisturbed || Life.IsDraining || Life.TimePassed || response.Status == 503
            || plan.BreaksOff
            || (plan.IsHttp10 && !plan.HasKnownLength && !plan.IsHead)
            || (plan.ExpectsContinue && !plan.ReadsFirst)
            || plan.BodyLength + plan.BodyOverhead > Simulation.Services.Options.MaxDiscardBytes;      // when the head was written it might not have been read
        if (!may)
        {
            Violated($"request {plan.Name} asked to keep the connection, but its response says close");
        }
    }

    private void JudgeWhole(Plan plan, HttpResponse response)
    {
        // The end of a chunked body is written when the handler has ended; that of another kind may be there before.
        bool ended = plan.Started == 1 && (plan.Finished == 1 || plan.HasEnded || !response.IsChunked);
        bool mayBreakUnseen = plan.IsHead || (response.GoesToTheEnd && !Socket!.IsTcp);    // a Unix socket knows no reset
        if (!ended || response.Status != plan.Status || (plan.BreaksOff && !mayBreakUnseen))
        {
            Violated($"request {plan.Name} was answered with status {response.Status} instead of {plan.Status}, after {plan.Finished} runs");
        }
        else if (plan.Status == 200 && !plan.BreaksOff)
        {
            int expected = plan.IsHead ? 0 : plan.WrittenLength;
            if (response.Body.Length != expected)
            {
                Violated($"request {plan.Name} was answered with {response.Body.Length} bytes instead of {expected}");
            }
        }
    }

    private void JudgeBytes(Plan plan, HttpResponse response)
    {
        if (response.Status is 200 or 101)
        {
            ReadOnlySpan<byte> body = response.Body;
            int from = response.Judged;
            if ((from == 0 && response.Field("X-Name") != plan.Name) || !Plan.Matches(plan.ResponsePattern, from, body[from..]))
            {
                Violated($"request {plan.Name} was sent bytes that are not its own");
            }

            response.Judged = body.Length;
        }
        else if (response.Status < 400 || response.Body.Length > 0 || response.Field("X-Name") is not null)
        {
            Violated($"request {plan.Name} was sent a response of status {response.Status} with {response.Body.Length} bytes");
        }
    }

    private void JudgeTunnel(Plan plan)
    {
        ReadOnlySpan<byte> bytes = _browser!.Tunnelled.GetBuffer().AsSpan(0, (int)_browser.Tunnelled.Length);
        if (bytes.Length > plan.TunnelLength || !Plan.Matches(plan.RequestPattern, _tunnelJudged, bytes[_tunnelJudged..]))
        {
            Violated($"the tunnel of {plan.Name} gave back {bytes.Length} bytes that are not those of the {plan.TunnelLength} it was sent");
        }

        _tunnelJudged = bytes.Length;
    }

    // The server has ended the connection: was it allowed to?
    private void JudgeEnd()
    {
        IsDone = true;
        if (WasTurnedAway(_browser!.BytesRead))
        {
            return;
        }

        bool brokeOffUnseen = Answers > 0 && Plans[Answers - 1].BreaksOff;      // a HEAD
        if (_sawClose)
        {
            // RFC 9112 §9.6: behind a response that said close no request is run.
            if (Plans.Skip(Answers).FirstOrDefault(static plan => plan.Started > 0) is { } run)
            {
                Violated($"request {run.Name} was run behind a response that said close");
            }
        }
        else if (Answers < Plans.Count)
        {
            Plan plan = Plans[Answers];
            if (!MayEndWithout(plan) && !brokeOffUnseen)
            {
                Violated($"the connection of client {Number} ended before request {plan.Name} was answered (run {plan.Started} times, {plan.Finished} ended)");
            }

            JudgeCut(plan, _browser.EndsBetweenChunks);
            JudgeBroken(plan, _browser.Last is { IsComplete: false } open ? open.Body.Length : 0, looksWhole: _browser.EndsBetweenChunks && !Socket!.WasReset);
        }
        else if (_browser.IsTunnel)
        {
            if (_tunnelJudged != Plans[^1].TunnelLength && !IsLate && !Socket!.HasLingered && !Life.IsDraining && !Life.TimePassed)
            {
                Violated($"the tunnel of {Plans[^1].Name} ended after {_tunnelJudged} of {Plans[^1].TunnelLength} bytes");
            }
        }
        else if (StepsLeft > 0 && !IsLate && !Life.IsDraining && !Life.TimePassed && !HasTooMuchUnread && !brokeOffUnseen && Trouble == Trouble.None)
        {
            Violated($"client {Number} was cut off although it was told that the connection stays");
        }
    }
}
