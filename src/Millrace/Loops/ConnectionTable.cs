// The connections of one loop by slot. A token is generation and slot, so that an event of a closed connection, still
// waiting in the batch, never reaches the connection that has taken its slot.


namespace Millrace.Loops;

internal sealed class ConnectionTable
{
    private Connection?[] _slots = new Connection?[64];
    private readonly Stack<int> _free = new();
    private int _used;
    private uint _generation;

    public void Add(Connection connection)
    {
        if (!_free.TryPop(out int slot))
        {
            if (_used == _slots.Length)
            {
                Array.Resize(ref _slots, _slots.Length * 2);
            }

            _ = _free.EnsureCapacity(_slots.Length);    // a connection is removed whatever memory there is then
            slot = _used++;     // where there was none just now, the next one finds some
        }

        _slots[slot] = connection;
        _generation = (_generation + 1) & 0x7FFF_FFFF;
        connection.Token = ((ulong)_generation << 32) | (uint)slot;
    }

    public Connection? Find(ulong token)
    {
        uint slot = (uint)token;
        return slot < (uint)_slots.Length && _slots[slot] is { } connection && connection.Token == token ? connection : null;
    }

    public void Remove(Connection connection)
    {
        int slot = (int)(uint)connection.Token;
        _slots[slot] = null;
        _free.Push(slot);
    }

    /// <summary>A copy, so that connections may be removed while it is walked.</summary>
    public List<Connection> All() => [.. _slots.OfType<Connection>()];
}
