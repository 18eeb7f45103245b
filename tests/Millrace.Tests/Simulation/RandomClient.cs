// One client of a random life, whatever it speaks: does what its script says, lets bytes travel, reads as it likes. What it
// sends and what may come back is in RandomFastCgiClient and RandomHttpClient.

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

internal abstract class RandomClient
{
    protected enum Step
    {
        Send,
        WaitForAnswers,
        WaitForContinue,
        WaitForValues,
        FinishSending,
        Close,
        Reset,
        Stall,
    }

    private const int SmallPiece = 1_000;

    private readonly Queue<(Step Step, byte[] Bytes, int Answers)> _script = new();
    private readonly int _travelMax;
    private int _sentOfItem;
    private bool _pausesReading;
    private bool _impatient;
    private string? _paceThen;      // when something had gone wrong

    protected RandomClient(RandomLife life, int number)
    {
        Life = life;
        Random = life.Simulation.Random;
        Number = number;
        Trouble = Random.Chance(life.IsSlow ? 85 : 60) ? Trouble.None : (Trouble)Random.Between(1, 7);
        _travelMax = Random.Chance(10) ? Random.Between(1, 3) : int.MaxValue;
        _impatient = Random.Chance(20);
    }

    public int Number { get; }

    public Trouble Trouble { get; protected init; }

    public List<Plan> Plans { get; } = [];

    public SimulatedSocket? Socket { get; private set; }

    /// <summary>How fast it is; null: as fast as it is let.</summary>
    public SlowPeer? Pace { get; private set; }

    /// <summary>Requests whose answers have come to their end.</summary>
    public int AnswersSeen => Answers;

    /// <summary>Nothing more is expected in either direction.</summary>
    public bool IsDone { get; protected set; }

    protected RandomLife Life { get; }

    protected SeededRandom Random { get; }

    protected Simulation Simulation => Life.Simulation;

    /// <summary>Whether several requests are sent before the first answer.</summary>
    protected bool Pipelines { get; init; }

    /// <summary>Requests answered to their end, in their order.</summary>
    protected int Answers { get; set; }

    /// <summary>From here on a limit may strike whatever has not been answered, and whatever still reads a body.</summary>
    public void DisturbUnfinished()
    {
        for (int i = 0; i < Plans.Count; i++)
        {
            Plans[i].IsDisturbed |= i >= Answers || Plans[i].Started > Plans[i].Finished;
        }
    }

    public long StreamLength { get; private set; }

    protected int StepsLeft => _script.Count;

    protected bool IsStalled => _script.TryPeek(out (Step Step, byte[] Bytes, int Answers) item) && item.Step == Step.Stall;

    // ---- what the protocols differ in ----

    protected abstract SimulatedListener Listener { get; }

    protected abstract void Connected(SimulatedSocket socket);

    protected abstract int ReadUpTo(int max);

    /// <summary>Looks at what has come so far; ends the client when nothing more may come.</summary>
    protected abstract void Judge();

    /// <summary>Whether the server has said that the client may go on with the body of that request, or need not.</summary>
    protected virtual bool MayContinue(int request) => true;

    /// <summary>Whether what it has asked of the server besides its requests has been answered.</summary>
    protected virtual bool HasValues => true;

    // ---- the script ----

    protected void Send(byte[] bytes)
    {
        _script.Enqueue((Step.Send, bytes, 0));
        StreamLength += bytes.Length;
    }

    protected void Then(Step step, int answers = 0) => _script.Enqueue((step, [], answers));

    protected void StopSending() => _script.Clear();

    protected void Add(Plan plan)
    {
        for (int i = 0; Life.IsSlow && i < plan.Acts.Length; i++)
        {
            if (plan.Acts[i].Act == Millrace.Tests.Simulation.Act.Pause && Random.Chance(60))
            {
                plan.Acts[i] = (Millrace.Tests.Simulation.Act.Sleep, Random.Between(10, 9_000));
            }
        }

        Plans.Add(plan);
        Life.Add(plan);
    }

    protected string NameOf(int request) => string.Create(CultureInfo.InvariantCulture, $"/c{Number}/r{request}");

    // ---- living ----

    /// <summary>One thing; false when there was nothing to do. <paramref name="eager"/>: all that can be done.</summary>
    public bool Act(bool eager)
    {
        if (IsDone)
        {
            Plans.ForEach(Tell);
            if (StepsLeft > 0)
            {
                // Answered before it was whole: the rest never comes.
                Plans.ForEach(static plan => plan.IsDisturbed = true);
            }

            return Socket is not null && Deliver(eager);    // what it sent last, and its end, still travel
        }

        if (Socket is null)
        {
            if (Listener.Refuses)
            {
                IsDone = true;
                return true;
            }

            Socket = Simulation.World.Connect(Listener);
            Simulation.Trace("client connects", Number, Socket.Number);
            Plans.ForEach(plan => plan.Socket = Socket);
            Connected(Socket);
            if (Life.IsSlow)
            {
                Socket.Clock = () => Simulation.World.NowMs;
                Pace = new SlowPeer(Life, this);
            }

            if (Trouble == Trouble.Resets && Random.Chance(50))
            {
                Socket.ResetAfterCalls = Random.Between(1, 40);
                Plans.ForEach(static plan => plan.IsDisturbed = true);
            }

            Life.Connected(this);
            return true;
        }

        if (Socket.ClientGone)
        {
            IsDone = true;      // reset at one of the server's own calls
            return true;
        }

        bool did = Socket.IsRefusing && (eager || Random.Chance(30));
        if (did)
        {
            Socket.Relent();
        }

        did |= Advance(eager);
        did |= Deliver(eager);
        did |= Read(eager);
        Judge();
        return did;
    }

    private bool Advance(bool eager)
    {
        if (!_script.TryPeek(out (Step Step, byte[] Bytes, int Answers) item) || (!eager && Random.Chance(30)))
        {
            return false;
        }

        switch (item.Step)
        {
            case Step.Send:
                int left = item.Bytes.Length - _sentOfItem;
                int count = eager || Random.Chance(60) ? left : Random.Between(1, Math.Max(1, left));
                Socket!.ClientSend(item.Bytes.AsSpan(_sentOfItem, Math.Min(count, left)));
                _sentOfItem += count;
                if (_sentOfItem < item.Bytes.Length)
                {
                    return true;
                }

                _sentOfItem = 0;
                break;
            case Step.WaitForAnswers:
                if (Answers < item.Answers)
                {
                    return false;
                }

                break;
            case Step.WaitForContinue:
                if (!MayContinue(item.Answers) && !(_impatient && Random.Chance(10)))
                {
                    return false;
                }

                break;
            case Step.WaitForValues:
                if (!HasValues)
                {
                    return false;
                }

                break;
            case Step.FinishSending:
                Socket!.ClientFinish();
                break;
            case Step.Close:
                Simulation.Trace("client closes", Number);
                Socket!.ClientClose();
                IsDone = true;
                break;
            case Step.Reset:
                Simulation.Trace("client resets", Number);
                Socket!.ClientReset();
                IsDone = true;
                break;
            default:
                return false;
        }

        if (_script.Count > 0)
        {
            _script.Dequeue();
        }

        return true;
    }

    private bool Deliver(bool eager)
    {
        int most = Pace?.MaySend ?? int.MaxValue;
        if (!Socket!.CanDeliver || (most <= 0 && Socket.InFlight > 0) || (!eager && Random.Chance(30)))
        {
            return false;
        }

        // What travels in small pieces may be overtaken by the time limit of a head, or of the rest of a body that nobody wants.
        MillraceOptions options = Simulation.Services.Options;
        if (Pace is null && Math.Min(_travelMax, Simulation.World.ReceiveCapacityMax) < SmallPiece && Simulation.World.NowMs >= Math.Min(options.HeadTimeout.TotalMilliseconds, options.IdleTimeout.TotalMilliseconds))
        {
            DisturbUnfinished();
        }

        int count = Socket.Deliver(Math.Min(most, eager || Random.Chance(50) ? eager ? int.MaxValue : _travelMax : Math.Min(_travelMax, Random.Size(40_000))));
        Pace?.Sent(count);
        Simulation.Trace("deliver", Number, count);
        return true;
    }

    private bool Read(bool eager)
    {
        if (Trouble == Trouble.NeverReads && IsStalled)
        {
            return false;
        }

        if (!eager)
        {
            _pausesReading ^= Random.Chance(5);
            if (_pausesReading || Random.Chance(30))
            {
                return false;
            }
        }

        int most = Pace?.MayRead ?? int.MaxValue;
        int count = most <= 0 ? 0 : ReadUpTo(Math.Min(most, eager || Random.Chance(50) ? int.MaxValue : 1 + Random.Size(20_000)));
        if (count > 0)
        {
            Pace?.Read(count);
            Simulation.Trace("client reads", Number, count);
        }

        return count > 0;
    }

    /// <summary>Whoever waits behind the response for its client goes on.</summary>
    public void Tell(Plan plan)
    {
        if (!plan.Answered.Task.IsCompleted)
        {
            Simulation.InPool(() => _ = plan.Answered.TrySetResult());
        }
    }

    // ---- judging ----

    protected void Violated(string what)
    {
        _paceThen ??= Pace?.ToString();
        Simulation.Violated(what);
    }

    /// <summary>Whether the server may end a connection whose request <paramref name="plan"/> has no whole answer.</summary>
    protected bool MayEndWithout(Plan plan) =>
        IsLate || plan.BreaksOff || plan.IsDisturbed || Socket!.HasLingered || Life.TimePassed || HasTooMuchUnread
        || (Life.IsDraining && ((plan.Started == 0 && MayBeUnread) || Simulation.IsCutting))
        // What a reset takes along, where the server had to end the connection at once: an answer is cut, since its request was.
        || (Pipelines && Socket.AnswersLost && (Life.IsDraining || Trouble == Trouble.FinishesSending))
        // What comes behind the last request that the server answers is thrown away up to a limit, together with that one's unread body.
        // An answer without a length is whole by its end alone, which a reset takes along though all bytes of it have come.
        || (Pipelines && (Socket.AnswersLost || Socket.WasReset) && StreamLength - plan.BodyOffset - (plan.BodyWasWhole ? plan.BodyLength + plan.BodyOverhead : 0) > Simulation.Services.Options.MaxDiscardBytes);

    // What has arrived by the Unix socket of a FastCGI connection when that is closed is served: one that has not arrived was not taken from its client.
    // Behind the last answer of a connection that is not to be kept, and where the server has ended its own side for that, bytes are thrown away.
    private bool MayBeUnread => Socket!.IsTcp || this is RandomHttpClient || (Socket.ShutAtMs > 0 && !Plans.TrueForAll(static plan => plan.KeepsConnection));

    /// <summary>It has been so slow that a time limit may have ended something of its own.</summary>
    protected bool IsLate => Pace is { IsLate: true };

    /// <summary>Whether a request that waits for its turn may be refused: too many wait, or the client looks as if it had gone.</summary>
    protected bool MayBeRefused => Life.MayOverload || IsLate || (Simulation.Services.Gate is not null && Socket!.FinDelivered);

    /// <summary>The response to <paramref name="plan"/> was broken off, and the connection has ended: nothing of it may be lost, and nobody may take it for whole.</summary>
    /// <param name="received">Bytes of its body that have come.</param>
    /// <param name="looksWhole">Whether the connection ended where a response may end.</param>
    protected void JudgeBroken(Plan plan, long received, bool looksWhole)
    {
        if (!plan.BreaksOff || plan.Aborts || plan.Finished == 0 || plan.IsDisturbed || Trouble != Trouble.None || Life.TimePassed || Simulation.IsCutting
            || Socket!.HasLingered || StreamLength > Simulation.Services.Options.MaxDiscardBytes)
        {
            return;
        }

        // Over a Unix socket something else fills up the record of a file that failed.
        if (plan.FailsInFile ? received < plan.Written : received != plan.Written)
        {
            Violated($"request {plan.Name} was broken off after {plan.Written} bytes, and its client was sent {received} of them");
        }

        if (looksWhole)
        {
            Violated($"request {plan.Name} was broken off, and its connection ended as if behind a whole response");
        }
    }

    /// <summary>The connection has ended in the middle of a response that says by itself where it ends, whoever ended it: nobody may take it for whole.</summary>
    /// <param name="plan">Its request.</param>
    /// <param name="looksWhole">Whether there are web servers that take such an end for the response's.</param>
    protected void JudgeCut(Plan plan, bool looksWhole)
    {
        if (looksWhole && !Socket!.WasReset && !Socket.ClientGone && Socket.Unread == 0 && Simulation.World.Faults.RefusedSend == 0)
        {
            Violated($"the response to {plan.Name} was cut so that it may be taken for whole");
        }
    }

    /// <summary>Whether a body that nobody read is larger than what the server reads only to throw it away.</summary>
    protected bool HasTooMuchUnread => Plans.Exists(plan => plan.BodyLength + plan.BodyOverhead > Simulation.Services.Options.MaxDiscardBytes && !plan.BodyWasWhole);

    /// <summary>Whether the server had no room for this connection: it was never read from.</summary>
    protected bool WasTurnedAway(long bytesRead) => (Life.MayRefuseConnections || Life.IsDraining) && bytesRead == 0 && Socket!.TakenByServer == 0;

    /// <summary>What it waits for besides answers to its requests, in words.</summary>
    protected virtual string Besides => "";

    /// <summary>Nothing moves any more: is this client served?</summary>
    public string? Complaint()
    {
        if (IsDone || IsStalled || (Trouble == Trouble.SendsGarbage && _script.Count == 0))
        {
            return null;
        }

        return $"client {Number} ({Trouble}) waits: {Answers} of {Plans.Count} requests answered, {_script.Count} steps left, next {(_script.TryPeek(out (Step Step, byte[] Bytes, int Answers) item) ? item.Step : null)}, {Socket?.InFlight} bytes in flight, {Socket?.Unread} unread{Besides}";
    }

    public string Describe() => string.Join('\n', Plans.Select(plan => $"  client {Number} {GetType().Name} {Trouble}{(Pipelines ? " pipelining" : "")}: {plan}, started {plan.Started}, finished {plan.Finished}, body read {plan.BodyRead}, from {plan.HeadStart}, {plan.BodyOffset} to {plan.StreamEnd}")) + (Pace is null ? "" : $"\n    {_paceThen ?? Pace.ToString()}");

    /// <summary>The client leaves whatever it was doing.</summary>
    public void Leave()
    {
        IsDone = true;
        Socket?.ClientClose();
    }
}
