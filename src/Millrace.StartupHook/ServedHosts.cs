// The hosts of an application under `millrace serve`, one after the other: some build one for their set-up first, stop it, and build the real one. Each gets
// descriptors of its own, which it closes when it stops; what the daemon has told one holds for those that come in its place.

using Millrace.AspNetCore;

namespace Millrace.StartupHooks;

internal static class ServedHosts
{
    private static readonly SemaphoreSlim s_one = new(1);
    private static HostedServer? s_current;
    private static bool s_isBegun;
    private static bool s_listens;
    private static bool s_moves;

    /// <summary>A host has started: from now on it does what the daemon says, and what it has said.</summary>
    public static async Task JoinAsync(HostedServer server)
    {
        await s_one.WaitAsync();
        try
        {
            s_current = server;
            if (!s_isBegun)
            {
                s_isBegun = true;
                ServedChannel.Start(RunRequest.ChannelDescriptor, ListenAsync, MoveAsync);
            }
            if (s_listens)
            {
                await ListenAsync(server);
            }
            if (s_moves)
            {
                await MoveAsync(server);
            }
        }
        finally
        {
            s_one.Release();
        }
    }

    /// <summary>A host has stopped. Until the next one has started those who connect wait.</summary>
    public static void Leave(HostedServer server) => Interlocked.CompareExchange(ref s_current, null, server);

    private static async Task ListenAsync()
    {
        await s_one.WaitAsync();
        try
        {
            OrphanWatch.End();
            if (!s_listens && s_current is { } server)
            {
                await ListenAsync(server);
            }
            s_listens = true;
        }
        finally
        {
            s_one.Release();
        }
    }

    private static async Task MoveAsync()
    {
        await s_one.WaitAsync();
        try
        {
            if (!s_moves && s_current is { } server)
            {
                await MoveAsync(server);
            }
            s_moves = true;
        }
        finally
        {
            s_one.Release();
        }
    }

    private static async Task ListenAsync(HostedServer server)
    {
        await server.ListenAsync(RunRequest.Copied(RunRequest.LaterAddresses));
        if (RunRequest.MoveDescriptors.Takes >= 0)
        {
            await server.TakeFromAsync(RunRequest.Copied(RunRequest.MoveDescriptors.Takes));
        }
    }

    private static Task MoveAsync(HostedServer server) => server.MoveTo(RunRequest.Copied(RunRequest.MoveDescriptors.Gives));
}
