// What becomes of an application whose daemon has gone without a word. It goes on serving: what it prints goes into the same pipes, which it holds itself, so that
// nothing that it or a program of its writes meets a broken pipe; of what nobody has read it keeps some, and drops the rest, so that nobody who writes waits. The next
// daemon gets all that the one before it had of it: its sockets, the channel of its connections, and those pipes.

using System.Net.Sockets;
using Millrace.Platform;

namespace Millrace.StartupHooks;

internal static class DaemonLife
{
    // Of what a pipe holds a quarter, and no more than that: where its user has many it holds 8 KiB (pipe(7)), and its pages are not all full.
    private const int UnreadMax = 32 * 1024;
    private const int UnreadShare = 4;
    private const int DropAtOnce = 16 * 1024;
    private static readonly TimeSpan s_look = TimeSpan.FromMilliseconds(50);

    private static int[] s_pipes = [];
    private static Socket? s_daemon;

    /// <summary>A daemon is there, as long as this connection is.</summary>
    /// <param name="daemon">The connection, which is kept where the answer is true.</param>
    /// <param name="channel">The socket on which this process is told what to do.</param>
    /// <param name="pipes">What its output goes through, of the daemon that has started it; null: this is another one, which gets all there is.</param>
    public static bool TryBegin(Socket daemon, int channel, int[]? pipes)
    {
        Volatile.Write(ref s_daemon, daemon);       // whoever looks after the pipes meanwhile leaves them
        bool isTold = DescriptorPassing.TrySend((int)daemon.Handle, "ok\n"u8, pipes is null ? All(channel) : []);
        if (pipes is not null)
        {
            Array.ForEach(Interlocked.Exchange(ref s_pipes, pipes), static pipe => _ = SystemCalls.Close(pipe));
        }
        if (isTold || pipes is null)        // otherwise it has gone on without, and reads what is printed
        {
            _ = WaitAsync(daemon);
        }
        return isTold;
    }

    // In this order: gives, takes, where it is asked for its health, where it is told what to do, the pipes of its output, and what it accepts on.
    private static int[] All(int channel) =>
    [
        RunRequest.MoveDescriptors.Gives, RunRequest.MoveDescriptors.Takes, RunRequest.DescriptorOf(RunRequest.Addresses![0]), channel, .. s_pipes, .. RunRequest.LaterAddresses.Select(RunRequest.DescriptorOf),
    ];

    private static async Task WaitAsync(Socket daemon)
    {
        try
        {
            byte[] nothing = new byte[1];
            while (await daemon.ReceiveAsync(nothing, SocketFlags.None).ConfigureAwait(false) > 0)
            {
                // There is nothing more to say here.
            }
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException)
        {
            // It has gone, in another way.
        }
        daemon.Dispose();
        while (Volatile.Read(ref s_daemon) == daemon)
        {
            Array.ForEach(s_pipes, DropUnread);
            await Task.Delay(s_look).ConfigureAwait(false);
        }
    }

    private static unsafe void DropUnread(int pipe)
    {
        int unread = 0;
        int max = Math.Min(UnreadMax, SystemCalls.Fcntl(pipe, SystemCalls.F_GETPIPE_SZ, 0) / UnreadShare);
        byte* dropped = stackalloc byte[DropAtOnce];
        while (SystemCalls.Ioctl(pipe, SystemCalls.SIOCINQ, &unread) == 0 && unread > max && SystemCalls.Read(pipe, dropped, Math.Min(DropAtOnce, unread - max)) > 0)
        {
            // And again: who writes does not wait.
        }
    }
}
