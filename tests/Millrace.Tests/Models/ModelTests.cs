// The Promela models beside the code are checked exhaustively by spin, and each of their broken variants must be found out:
// a model in which every step may be left out proves nothing.

using System.Text.RegularExpressions;
using Millrace.Tests.Tidy;

namespace Millrace.Tests.Models;

public sealed partial class ModelTests
{
    private const string EventLoop = "src/Millrace/Loops/EventLoop.pml";
    private const string Connection = "src/Millrace/Connections/Connection.pml";
    private const string Moved = "src/Millrace/Loops/MovedConnection.pml";

    [Fact]
    public async Task A_loop_has_one_driver_and_loses_no_wake_up() => await Holds(EventLoop);

    [Fact]
    public async Task A_connection_has_one_owner_and_loses_no_edge() => await Holds(Connection);

    [Fact]
    public async Task A_connection_is_closed_by_its_loop_alone_whenever_a_deadline_passes() => await Holds(Connection, "DEADLINES=1", "STALLS=1");

    [Fact]
    public async Task Each_byte_of_a_connection_that_moves_belongs_to_one_server_whichever_of_them_ends() => await Holds(Moved);

    [Theory]
    [InlineData("BROKEN_LEAVE")]
    [InlineData("BROKEN_TAKE_OVER")]
    [InlineData("BROKEN_MARK")]
    [InlineData("BROKEN_FALL_ASLEEP")]
    [InlineData("BROKEN_MONITOR_SLEEP")]
    [InlineData("BROKEN_POSTED")]
    [InlineData("BROKEN_BATCH")]
    public async Task A_loop_with_a_step_left_out_is_found_out(string variant) => await IsFoundOut(EventLoop, variant);

    [Theory]
    [InlineData("BROKEN_GIVE_BACK")]
    [InlineData("BROKEN_GIVEN_TWICE")]
    [InlineData("BROKEN_PIN")]
    [InlineData("BROKEN_LOOK_AGAIN")]
    [InlineData("BROKEN_NOTE")]
    [InlineData("BROKEN_NOTE_END")]
    [InlineData("BROKEN_NOTE_EDGE")]
    [InlineData("BROKEN_LOOK_AFTER")]
    [InlineData("BROKEN_WATCH")]
    [InlineData("BROKEN_REWATCH")]
    [InlineData("BROKEN_RESUME", "UNITS=3")]
    [InlineData("BROKEN_CLOSE", "DEADLINES=1")]
    [InlineData("BROKEN_DEADLINE", "DEADLINES=1")]
    [InlineData("BROKEN_DEADLINE_END", "DEADLINES=1")]
    [InlineData("BROKEN_END")]
    public async Task A_connection_with_a_step_left_out_is_found_out(string variant, string? size = null) =>
        await IsFoundOut(Connection, size is null ? [variant] : [variant, size]);

    [Theory]
    [InlineData("BROKEN_IDLE")]
    [InlineData("BROKEN_REST")]
    [InlineData("BROKEN_LEAVE")]
    [InlineData("BROKEN_NUMBER")]
    [InlineData("BROKEN_WAKE_ONE")]
    [InlineData("BROKEN_WAITING")]
    [InlineData("BROKEN_CHANNEL")]
    [InlineData("BROKEN_FIRST_LOOK")]
    [InlineData("BROKEN_WATCH")]
    public async Task A_move_with_a_step_left_out_is_found_out(string variant) => await IsFoundOut(Moved, variant);

    [Theory]
    [InlineData(EventLoop, nameof(A_loop_with_a_step_left_out_is_found_out))]
    [InlineData(Connection, nameof(A_connection_with_a_step_left_out_is_found_out))]
    [InlineData(Moved, nameof(A_move_with_a_step_left_out_is_found_out))]
    public void Every_variant_of_a_model_is_tried(string model, string test)
    {
        IEnumerable<string> inModel = Variant().Matches(Repository.Read(model)).Select(static match => match.Value).Distinct().Order();
        IEnumerable<string> tried = typeof(ModelTests).GetMethod(test)!.GetCustomAttributes(typeof(InlineDataAttribute), inherit: false)
            .Select(static data => (string)((InlineDataAttribute)data).Data[0]!).Order();
        Assert.Equal(inModel, tried);
    }

    private static async Task Holds(string model, params string[] definitions)
    {
        string report = await Spin.CheckAsync(model, isQuick: false, definitions);
        Assert.Contains("errors: 0", report, StringComparison.Ordinal);
    }

    private static async Task IsFoundOut(string model, params string[] definitions)
    {
        string report = await Spin.CheckAsync(model, isQuick: true, definitions);
        Assert.Contains("assertion violated", report, StringComparison.Ordinal);
        Assert.Contains("errors: 1", report, StringComparison.Ordinal);
    }

    [GeneratedRegex("BROKEN_[A-Z_]*[A-Z]")]
    private static partial Regex Variant();
}
