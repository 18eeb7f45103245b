// The application's end of what `millrace serve` tells it: a listening socket that it has inherited, one connection at a time, one line for each
// request and one for its answer. A daemon that has gone leaves the application as it is; its successor connects here.
//
//   listen      accept on the addresses of the application, and serve the connections of the generation before     ok | ! and why not
//   move        accept no more, and give connections to the next generation, each when it is idle                   ok | ! and why not

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
        /// <summary>What is answered to a line.</summary>
        public async Task<string> DoAsync(string line)
        {
            try
            {
                switch (line)
                {
                    case "listen":
                        await listen().ConfigureAwait(false);
                        return "ok";
                    case "move":
                        await move().ConfigureAwait(false);
                        return "ok";
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
