// The configuration section "Millrace": every option can be read from it, and whatever is wrong in it stops the start, or is
// said, with a sentence that names the key.

using System.Globalization;
using System.Reflection;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;
using Millrace.AspNetCore;

namespace Millrace.Tests.Hosting;

public sealed class OptionsSectionTests
{
    private static IConfiguration Section(params (string Key, string? Value)[] entries) =>
        new ConfigurationBuilder().AddInMemoryCollection(entries.Select(static entry => new KeyValuePair<string, string?>(entry.Key, entry.Value))).Build();

    public static TheoryData<string> Options => [.. typeof(MillraceOptions).GetProperties().Select(static option => option.Name)];

    [Theory]
    [MemberData(nameof(Options))]
    public void Every_option_can_be_read_from_the_section(string name)
    {
        PropertyInfo option = typeof(MillraceOptions).GetProperty(name)!;
        object other = Other(Nullable.GetUnderlyingType(option.PropertyType) ?? option.PropertyType, option.GetValue(new MillraceOptions()));
        var options = new MillraceOptions();

        IReadOnlyList<string> faults = OptionsSection.Read(Section((name.ToLowerInvariant(), Convert.ToString(other, CultureInfo.InvariantCulture))), options);

        Assert.Empty(faults);
        Assert.Equal(other, option.GetValue(options));
    }

    private static object Other(Type type, object? value) => type switch
    {
        _ when type == typeof(bool) => value is not true,
        _ when type == typeof(TimeSpan) => TimeSpan.FromSeconds(77),
        _ when type == typeof(int) => 77,
        _ when type == typeof(long) => 5_000_000_000L,
        _ => Enum.GetValues(type).Cast<object>().First(other => !other.Equals(value)),
    };

    [Theory]
    [InlineData("MaxConnections", "lots", "Millrace option MaxConnections is \"lots\"; it must be a whole number from 1 to 1000000.")]
    [InlineData("MaxConnections", "", "Millrace option MaxConnections is \"\"; it must be a whole number from 1 to 1000000.")]
    [InlineData("MaxConnections", "1.5", "Millrace option MaxConnections is \"1.5\"; it must be a whole number from 1 to 1000000.")]
    [InlineData("MaxRequestBodySize", "30 MB", "Millrace option MaxRequestBodySize is \"30 MB\"; it must be a whole number, or empty for none, from 0 to 9223372036854775807.")]
    [InlineData("AllowSynchronousIO", "yes", "Millrace option AllowSynchronousIO is \"yes\"; it must be true or false.")]
    [InlineData("Dispatch", "Fast", "Millrace option Dispatch is \"Fast\"; it must be one of Adaptive, Inline, Workers.")]
    [InlineData("Dispatch", "9", "Millrace option Dispatch is \"9\"; it must be one of Adaptive, Inline, Workers.")]
    [InlineData("IdleTimeout", "30", "Millrace option IdleTimeout is \"30\"; it must be a duration as hours:minutes:seconds (\"00:00:30\" if seconds were meant) from 00:00:00.1000000 to 1.00:00:00.")]
    [InlineData("IdleTimeout", "30s", "Millrace option IdleTimeout is \"30s\"; it must be a duration as hours:minutes:seconds from 00:00:00.1000000 to 1.00:00:00.")]
    public void A_value_that_cannot_be_read_is_a_sentence(string key, string value, string sentence) =>
        Assert.Equal(sentence, Assert.Single(OptionsSection.Read(Section((key, value)), new MillraceOptions())));

    [Fact]
    public void Zero_is_a_duration_that_needs_no_unit()
    {
        var options = new MillraceOptions { SlowRequestThreshold = TimeSpan.FromSeconds(1) };
        Assert.Empty(OptionsSection.Read(Section(("SlowRequestThreshold", "0")), options));
        Assert.Equal(TimeSpan.Zero, options.SlowRequestThreshold);
    }

    [Theory]
    [InlineData(null)]
    [InlineData("")]
    public void Null_in_JSON_and_a_variable_without_a_value_mean_none_where_there_may_be_none(string? value)
    {
        var options = new MillraceOptions();
        Assert.Empty(OptionsSection.Read(Section(("MaxRequestBodySize", value)), options));
        Assert.Null(options.MaxRequestBodySize);
    }

    [Fact]
    public async Task Everything_that_is_wrong_stops_the_start_at_once()
    {
        OptionsValidationException error = await Assert.ThrowsAsync<OptionsValidationException>(static () => HostedApp.StartAsync(
            static _ => { },
            static builder => builder.Configuration.AddInMemoryCollection([new("Millrace:IdleTimeout", "30"), new("Millrace:MaxParameters", "5"), new("Millrace:HeadTimeout", "2.00:00:00")])));
        Assert.Equal(
            [
                "Millrace option IdleTimeout is \"30\"; it must be a duration as hours:minutes:seconds (\"00:00:30\" if seconds were meant) from 00:00:00.1000000 to 1.00:00:00.",
                "Millrace option MaxParameters is 5; it must be from 10 to 100000.",
                "Millrace option HeadTimeout is 2.00:00:00; it must be from 00:00:00.1000000 to 1.00:00:00.",
            ],
            error.Failures);
    }

    [Fact]
    public async Task A_key_that_names_no_option_is_said_with_the_nearest_one()
    {
        using var log = new CollectedLog();
        await using HostedApp app = await HostedApp.StartAsync(static _ => { }, builder =>
        {
            builder.Logging.AddProvider(log);
            builder.Configuration.AddInMemoryCollection([new("Millrace:MaxConection", "5"), new("Millrace:Loops", "1")]);
        });
        Assert.Equal(
            "Millrace: The configuration section Millrace has the key MaxConection, which is no option. The nearest is MaxConnections.",
            Assert.Single(log.Lines, static line => line.StartsWith("Millrace: ", StringComparison.Ordinal)));
    }
}
