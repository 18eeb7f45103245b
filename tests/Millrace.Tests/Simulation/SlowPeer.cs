// A peer with a speed: how many bytes a simulated second it sends and reads, and when it pauses. It keeps its own account of how far
// beyond each time limit of the server it is, so that the judge knows both which cuts are right and which are missing: nobody may be
// cut before a limit, and nobody may go on long after one.
//
// The clock is the peer's. The server may begin to count a little earlier, since it looks at its own clock once a turn (Early), and
// finds out a little later, since it looks at speeds once a second (Late).

using System.Globalization;
using Millrace.Observe;

namespace Millrace.Tests.Simulation;

/// <summary>A limit that a peer may have gone beyond.</summary>
/// <param name="Name">The refusal by which the server counts it; null where a connection just ends.</param>
/// <param name="BeyondMs">By how much; negative while there is time left.</param>
/// <param name="IsSure">Whether the server cannot see it otherwise.</param>
internal readonly record struct LimitReached(string? Name, long BeyondMs, bool IsSure);

internal sealed class SlowPeer
{
    private const int EarlyMs = 600;
    private const int LateMs = 3_500;
    private const int BeginSize = 16;
    private const int Unlimited = int.MaxValue;

    private static readonly int[] s_speeds = [2, 20, 150, 700, 4_000, 30_000];

    private readonly RandomLife _life;
    private readonly RandomClient _client;
    private readonly SeededRandom _random;
    private readonly int _sendSpeed;
    private readonly int _readSpeed;
    private double _maySend;
    private double _mayRead;
    private long _sendsAgainMs;
    private long _readsAgainMs;

    // ---- what it knows ----
    private readonly long _connectedMs;
    private long _lookedMs;
    private long _arrived;              // its bytes that the server's system has
    private long _arrivedMs;
    private long _sent;                 // bytes that the server has sent
    private long _sentMs;
    private long _readSinceSent;        // ... and it has read since
    private int _unsent;
    private long _takenMs;              // when the server last saw it take something
    private long _hadRoomMs;            // ... and last had been told of no lack of room
    private Plan? _body;                // whose body is on its way
    private long _bodyMs;               // time in which it could have sent of it
    private long _silentMs;
    private long _bodyAt;
    private long _answers;
    private long _answeredMs;

    public SlowPeer(RandomLife life, RandomClient client)
    {
        _life = life;
        _client = client;
        _random = life.Simulation.Random;
        _sendSpeed = Speed();
        _readSpeed = Speed();
        _connectedMs = _lookedMs = _arrivedMs = _sentMs = _takenMs = _answeredMs = Now;
    }

    private int Speed() => _random.Chance(50) ? Unlimited : s_speeds[_random.Below(s_speeds.Length)];

    private long Now => _life.Simulation.World.NowMs;

    private SimulatedSocket Socket => _client.Socket!;

    private MillraceOptions Options => _life.Simulation.Services.Options;

    private bool IsHttp => _client is RandomHttpClient;

    /// <summary>It has been so slow that the server may have ended something of its own.</summary>
    public bool IsLate { get; private set; }

    /// <summary>Bytes it may send now.</summary>
    public int MaySend => Allowed(_sendSpeed, _maySend, _sendsAgainMs);

    public int MayRead => Allowed(_readSpeed, _mayRead, _readsAgainMs);

    private int Allowed(int speed, double gathered, long againMs) =>
        _life.TimePassed ? Unlimited : Now < againMs ? 0 : speed == Unlimited ? Unlimited : (int)gathered;

    public void Sent(int count) => _maySend -= count;

    public void Read(int count)
    {
        _mayRead -= count;
        _readSinceSent += count;
    }

    public override string ToString() => string.Create(CultureInfo.InvariantCulture, $"sends {_sendSpeed}/s, reads {_readSpeed}/s{(IsLate ? ", late" : "")}, {_arrived} bytes arrived, body clock {_bodyMs}/{_silentMs}: ")
        + string.Join(", ", Limits().Select(static limit => string.Create(CultureInfo.InvariantCulture, $"{limit.Name ?? "idle"} {limit.BeyondMs}{(limit.IsSure ? "!" : "")}")));

    /// <summary>Time has passed; the server has not been on since.</summary>
    public void Pass(int milliseconds)
    {
        Gather(ref _maySend, _sendSpeed, milliseconds);
        Gather(ref _mayRead, _readSpeed, milliseconds);
        if (_random.Chance(1))
        {
            long until = Now + _random.Between(200, 12_000);
            _sendsAgainMs = _random.Chance(70) ? until : _sendsAgainMs;
            _readsAgainMs = _random.Chance(70) ? until : _readsAgainMs;
        }

        Look();
        foreach (LimitReached limit in Limits())
        {
            if (limit.BeyondMs >= -EarlyMs)
            {
                IsLate = true;
                _life.Excuse(limit.Name);
                if (!IsHttp)
                {
                    _life.Excuse(Refusal.HeadTimeout);      // so the end of a connection counts in the middle of a record, be it for nobody
                }

                _client.DisturbUnfinished();
            }
        }
    }

    private static void Gather(ref double gathered, int speed, int milliseconds) =>
        gathered = speed == Unlimited ? 0 : Math.Min(gathered + (speed * milliseconds / 1000.0), Math.Max(1, speed / 2.0));

    /// <summary>The server has done all it can at this time. Null, or the limit that it has forgotten.</summary>
    public string? Forgotten()
    {
        if (Socket.ServerClosed || Socket.WriteShut || Socket.WasReset || Socket.IsReset || _client.Trouble != Trouble.None)
        {
            return null;
        }

        Look();
        foreach (LimitReached limit in Limits())
        {
            if (limit.IsSure && limit.BeyondMs > LateMs)
            {
                return $"client {_client.Number} is {limit.BeyondMs} ms beyond {limit.Name ?? "the idle time"}, and nothing has happened";
            }
        }

        return null;
    }

    // ---- its account ----

    private void Look()
    {
        long before = _lookedMs;
        _lookedMs = Now;
        if (Socket.Arrived != _arrived)
        {
            _arrived = Socket.Arrived;
            _arrivedMs = Socket.ArrivedMs;
        }

        if (Socket.SentByServer != _sent)
        {
            _sent = Socket.SentByServer;
            _sentMs = _takenMs = before;        // some time since
            _readSinceSent = 0;
        }

        int unsent = Socket.UnsentNow(_life.Simulation.World.UnsentStep);
        if (unsent < _unsent || unsent == 0)
        {
            _takenMs = Now;
        }

        _unsent = unsent;
        if (!Socket.HasRefused)
        {
            _hadRoomMs = Now;
        }

        if (_client.AnswersSeen != _answers)
        {
            _answers = _client.AnswersSeen;
            _answeredMs = Now;
        }

        LookAtBody(Now - before);
    }

    private void LookAtBody(long passed)
    {
        Plan? body = Current is { } plan && _arrived >= plan.BodyOffset && _arrived < plan.StreamEnd ? plan : null;
        if (body != _body || body is null)
        {
            _body = body;
            _bodyMs = body is null ? 0 : Now - Socket.ArrivalOf(body.BodyOffset - 1);       // since its head was whole, and not since somebody looked
            _silentMs = 0;
            _bodyAt = _arrived;
            return;
        }

        if (Socket.IsFull)
        {
            return;     // it could not send
        }

        _bodyMs += passed;
        _silentMs = _arrivedMs > Now - passed || _arrived != _bodyAt ? Now - _arrivedMs : _silentMs + passed;
        _bodyAt = _arrived;
    }

    /// <summary>The request of which not everything has arrived, or the first that has not begun to.</summary>
    private Plan? Current => _client.Plans.Find(plan => plan.StreamEnd > _arrived);

    private IEnumerable<LimitReached> Limits()
    {
        foreach (LimitReached limit in Sending())
        {
            yield return limit;
        }

        long? head = null;
        if (Current is { } plan)
        {
            if (_arrived > plan.HeadStart && _arrived < plan.BodyOffset)
            {
                head = Socket.ArrivalOf(plan.HeadStart);
            }
            else if (_arrived >= plan.BodyOffset)
            {
                foreach (LimitReached limit in Body(plan))
                {
                    yield return limit;
                }
            }
        }

        if (!IsHttp && head is not null && _arrived < Current!.HeadStart + BeginSize)
        {
            // Behind records for nobody that came in pieces until the idle time was over.
            yield return new LimitReached(Refusal.HeadTimeout, Now - _sentMs - Ms(Options.IdleTimeout) - Ms(Options.HeadTimeout), IsSure: false);
        }

        bool quiet = IsServed(_client.Plans.FindLastIndex(each => each.StreamEnd <= _arrived) + 1);
        if (head is not null || _arrived <= _client.Plans[0].HeadStart)
        {
            long since = Math.Max(head ?? _connectedMs, quiet ? LastServedMs : 0);     // it is not read before
            yield return new LimitReached(Refusal.HeadTimeout, Now - (head ?? _connectedMs) - Ms(Options.HeadTimeout), IsSure: false);
            yield return new LimitReached(Refusal.HeadTimeout, Now - since - Ms(Options.HeadTimeout), IsSure: quiet && Socket.Descriptor >= 0);
        }
        else
        {
            // What comes for a request that is over takes nothing from the idle time over FastCGI, and adds nothing. Nor does an empty line ahead of a head.
            bool isLineAhead = Current is { } next && _arrived <= next.HeadStart && _arrived > (_client.Plans.FindLast(each => each.StreamEnd <= _arrived)?.StreamEnd ?? 0);
            yield return new LimitReached(null, Now - (IsHttp && !isLineAhead ? Math.Max(_arrivedMs, _sentMs) : _sentMs) - Ms(Options.IdleTimeout), IsSure: false);
            yield return new LimitReached(
                null, Now - Math.Max(Math.Max(_arrivedMs, _sentMs), LastServedMs) - Ms(Options.IdleTimeout), IsSure: quiet && !IsAnythingOpen && Socket.Descriptor >= 0);
        }

        foreach (Plan each in _client.Plans)
        {
            if (_life.Simulation.Services.Gate is not null && each.Started == 0 && _arrived >= each.BodyOffset)
            {
                yield return new LimitReached(Refusal.QueueTimeout, Now - Socket.ArrivalOf(each.BodyOffset - 1) - Ms(Options.RequestQueueTimeout), IsSure: false);
            }
        }
    }

    // So many requests have been answered to their end, and nothing of theirs is on its way.
    private bool IsServed(int requests) =>
        _client.AnswersSeen >= requests && _client.Plans.Take(requests).All(static plan => plan.Started == plan.Finished) && Socket.Unread == 0;

    // When the last answer had come whole, and its handler had ended.
    private long LastServedMs => Math.Max(_answeredMs, _client.Plans.Max(static each => each.FinishedMs));

    private bool IsAnythingOpen => Current is { } plan && _arrived > plan.HeadStart;

    private IEnumerable<LimitReached> Body(Plan plan)
    {
        if (plan.Finished == 0)
        {
            yield return new LimitReached(Refusal.BodyTooSlow, _silentMs - Ms(Options.BodyTimeout), IsSure: false);
            if (plan.ReadsSinceMs > 0 && !plan.ExpectsContinue)
            {
                yield return new LimitReached(Refusal.BodyTooSlow, Now - Math.Max(plan.ReadsSinceMs, _arrivedMs) - Ms(Options.BodyTimeout), IsSure: Socket.IsEmpty);
            }

            // Not all that has arrived need have been read. Padding, heads of records and chunks, and what lies between them is none of the body.
            yield return Rate(Refusal.BodyTooSlow, Math.Min((_arrived - plan.BodyOffset) / 3, plan.BodyBefore(_arrived) / 2), _bodyMs, Options.MinBodyBytesPerSecond, Options.MinBodyRateGrace);
            yield break;
        }

        long finished = plan.FinishedMs;
        if (!IsHttp)
        {
            // What comes for a request that is over is waited for like a head, and keeps the connection no longer than silence does.
            yield return new LimitReached(null, Now - finished - Ms(Options.IdleTimeout), IsSure: false);
            yield return new LimitReached(Refusal.HeadTimeout, Now - finished - Ms(Options.HeadTimeout), IsSure: false);
            yield break;
        }

        yield return new LimitReached(Refusal.BodyTooSlow, Now - finished - Ms(Options.UnreadBodyTimeout), IsSure: false);
        yield return new LimitReached(Refusal.BodyTooSlow, Now - Math.Max(finished, _answeredMs) - Ms(Options.UnreadBodyTimeout), IsSure: IsServed(_client.Plans.IndexOf(plan) + 1));
        yield return new LimitReached(Refusal.BodyTooSlow, Now - Math.Max(finished, _arrivedMs) - Ms(Options.BodyTimeout), IsSure: false);
        yield return Rate(Refusal.BodyTooSlow, (_arrived - Socket.ArrivedBy(finished)) / 2, Now - finished, Options.MinBodyBytesPerSecond, Options.MinBodyRateGrace);
    }

    private IEnumerable<LimitReached> Sending()
    {
        if (Socket.Unread == 0)
        {
            yield break;
        }

        yield return new LimitReached(Refusal.SendTimeout, Now - _takenMs - Ms(Options.SendTimeout), IsSure: false);
        yield return new LimitReached(Refusal.SendTimeout, Now - Math.Max(_takenMs, _hadRoomMs) - Ms(Options.SendTimeout), IsSure: Socket.HasRefused && _unsent > 0);
        if (IsHttp)
        {
            yield return Rate(Refusal.ResponseTooSlow, _readSinceSent / 2, Now - _sentMs, Options.MinResponseBytesPerSecond, Options.MinResponseRateGrace);
        }
    }

    // From where on it may count as too slow on average; that it must is up to tests of their own.
    private static LimitReached Rate(string name, long bytes, long elapsedMs, int bytesPerSecond, TimeSpan grace) => new(
        name, bytesPerSecond == 0 || bytes * 1000.0 >= bytesPerSecond * (elapsedMs + 1_000.0) ? long.MinValue / 2 : elapsedMs - Ms(grace), IsSure: false);

    private static long Ms(TimeSpan time) => (long)time.TotalMilliseconds;
}
