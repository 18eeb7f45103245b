// docs/observability.md lists what the code can count and say, and nothing else: instruments, faults, log messages.

using System.Globalization;
using System.Reflection;
using System.Text.RegularExpressions;
using Microsoft.Extensions.Logging;
using Millrace.Observe;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.FastCgi;
using Millrace.Protocols.Http1;

namespace Millrace.Tests.Tidy;

public sealed partial class ObservabilityTests
{
    // Faults that a reader or a status has, and that the server counts under a name of its own or never: head-timeout,
    // body-long-or-over-limit, cgi-broken-pair.
    private static readonly string[] s_neverCounted =
    [
        Refusal.Of(FastCgiFault.None), Refusal.Of(CgiFault.None), Refusal.Of(Http1Fault.None),
        Refusal.Of(Http1Fault.BodyTooLarge), Refusal.Of(FastCgiFault.PairLength),
    ];

    private static readonly string s_document = Repository.Read("docs/observability.md");

    [Fact]
    public void The_faults_in_the_document_are_those_of_the_code()
    {
        IEnumerable<string> own = typeof(Refusal).GetFields(BindingFlags.Public | BindingFlags.Static).Where(static field => field.IsLiteral).Select(static field => (string)field.GetRawConstantValue()!);
        IEnumerable<string> counted = own
            .Concat(Enum.GetValues<FastCgiFault>().Select(Refusal.Of))
            .Concat(Enum.GetValues<CgiFault>().Select(Refusal.Of))
            .Concat(Enum.GetValues<Http1Fault>().Select(Refusal.Of))
            .Except(s_neverCounted);

        IEnumerable<string> listed = TableRows(Between("### Faults", "What to watch")).SelectMany(static row => Fault().Matches(row[0]).Select(static match => match.Groups[1].Value));

        Assert.Equal(counted.Order(StringComparer.Ordinal), listed.Order(StringComparer.Ordinal));
    }

    [Fact]
    public void The_status_of_a_refused_request_in_the_document_is_that_of_the_code()
    {
        var statuses = Enum.GetValues<CgiFault>().Select(static fault => (Name: Refusal.Of(fault), Status: fault.StatusCode()))
            .Concat(Enum.GetValues<Http1Fault>().Select(static fault => (Name: Refusal.Of(fault), Status: Http1Faults.StatusOf(fault))))
            .ToDictionary(static pair => pair.Name, static pair => pair.Status.ToString(CultureInfo.InvariantCulture), StringComparer.Ordinal);

        var rows = TableRows(Between("### Faults", "What to watch")).Where(static row => row.Length == 3).ToList();

        Assert.NotEmpty(rows);
        Assert.All(rows, row => Assert.All(Fault().Matches(row[0]).Select(static match => match.Groups[1].Value), fault => Assert.Equal((fault, statuses[fault]), (fault, row[1]))));
    }

    [Fact]
    public void The_log_messages_in_the_document_are_those_of_the_code()
    {
        string[] messages =
        [
            .. typeof(Log).GetMethods(BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic)
                .Select(static method => method.GetCustomAttribute<LoggerMessageAttribute>()).OfType<LoggerMessageAttribute>()
                .OrderBy(static message => message.EventId)
                .Select(static message => string.Create(CultureInfo.InvariantCulture, $"{message.EventId} {message.Level} {message.Message}")),
        ];

        // How often a message may come at most stands behind it, in brackets.
        string[] listed = [.. TableRows(Between("## Log messages", "Hosting's own")).Select(static row => $"{row[0]} {row[1]} {HowOften().Replace(row[2], "")}")];

        Assert.NotEmpty(messages);
        Assert.Equal(messages, listed);
        Assert.Distinct(messages.Select(static message => message.Split(' ')[0]));
    }

    [Fact]
    public void The_instruments_in_the_document_are_those_of_the_code()
    {
        IEnumerable<string> created = Instrument().Matches(Repository.Read("src/Millrace/ServerMeter.cs")).Select(static match => match.Groups[1].Value);
        IEnumerable<string> listed = TableRows(Between("| instrument |", "All are sums")).SelectMany(static row => Fault().Matches(row[0]).Select(static match => match.Groups[1].Value));

        Assert.NotEmpty(created);
        Assert.Equal(created.Order(StringComparer.Ordinal), listed.Order(StringComparer.Ordinal));
    }

    private static string Between(string start, string end)
    {
        int from = s_document.IndexOf(start, StringComparison.Ordinal);
        int to = from < 0 ? -1 : s_document.IndexOf(end, from, StringComparison.Ordinal);
        Assert.True(to > from, $"docs/observability.md has no part from \"{start}\" to \"{end}\"");
        return s_document[from..to];
    }

    // Without heads, rules, and rows that stand for a table further down ("...").
    private static IEnumerable<string[]> TableRows(string text) => text.Split('\n')
        .Where(static line => line.StartsWith("| ", StringComparison.Ordinal) && !line.Contains("...`", StringComparison.Ordinal))
        .Where(static line => line.StartsWith("| `", StringComparison.Ordinal) || char.IsAsciiDigit(line[2]))
        .Select(static line => line.Trim('|', ' ').Split(" | ", StringSplitOptions.TrimEntries));

    [GeneratedRegex("`([a-z0-9.-]+)`")]
    private static partial Regex Fault();

    [GeneratedRegex(@" \((At most once|Once)[^()]*\)$")]
    private static partial Regex HowOften();

    [GeneratedRegex("\"(millrace\\.[a-z.]+)\"")]
    private static partial Regex Instrument();
}
