// Who removes the folder of the shared sockets, or one of them, keeps routers from applications that are well. It is noticed within seconds, and all whom it concerns are replaced: an application listens
// in the folder that is made again, and a router is given its descriptor. Who is on his way through the routers before them finds nothing meanwhile.

namespace Millrace.Command.Serving;

internal sealed partial class Daemon
{
    private static readonly TimeSpan s_lostMin = TimeSpan.FromSeconds(2);
    private static readonly TimeSpan s_lostMax = TimeSpan.FromMinutes(1);

    private async Task FindLostAsync()
    {
        TimeSpan period = s_lostMin;
        try
        {
            _ = _apps.Any(static app => app.Settings.IsRouter) ? TryOpenShared() : null;     // the one that routers have, where they were there before this daemon
            while (true)
            {
                await Task.Delay(period, _ending.Token);
                TimeSpan longer = period * 2 < s_lostMax ? period * 2 : s_lostMax;       // where it does not help, or is removed again and again
                period = await MendAsync() ? longer : s_lostMin;
            }
        }
        catch (OperationCanceledException)
        {
            // The daemon stops.
        }
    }

    // False: nothing is lost.
    private async Task<bool> MendAsync()
    {
        HostedApp[] lost = [.. _apps.Where(static app => app.IsLost)];
        if (lost.Length > 0 && TryOpenShared() is { } why)
        {
            _console.Steady.Say($"sockets of {Names(lost)} have been removed, and cannot be made again: {why}");
            return true;
        }
        HostedApp[] routers = _folders.TakeSharedAnew() ? [.. _apps.Where(static app => app.Settings.IsRouter)] : [];
        if (lost.Length + routers.Length == 0)
        {
            return false;
        }
        _console.Steady.Say($"sockets have been removed from {_folders.SharedPath}: the next generations of {Names([.. lost, .. routers])} are on their way, with new ones");
        await Task.WhenAll(lost.Concat(routers).Select(static app => app.RenewAsync()));
        return true;
    }

    // The answer is why it cannot be.
    private string? TryOpenShared()
    {
        try
        {
            _ = _folders.Shared;
            return null;
        }
        catch (CommandFailure error)
        {
            return error.Message;
        }
    }

    private static string Names(IEnumerable<HostedApp> apps) => string.Join(", ", apps.Select(static app => app.Settings.Name));
}
