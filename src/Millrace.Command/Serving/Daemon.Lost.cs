// Who removes the folder of the shared sockets, or one of them, keeps routers from applications that are well. It is noticed within seconds, and all whom it concerns are replaced: an application listens
// in the folder that is made again, and a router is given its descriptor. Who is on his way through the routers before them finds nothing meanwhile.

namespace Millrace.Command.Serving;

internal sealed partial class Daemon
{
    private static readonly TimeSpan s_lostMin = TimeSpan.FromSeconds(2);
    private static readonly TimeSpan s_lostMax = TimeSpan.FromMinutes(1);

    private readonly Dictionary<HostedApp, Mend> _mends = [];       // of those that were lost a while ago

    /// <param name="Task">What has been begun.</param>
    /// <param name="NextMs">When it may be begun again.</param>
    /// <param name="Pause">How long that is; twice as long behind each.</param>
    private sealed record Mend(Task Task, long NextMs, TimeSpan Pause);

    private async Task FindLostAsync()
    {
        try
        {
            while (true)
            {
                await Task.Delay(s_lostMin, _ending.Token);
                Array.ForEach([.. _mends.Keys.Except(_apps)], gone => _mends.Remove(gone));
                Array.ForEach([.. _apps], MendIfLost);
            }
        }
        catch (OperationCanceledException)
        {
            // The daemon stops.
        }
    }

    // Nobody waits for another one's start. One that does not come about, or whose socket is removed again and again, is tried less and less often.
    private void MendIfLost(HostedApp app)
    {
        long now = Environment.TickCount64;
        _mends.TryGetValue(app, out var before);
        if (before is not null && (!before.Task.IsCompleted || now < before.NextMs))
        {
            return;
        }
        if (app.IsLost)
        {
            TimeSpan pause = before is null ? s_lostMin : before.Pause * 2 < s_lostMax ? before.Pause * 2 : s_lostMax;
            _console.Steady.Say($"sockets have been removed from {_folders.SharedPath}: {app.Settings.Name} gets new ones");
            _mends[app] = new Mend(Task.Run(app.RenewAsync), now + (long)pause.TotalMilliseconds, pause);
        }
        else if (before is not null && now > before.NextMs + (long)s_lostMax.TotalMilliseconds)
        {
            _mends.Remove(app);
        }
    }
}
