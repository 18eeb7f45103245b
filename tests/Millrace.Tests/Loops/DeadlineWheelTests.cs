// Deadlines come neither early nor more than a slot late, whatever is armed, moved and removed in between.

using Millrace.Connections;
using Millrace.Loops;

namespace Millrace.Tests.Loops;

public sealed class DeadlineWheelTests
{
    private const long Start = 1_000_000;

    [Fact]
    public void A_deadline_comes_in_its_slot_and_not_before()
    {
        var wheel = new DeadlineWheel(Start);
        Connection connection = IdleConnection.New(Start + 1_000);
        wheel.Arm(connection, Start);
        Assert.Null(wheel.TakeDue(Start + 1_000 - 1));
        Assert.InRange(wheel.NextWaitMs(Start), 1_000, 1_000 + DeadlineWheel.SlotMs);
        Assert.Same(connection, wheel.TakeDue(Start + 1_000 + DeadlineWheel.SlotMs));
        Assert.Equal((0, -1), (wheel.Count, wheel.NextWaitMs(Start)));
    }

    [Fact]
    public void A_wheel_that_held_nothing_for_long_looks_at_nobody_before_his_time()
    {
        const long Quiet = 100_000;
        var wheel = new DeadlineWheel(Start);
        Assert.Null(wheel.TakeDue(Start + Quiet));
        wheel.Arm(IdleConnection.New(Start + Quiet + 30_000), Start + Quiet);
        Assert.Null(wheel.TakeDue(Start + Quiet));
        Assert.Null(wheel.TakeDue(Start + Quiet + 30_000 - 1));
        Assert.NotNull(wheel.TakeDue(Start + Quiet + 30_000 + DeadlineWheel.SlotMs));
    }

    [Fact]
    public void A_deadline_moved_earlier_moves_its_connection_and_one_moved_later_leaves_it_where_it_stands()
    {
        var wheel = new DeadlineWheel(Start);
        Connection connection = IdleConnection.New(Start + 10_000);
        wheel.Arm(connection, Start);
        connection.DeadlineMs = Start + 500;
        wheel.Arm(connection, Start);
        Assert.InRange(wheel.NextWaitMs(Start), 500, 500 + DeadlineWheel.SlotMs);
        connection.DeadlineMs = Start + 20_000;
        wheel.Arm(connection, Start);
        Assert.Equal(1, wheel.Count);
        Assert.InRange(wheel.NextWaitMs(Start), 500, 500 + DeadlineWheel.SlotMs);
        Assert.Same(connection, wheel.TakeDue(Start + 1_000));
    }

    [Fact]
    public void A_deadline_beyond_the_horizon_is_looked_at_again_at_the_horizon()
    {
        var wheel = new DeadlineWheel(Start);
        Connection connection = IdleConnection.New(Start + (10 * DeadlineWheel.HorizonMs));
        wheel.Arm(connection, Start);
        Assert.InRange(wheel.NextWaitMs(Start), DeadlineWheel.HorizonMs - DeadlineWheel.SlotMs, DeadlineWheel.HorizonMs + DeadlineWheel.SlotMs);
        Assert.Same(connection, wheel.TakeDue(Start + DeadlineWheel.HorizonMs + DeadlineWheel.SlotMs));
    }

    [Fact]
    public void A_connection_is_taken_out_of_the_middle_of_its_slot()
    {
        var wheel = new DeadlineWheel(Start);
        Connection[] all = [.. Enumerable.Range(0, 5).Select(static _ => IdleConnection.New(Start + 300))];
        Array.ForEach(all, connection => wheel.Arm(connection, Start));
        wheel.Remove(all[2]);
        wheel.Remove(all[2]);
        wheel.Remove(all[4]);
        wheel.Remove(all[0]);
        var due = new List<Connection>();
        while (wheel.TakeDue(Start + 1_000) is { } connection)
        {
            due.Add(connection);
        }

        Assert.Equal([all[3], all[1]], due);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public void A_wheel_agrees_with_a_list_of_deadlines(int seed)
    {
        var random = new Random(seed);
        long now = Start;
        var wheel = new DeadlineWheel(now);
        Connection[] all = [.. Enumerable.Range(0, 200).Select(static _ => IdleConnection.New())];
        for (int step = 0; step < 20_000; step++)
        {
            Connection connection = all[random.Next(all.Length)];
            switch (random.Next(4))
            {
                case 0:
                    wheel.Remove(connection);
                    connection.DeadlineMs = long.MaxValue;
                    break;
                case 1:
                    now += random.Next(2 * DeadlineWheel.SlotMs);
                    TakeAll(wheel, now, all);
                    break;
                default:
                    connection.DeadlineMs = now + (random.Next(10) == 0 ? random.Next(200_000) : random.Next(5_000));
                    wheel.Arm(connection, now);
                    break;
            }

            Assert.Equal(all.Count(static c => c.WheelSlot >= 0), wheel.Count);
        }
    }

    private static void TakeAll(DeadlineWheel wheel, long now, Connection[] all)
    {
        while (wheel.TakeDue(now) is { } due)
        {
            if (now < due.DeadlineMs)
            {
                wheel.Arm(due, now);
                continue;
            }

            Assert.InRange(now - due.DeadlineMs, 0, 3 * DeadlineWheel.SlotMs);
            due.DeadlineMs = long.MaxValue;
        }

        Assert.DoesNotContain(all, connection => connection.DeadlineMs <= now - (2 * DeadlineWheel.SlotMs));
    }
}
