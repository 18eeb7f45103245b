// Visitors and a flood, in simulated time.
//
// 3,000 visitors are in the middle of their visit when the flood begins. New ones come throughout it. Each thinks between two pages: 60 s on average, 10 minutes at most. A visitor is
// lost when he comes back and his session is not there; what happens up to 10 minutes after the flood counts, since he may think so long.

using System.Net;
using Millrace.Sessions;

namespace Millrace.Bench.Sessions;

internal enum Attack
{
    /// <summary>No cookie ever comes back.</summary>
    Cookieless,

    /// <summary>Each cookie comes back once, and its session is changed.</summary>
    ReturnsOnce,

    /// <summary>Each cookie comes back five times.</summary>
    ReturnsOften,
}

internal readonly record struct Losses(double Established, double New);

internal sealed class Simulation(IContestant contestant, SimulatedTime time, Attack attack, int attackerNetworks)
{
    public const int Places = 15_000;
    public const int Visitors = 3_000;
    public const int FloodPerSecond = 2_000;
    public const int FloodSeconds = 300;

    private const int NewVisitorsPerSecond = 5;
    private const int WarmUpSeconds = 900;
    private const int AfterSeconds = 600;
    private const int PagesOfNew = 6;
    private const double ThinkSecondsMean = 60;
    private const double ThinkSecondsMax = 600;
    private const double AttackerWaitSecondsMax = 5;
    private const int ReturnsOften = 5;

    private readonly PriorityQueue<Action, long> _events = new();
    private readonly Random _random = new(1);
    private readonly long _start = time.GetTimestamp();
    private int _established;
    private int _establishedLost;
    private int _new;
    private int _newLost;

    public Losses Run()
    {
        for (int i = 0; i < Visitors; i++)
        {
            var client = new Client(VisitorNetwork());
            At(_random.NextDouble() * ThinkSecondsMax, () => Begin(client, isNew: false));
        }
        for (int i = 0; i < FloodSeconds * NewVisitorsPerSecond; i++)
        {
            var client = new Client(VisitorNetwork());
            At(WarmUpSeconds + ((double)i / NewVisitorsPerSecond), () => Begin(client, isNew: true));
        }
        At(WarmUpSeconds, () => Strike(0));
        while (_events.TryDequeue(out Action? next, out long at))
        {
            time.Set(at);
            next();
        }
        return new Losses((double)_establishedLost / _established, (double)_newLost / _new);
    }

    private double Now => TimeSpan.FromTicks(time.GetTimestamp() - _start).TotalSeconds;

    private void At(double second, Action action) => _events.Enqueue(action, _start + (long)(second * TimeSpan.TicksPerSecond));

    private void Begin(Client client, bool isNew)
    {
        contestant.Begin(client);
        if (isNew)
        {
            _new++;
        }
        else
        {
            _established++;
        }
        Think(client, isNew, PagesOfNew);
    }

    private void Think(Client client, bool isNew, int pages)
    {
        double wait = Math.Min(-Math.Log(1 - _random.NextDouble()) * ThinkSecondsMean, ThinkSecondsMax);
        if (Now + wait < WarmUpSeconds + FloodSeconds + AfterSeconds && (pages > 0 || !isNew))
        {
            At(Now + wait, () => Return(client, isNew, pages - 1));
        }
    }

    private void Return(Client client, bool isNew, int pages)
    {
        if (contestant.Return(client, isChange: true))
        {
            Think(client, isNew, pages);
        }
        else if (isNew)
        {
            _newLost++;
        }
        else
        {
            _establishedLost++;
        }
    }

    private void Strike(int number)
    {
        var client = new Client(ClientPrefix.Of(new IPAddress([100, (byte)(number % attackerNetworks >> 8), (byte)(number % attackerNetworks), 1])));
        contestant.Begin(client);
        if (number + 1 < FloodSeconds * FloodPerSecond)
        {
            At(WarmUpSeconds + ((double)(number + 1) / FloodPerSecond), () => Strike(number + 1));
        }
        for (int i = 0; i < attack switch { Attack.ReturnsOnce => 1, Attack.ReturnsOften => ReturnsOften, _ => 0 }; i++)
        {
            At(Now + (_random.NextDouble() * AttackerWaitSecondsMax * (i + 1)), () => contestant.Return(client, isChange: true));
        }
    }

    private ClientPrefix VisitorNetwork() => ClientPrefix.Of(new IPAddress([80, (byte)_random.Next(8), (byte)_random.Next(256), 1]));
}
