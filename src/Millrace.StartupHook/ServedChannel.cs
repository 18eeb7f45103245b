// The application's end of what `millrace serve` tells it: a listening socket that it has inherited, one connection at a time, one line for each
// request and one for its answer. A daemon that has gone leaves the application as it is; its successor connects here.
//
//   listen      accept on the addresses of the application, and serve the connections of the generation before     ok | ! and why not
//   move        accept no more, and give connections to the next generation, each when it is idle                   ok | ! and why not
//   count       how many requests have begun, and how many of them are not yet answered                             ok 1200 3
//   measure     the same, and how long requests have taken since somebody has begun to ask, as INDEX:COUNT       ok 1200 3 70:11 71:4
//   keep        (with the pipes that its output goes through) hold them; the end of this connection is that of the daemon     ok
//   give        the same from the daemon that comes next                                                              ok, with all that this has of the daemon's
//
// The last two concern nobody but the user of the daemon, as the kernel says who that is.

using System.Net.Sockets;
using System.Text;
using Millrace.Platform;

namespace Millrace.StartupHooks;

internal static class ServedChannel
{
    private const int LineMax = 256;
    private const int Backlog = 16;
    private static readonly TimeSpan s_pause = TimeSpan.FromMilliseconds(100);

    /// <param name="descriptor">The listening socket; this takes it over.</param>
    /// <param name="listen">Has the server accept; once is enough.</param>
    /// <param name="move">Has the server give its connections away; once is enough.</param>
    public static void Start(int descriptor, Func<Task> listen, Func<Task> move)
    {
        var listener = new Socket(new SafeSocketHandle(descriptor, ownsHandle: true));
        uint owner = DescriptorPassing.Peer(descriptor).User;
        listener.Listen(Backlog);       // again: from now on the kernel says that it is this process that answers here
        _ = RunAsync(listener, owner, new Commands(listen, move));
    }

    private static async Task RunAsync(Socket listener, uint owner, Commands commands)
    {
        using var own = listener;
        while (true)
        {
            try
            {
                var socket = await listener.AcceptAsync().ConfigureAwait(false);
                bool isKept = false;
                try
                {
                    isKept = await AnswerAsync(socket, listener, owner, commands).ConfigureAwait(false);
                }
                finally
                {
                    if (!isKept)
                    {
                        socket.Dispose();
                    }
                }
            }
            catch (Exception error) when (error is IOException or SocketException)
            {
                // The daemon has gone in the middle of a line, or there is no descriptor for it.
                await Task.Delay(s_pause).ConfigureAwait(false);
            }
        }
    }

    // True: the connection is the daemon's for as long as that is there.
    private static async Task<bool> AnswerAsync(Socket socket, Socket listener, uint owner, Commands commands)
    {
        byte[] text = new byte[LineMax];
        int length = 0;
        List<int> descriptors = [];
        while (true)
        {
            await socket.ReceiveAsync(Memory<byte>.Empty, SocketFlags.None).ConfigureAwait(false);
            int count = DescriptorPassing.Receive((int)socket.Handle, text.AsSpan(length), out int[] more);
            descriptors.AddRange(more);
            if (count <= 0)
            {
                descriptors.ForEach(ForeignDescriptor.Close);
                return false;
            }
            length += count;
            for (int end; (end = text.AsSpan(0, length).IndexOf((byte)'\n')) >= 0;)
            {
                string line = Encoding.ASCII.GetString(text, 0, end);
                text.AsSpan(end + 1, length - end - 1).CopyTo(text);
                length -= end + 1;
                if (line is "keep" or "give" && DescriptorPassing.Peer((int)socket.Handle).User == owner)
                {
                    return DaemonLife.TryBegin(socket, (int)listener.Handle, line == "give" ? null : [.. descriptors]);
                }
                await socket.SendAsync(Encoding.ASCII.GetBytes(await commands.DoAsync(line).ConfigureAwait(false) + "\n"), SocketFlags.None).ConfigureAwait(false);
            }
        }
    }

    private sealed class Commands(Func<Task> listen, Func<Task> move)
    {
        // The collector looks for its limit when the process starts, which may be a moment before the process is put under one.
        private static void LookAtMemory()
        {
            try
            {
                if (RunRequest.HasMemoryLimit)
                {
                    GC.RefreshMemoryLimit();
                }
            }
            catch (InvalidOperationException)
            {
                // The application has settings of its own for the collector.
            }
        }

        /// <summary>What is answered to a line.</summary>
        public async Task<string> DoAsync(string line)
        {
            try
            {
                switch (line)
                {
                    case "listen":
                        LookAtMemory();
                        await listen().ConfigureAwait(false);
                        return "ok";
                    case "move":
                        await move().ConfigureAwait(false);
                        return "ok";
                    case "count":
                        return "ok " + Traffic.Count();
                    case "measure":
                        return "ok " + Traffic.Measure();
                    default:
                        return $"! '{line}' is nothing that this application knows";
                }
            }
            catch (Exception error) when (error is MillraceStartException or FormatException)
            {
                return "! " + error.Message.ReplaceLineEndings(" ");
            }
        }
    }
}
