// A log that nobody can flood: of each kind one sentence in a second, with the number of those that were left out. What it quotes comes from visitors and
// applications: it is one line, and none that looks like another's.

using System.Diagnostics;
using System.Globalization;
using Millrace.Command.Terminals;

namespace Millrace.Command.Routing;

internal sealed class CalmLog(Action<string> log)
{
    private static readonly TimeSpan s_pause = TimeSpan.FromSeconds(1);

    private readonly Lock _lock = new();
    private readonly Dictionary<string, (long Since, int LeftOut)> _kinds = [];

    /// <param name="kind">One of few.</param>
    /// <param name="sentence">What happened.</param>
    public void Say(string kind, string sentence)
    {
        int leftOut;
        lock (_lock)
        {
            if (_kinds.TryGetValue(kind, out var last) && Stopwatch.GetElapsedTime(last.Since) < s_pause)
            {
                _kinds[kind] = last with { LeftOut = last.LeftOut + 1 };
                return;
            }
            leftOut = last.LeftOut;
            _kinds[kind] = (Stopwatch.GetTimestamp(), 0);
        }
        sentence = CommandConsole.Readable(sentence);
        log(leftOut == 0 ? sentence : string.Create(CultureInfo.InvariantCulture, $"{sentence} ({leftOut} more of the kind before)"));
    }
}
