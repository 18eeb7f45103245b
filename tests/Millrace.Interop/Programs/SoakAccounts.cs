// What the visitors of the soak were told, and what the log says of it: whoever has had no right answer is in the log with the same status and a reason. What fits is counted and forgotten.

using System.Collections.Concurrent;
using System.Globalization;
using System.Text.RegularExpressions;

namespace Millrace.Interop.Programs;

internal sealed partial class SoakAccounts
{
    /// <summary>Instead of a status: the answer had begun, and ended too early.</summary>
    public const int BrokenOff = 0;

    private readonly ConcurrentDictionary<string, (string Script, int Status)> _failed = new();
    private readonly ConcurrentDictionary<string, (int Status, string Why)> _said = new();
    private readonly ConcurrentDictionary<string, long> _counts = new();
    private readonly ConcurrentQueue<string> _wrong = new();
    private readonly ConcurrentDictionary<string, bool> _left = new();

    public IReadOnlyCollection<string> WrongAnswers => _wrong;

    public long Count(string what) => _counts.GetValueOrDefault(what);

    public string Sums => string.Join(", ", _counts.OrderBy(static pair => pair.Key, StringComparer.Ordinal).Select(static pair => $"{pair.Key} {pair.Value}"));

    public void Answered(string script) => Add($"answered {script}");

    public void Wrong(string what) => _wrong.Enqueue(what);

    public void Left(string id)
    {
        Add("left");
        _left[id] = true;
    }

    public void Failed(string id, string script, int status) => _failed[id] = (script, status);

    /// <summary>Takes lines of the log.</summary>
    public void Take(IEnumerable<string> lines)
    {
        foreach (string line in lines)
        {
            string number = line[..line.IndexOf(' ', StringComparison.Ordinal)];
            if (NoAnswer.Match(line) is { Success: true } no)
            {
                _said[no.Groups[1].Value] = (int.Parse(no.Groups[2].Value, CultureInfo.InvariantCulture), no.Groups[3].Value);
            }
            else if (Broken.Match(line) is { Success: true } broken)
            {
                _said[broken.Groups[1].Value] = (BrokenOff, broken.Groups[2].Value);
            }
            else if (number is "4" or "5" or "6" or "8" or "9" or "10")
            {
                Add($"message {Numbers.Replace(line[..Math.Min(line.Length, 100)], "N")}");
            }
        }
    }

    /// <summary>Brings together what visitors were told and what was said of it. What is left has no counterpart so far.</summary>
    public string[] Settle()
    {
        foreach ((string id, (string script, int status)) in _failed)
        {
            if (_said.TryGetValue(id, out var said) && said.Status == status)
            {
                _ = _failed.TryRemove(id, out _);
                _ = _said.TryRemove(id, out _);
                Add($"failed {script} {(id[0] == 's' ? "safe" : "unsafe")}: {status} {Numbers.Replace(said.Why, "N")}");
            }
        }

        foreach (string id in _left.Keys)
        {
            _ = _said.TryRemove(id, out _);
        }

        return [.. _failed.Select(static pair => $"{pair.Key} {pair.Value} was told so without a reason"), .. _said.Select(static pair => $"{pair.Key} {pair.Value} was said, and not told")];
    }

    private void Add(string what) => _counts.AddOrUpdate(what, 1, static (_, count) => count + 1);

    [GeneratedRegex(@"^1 \S+ \S*/([su]\d+): .* has not answered, and the visitor has (\d+)\. (.*)$", RegexOptions.Singleline)]
    private static partial Regex NoAnswer { get; }

    [GeneratedRegex(@"^2 \S+ \S*/([su]\d+): the answer of .* has broken off, and so has the visitor's\. (.*)$", RegexOptions.Singleline)]
    private static partial Regex Broken { get; }

    [GeneratedRegex(@"\d+(\.\d+)?")]
    private static partial Regex Numbers { get; }
}
