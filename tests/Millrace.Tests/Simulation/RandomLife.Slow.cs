// The part of a random life that slow peers make: time passes in small steps, in each of which every peer sends and reads what its speed
// allows (SlowPeer), and whoever knows himself beyond a time limit says so before the server is on again.

using Millrace.Observe;

namespace Millrace.Tests.Simulation;

internal sealed partial class RandomLife
{
    private const int SlowTicks = 500;
    private const int NestedMsMax = 300;

    private static readonly string[] s_timeRefusals = [Refusal.HeadTimeout, Refusal.BodyTooSlow, Refusal.SendTimeout, Refusal.ResponseTooSlow, Refusal.QueueTimeout];

    private readonly HashSet<string> _excused = [];
    private int _nestedMs;      // time that has passed inside the steps since the last tick

    /// <summary>A client knows that it may be beyond this limit.</summary>
    public void Excuse(string? limit) => _excused.Add(limit ?? "");

    private static void SetTimes(MillraceOptions options, SeededRandom random)
    {
        TimeSpan Some(int fromMs, int toMs) => TimeSpan.FromMilliseconds(random.Between(fromMs, toMs));
        options.HeadTimeout = Some(2_000, 6_000);
        options.IdleTimeout = random.Chance(30) ? TimeSpan.FromSeconds(130) : Some(2_000, 10_000);
        options.BodyTimeout = Some(2_000, 6_000);
        options.UnreadBodyTimeout = Some(2_000, 8_000);
        options.SendTimeout = Some(2_000, 6_000);
        options.RequestQueueTimeout = Some(2_000, 6_000);
        options.MinBodyBytesPerSecond = random.Chance(40) ? 0 : random.Between(10, 2_000);
        options.MinBodyRateGrace = Some(500, 5_000);
        options.MinResponseBytesPerSecond = random.Chance(40) ? 0 : random.Between(10, 2_000);
        options.MinResponseRateGrace = Some(500, 5_000);
    }

    private string TimesText
    {
        get
        {
            MillraceOptions options = Simulation.Services.Options;
            return $"head {options.HeadTimeout}, idle {options.IdleTimeout}, body {options.BodyTimeout}, unread {options.UnreadBodyTimeout}, send {options.SendTimeout}, queue {options.RequestQueueTimeout}, "
                + $"body {options.MinBodyBytesPerSecond}/s after {options.MinBodyRateGrace}, response {options.MinResponseBytesPerSecond}/s after {options.MinResponseRateGrace}, {options.MaxConcurrentRequests} at once, buffers {Simulation.World.SendCapacityMax} {Simulation.World.ReceiveCapacityMax}\n";
        }
    }

    private void LiveSlowly()
    {
        SeededRandom random = Simulation.Random;
        for (int tick = 0; tick < SlowTicks && Simulation.Failure is null && !_clients.TrueForAll(static client => client.IsDone); tick++)
        {
            _nestedMs = 0;
            for (int steps = random.Below(10); steps > 0 && Simulation.Failure is null; steps--)
            {
                Simulation.RandomStep();
                Check();
            }

            PassSlowly(random.Chance(70) ? random.Between(10, 100) : random.Between(100, 300));
            _clients.ForEach(client => client.Act(eager: random.Chance(50)));
            if (random.Chance(60))
            {
                LookForForgotten();
            }
        }

        JudgeStrikes();
    }

    // Whoever misbehaves besides may not know how far he is.
    private void JudgeStrikes()
    {
        string[] unreached = [.. Refusals.Where(static name => s_timeRefusals.Contains(name)).Where(name => !_excused.Contains(name))];
        if (unreached.Length > 0 && _clients.TrueForAll(static client => client.Trouble == Trouble.None))
        {
            Simulation.Violated($"a limit struck that no client had reached: {string.Join(", ", unreached)}");
        }
    }

    // All that the server can do at this time it has done.
    private void LookForForgotten()
    {
        _nestedMs = NestedMsMax;
        Simulation.Settle();
        Check();
        foreach (RandomClient client in _clients)
        {
            if (client is { IsDone: false, Pace: { } pace } && pace.Forgotten() is { } forgotten)
            {
                Simulation.Violated(forgotten);
            }
        }
    }

    private void PassSlowly(int milliseconds)
    {
        Simulation.World.NowMs += milliseconds;
        _clients.ForEach(client => client.Pace?.Pass(milliseconds));
    }
}
