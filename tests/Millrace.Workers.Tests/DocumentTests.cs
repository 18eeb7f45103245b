// docs/workers.md says what the code says: options with their defaults, instruments, log messages.

using System.Globalization;
using System.Reflection;
using System.Text.RegularExpressions;
using Microsoft.Extensions.Logging;

namespace Millrace.Workers.Tests;

public sealed partial class DocumentTests
{
    private static readonly string s_root = FindRoot();
    private static readonly string s_document = File.ReadAllText(Path.Combine(s_root, "docs/workers.md"));

    public static TheoryData<string> Options => [.. typeof(WorkerPoolOptions<Probe>).GetProperties().Select(static option => option.Name)];

    [Theory]
    [MemberData(nameof(Options))]
    public void Every_option_stands_in_the_table_with_its_default(string name)
    {
        Match row = Regex.Match(s_document, $@"^\| `{name}` \| ([^|]*) \|", RegexOptions.Multiline);
        Assert.True(row.Success, $"docs/workers.md has no row for {name}");
        object? value = typeof(WorkerPoolOptions<Probe>).GetProperty(name)!.GetValue(new WorkerPoolOptions<Probe>());
        string expected = value switch
        {
            null => "none",
            "" => "the type's name",
            bool flag => flag ? "true" : "false",
            TimeSpan time when time == Timeout.InfiniteTimeSpan => "none",
            TimeSpan time when time < TimeSpan.FromSeconds(1) => $"{time.TotalMilliseconds} ms",
            TimeSpan time => $"{time.TotalSeconds} s",
            _ when name == nameof(WorkerPoolOptions.Max) => "processors",
            TimeProvider => "the system's",
            IFormattable number and not Enum => number.ToString(number is double ? "0.0" : "N0", CultureInfo.InvariantCulture),
            _ => value.ToString()!,
        };
        Assert.Equal(expected, row.Groups[1].Value.Replace("`", "", StringComparison.Ordinal));
    }

    [Fact]
    public void The_instruments_are_those_of_the_code()
    {
        string[] created = [.. Name().Matches(File.ReadAllText(Path.Combine(s_root, "src/Millrace.Workers/WorkerPoolMeter.cs"))).Select(static match => match.Groups[1].Value).Distinct().Order(StringComparer.Ordinal)];
        string[] listed = [.. Row().Matches(s_document).Select(static match => match.Groups[1].Value).Order(StringComparer.Ordinal)];
        Assert.NotEmpty(created);
        Assert.Equal(created, listed);
    }

    [Fact]
    public void The_log_messages_are_those_of_the_code()
    {
        string[] messages =
        [
            .. typeof(Log).GetMethods(BindingFlags.Instance | BindingFlags.Static | BindingFlags.Public | BindingFlags.NonPublic).Select(static method => method.GetCustomAttribute<LoggerMessageAttribute>()).OfType<LoggerMessageAttribute>()
                .OrderBy(static message => message.EventId).Select(static message => string.Create(CultureInfo.InvariantCulture, $"| {message.EventId} | {message.Level} | {message.Message} |")),
        ];
        Assert.NotEmpty(messages);
        Assert.Equal(messages, s_document.Split('\n').Where(static line => Message().IsMatch(line)));
    }

    private static string FindRoot()
    {
        string? folder = AppContext.BaseDirectory;
        while (folder is not null && !File.Exists(Path.Combine(folder, "Millrace.slnx")))
        {
            folder = Path.GetDirectoryName(folder);
        }
        return folder ?? throw new DirectoryNotFoundException("the repository");
    }

    [GeneratedRegex("\"(millrace\\.workers\\.[a-z.]+)\"")]
    private static partial Regex Name();

    [GeneratedRegex(@"^\| `(millrace\.workers\.[a-z.]+)` \|", RegexOptions.Multiline)]
    private static partial Regex Row();

    [GeneratedRegex(@"^\| \d+ \| (Trace|Debug|Information|Warning|Error|Critical) \|")]
    private static partial Regex Message();
}
