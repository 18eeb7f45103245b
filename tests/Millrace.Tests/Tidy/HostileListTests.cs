// docs/security.md lists what is hostile by number: every number stands there, has a test of its name, and names faults that
// the server really counts.

using System.Globalization;
using System.Reflection;
using System.Text.RegularExpressions;
using Millrace.Observe;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.FastCgi;
using Millrace.Protocols.Http1;

namespace Millrace.Tests.Tidy;

public sealed partial class HostileListTests
{
    private static readonly string s_page = Repository.Read("docs/security.md");

    private static readonly string[] s_tests = [.. typeof(HostileListTests).Assembly.GetTypes()
        .SelectMany(static type => type.GetMethods(BindingFlags.Public | BindingFlags.Instance | BindingFlags.Static | BindingFlags.DeclaredOnly))
        .Where(static method => method.GetCustomAttributes().Any(static attribute => attribute is Xunit.v3.IFactAttribute))
        .Select(static method => method.Name)];

    [Theory]
    [InlineData("FastCGI", "Hostile_", 75)]
    [InlineData("HTTP/1.1", "Http_hostile_", 26)]
    public void Every_number_of_the_list_stands_in_the_page_and_has_a_test(string heading, string prefix, int count)
    {
        int[] numbers = [.. Rows(heading).Select(static row => int.Parse(row.Groups[1].Value, CultureInfo.InvariantCulture))];
        Assert.Equal(Enumerable.Range(1, count), numbers);
        string[] missing = [.. numbers.Select(number => string.Create(CultureInfo.InvariantCulture, $"{prefix}{number:00}_"))
            .Where(name => !Array.Exists(s_tests, test => test.StartsWith(name, StringComparison.Ordinal)))];
        Assert.True(missing.Length == 0, "no test is called " + string.Join(", ", missing));
    }

    [Fact]
    public void Every_numbered_test_has_its_number_in_the_page()
    {
        foreach ((string prefix, string heading) in new[] { ("Hostile_", "FastCGI"), ("Http_hostile_", "HTTP/1.1") })
        {
            string[] known = [.. Rows(heading).Select(static row => row.Groups[1].Value)];
            string[] unknown = [.. s_tests.Where(name => name.StartsWith(prefix, StringComparison.Ordinal) && !known.Contains(name[prefix.Length..].Split('_')[0].TrimStart('0')))];
            Assert.True(unknown.Length == 0, "docs/security.md does not know " + string.Join(", ", unknown));
        }
    }

    [Fact]
    public void Every_fault_named_is_one_that_is_counted()
    {
        HashSet<string> counted =
        [
            .. typeof(Refusal).GetFields(BindingFlags.Public | BindingFlags.Static).Where(static field => field.IsLiteral).Select(static field => (string)field.GetRawConstantValue()!),
            .. Enum.GetValues<FastCgiFault>().Where(static fault => fault != FastCgiFault.None).Select(Refusal.Of),
            .. Enum.GetValues<CgiFault>().Where(static fault => fault != CgiFault.None).Select(Refusal.Of),
            .. Enum.GetValues<Http1Fault>().Where(static fault => fault != Http1Fault.None).Select(Refusal.Of),
        ];
        string[] named = [.. Rows("FastCGI").Concat(Rows("HTTP/1.1")).SelectMany(static row => FaultName().Matches(row.Groups[4].Value)).Select(static match => match.Groups[1].Value)];
        Assert.True(named.Length > 80);
        string[] unknown = [.. named.Where(name => !counted.Contains(name)).Distinct()];
        Assert.True(unknown.Length == 0, "not counted by that name: " + string.Join(", ", unknown));
    }

    private static MatchCollection Rows(string heading)
    {
        int start = s_page.IndexOf($"\n## {heading}\n", StringComparison.Ordinal);
        Assert.True(start >= 0, $"docs/security.md has no section {heading}");
        int end = s_page.IndexOf("\n## ", start + 4, StringComparison.Ordinal);
        return Row().Matches(end < 0 ? s_page[start..] : s_page[start..end]);
    }

    // | number | what arrives | what Millrace does | faults |
    [GeneratedRegex(@"^\| (\d+) \| ([^|]+) \| ([^|]+) \|([^|]*)\|$", RegexOptions.Multiline)]
    private static partial Regex Row();

    [GeneratedRegex("`([a-z0-9-]+)`")]
    private static partial Regex FaultName();
}
