// The deadlines of one loop. A connection stands in at most one slot; moving its deadline later costs nothing: the slot
// comes round, finds that the time has not come, and puts the connection further on. Touched only by the loop's driver.


namespace Millrace.Loops;

/// <summary>Deadlines in slots of 128 ms over 64 s; later ones wait in the last slot and are looked at again.</summary>
internal sealed class DeadlineWheel
{
    public const int SlotMs = 128;
    public const int Slots = 512;
    public const long HorizonMs = (Slots - 1) * (long)SlotMs;

    private readonly Connection?[] _slots = new Connection?[Slots];
    private long _tick;      // the next slot to look at, in units of SlotMs
    private long _earliest;  // no slot before this tick holds anything
    private int _count;

    public DeadlineWheel(long nowMs) => _tick = _earliest = nowMs / SlotMs;

    public int Count => _count;

    /// <summary>Makes sure the connection is looked at when its deadline has come. Cheap when it stands early enough already.</summary>
    public void Arm(Connection connection, long nowMs)
    {
        long due = Math.Min(connection.DeadlineMs, nowMs + HorizonMs);
        if (connection.WheelSlot >= 0)
        {
            if (connection.WheelDueMs <= due)
            {
                return;
            }

            Remove(connection);
        }

        long tick = Math.Max(_tick, (due + SlotMs - 1) / SlotMs);
        tick = Math.Min(tick, _tick + Slots - 1);
        int slot = (int)(tick % Slots);
        connection.WheelSlot = slot;
        connection.WheelDueMs = tick * SlotMs;
        connection.WheelPrevious = null;
        connection.WheelNext = _slots[slot];
        if (connection.WheelNext is { } next)
        {
            next.WheelPrevious = connection;
        }

        _slots[slot] = connection;
        _earliest = Math.Min(_earliest, tick);
        _count++;
    }

    public void Remove(Connection connection)
    {
        if (connection.WheelSlot < 0)
        {
            return;
        }

        if (connection.WheelPrevious is { } previous)
        {
            previous.WheelNext = connection.WheelNext;
        }
        else
        {
            _slots[connection.WheelSlot] = connection.WheelNext;
        }

        if (connection.WheelNext is { } next)
        {
            next.WheelPrevious = connection.WheelPrevious;
        }

        connection.WheelNext = connection.WheelPrevious = null;
        connection.WheelSlot = -1;
        connection.WheelDueMs = long.MaxValue;
        _count--;
    }

    /// <summary>Takes one connection whose slot has come, or null. It is out of the wheel then; arm it again if its time has not come.</summary>
    public Connection? TakeDue(long nowMs)
    {
        long until = nowMs / SlotMs;
        if (_count == 0)
        {
            _tick = Math.Max(_tick, until);
            return null;
        }

        while (_tick <= until)
        {
            if (_slots[_tick % Slots] is { } connection)
            {
                Remove(connection);
                return connection;
            }

            _tick++;
        }

        return null;
    }

    /// <summary>Milliseconds until the next slot that holds something; -1 when none does.</summary>
    public int NextWaitMs(long nowMs)
    {
        if (_count == 0)
        {
            return -1;
        }

        _earliest = Math.Max(_earliest, _tick);
        while (_slots[_earliest % Slots] is null)
        {
            _earliest++;
        }

        return (int)Math.Max(0, (_earliest * SlotMs) - nowMs);
    }
}
