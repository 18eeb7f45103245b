// The application's end of what `millrace serve` tells it: a listening socket that it has inherited, one connection at a time, one line for each
// request and one for its answer. A daemon that has gone leaves the application as it is; its successor connects here.
//
//   listen      accept on the addresses of the application, and serve the connections of the generation before     ok | ! and why not
//   move        accept no more, and give connections to the next generation, each when it is idle                   ok | ! and why not
//   count       how many requests have begun, and how many of them are not yet answered                             ok 1200 3
//   measure     the same, and how long requests have taken since somebody has begun to ask, as INDEX:COUNT       ok 1200 3 70:11 71:4

using System.Net.Sockets;

namespace Millrace.StartupHooks;

internal static class ServedChannel
{
    private static readonly TimeSpan s_pause = TimeSpan.FromMilliseconds(100);

    /// <param name="descriptor">The listening socket; this takes it over.</param>
    /// <param name="listen">Has the server accept; once is enough.</param>
    /// <param name="move">Has the server give its connections away; once is enough.</param>
    public static void Start(int descriptor, Func<Task> listen, Func<Task> move) =>
        _ = RunAsync(new Socket(new SafeSocketHandle(descriptor, ownsHandle: true)), new Commands(listen, move));

    private static async Task RunAsync(Socket listener, Commands commands)
    {
        using var own = listener;
        while (true)
        {
            try
            {
                using var stream = new NetworkStream(await listener.AcceptAsync().ConfigureAwait(false), ownsSocket: true);
                using var reader = new StreamReader(stream);
                using var writer = new StreamWriter(stream) { AutoFlush = true, NewLine = "\n" };
                while (await reader.ReadLineAsync().ConfigureAwait(false) is { } line)
                {
                    await writer.WriteLineAsync(await commands.DoAsync(line).ConfigureAwait(false)).ConfigureAwait(false);
                }
            }
            catch (Exception error) when (error is IOException or SocketException)
            {
                // The daemon has gone in the middle of a line, or there is no descriptor for it.
                await Task.Delay(s_pause).ConfigureAwait(false);
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
