// A token finds its connection, and never the one that has taken its slot.

using Millrace.Connections;
using Millrace.Loops;

namespace Millrace.Tests.Loops;

public sealed class ConnectionTableTests
{
    [Fact]
    public void An_event_of_a_closed_connection_never_reaches_the_one_that_took_its_slot()
    {
        var table = new ConnectionTable();
        Connection first = IdleConnection.New();
        table.Add(first);
        ulong token = first.Token;
        table.Remove(first);
        Assert.Null(table.Find(token));
        Connection second = IdleConnection.New();
        table.Add(second);
        Assert.Equal((uint)token, (uint)second.Token);
        Assert.Null(table.Find(token));
        Assert.Same(second, table.Find(second.Token));
    }

    [Fact]
    public void A_table_grows_and_reuses_what_is_free()
    {
        var table = new ConnectionTable();
        Connection[] all = [.. Enumerable.Range(0, 1_000).Select(static _ => IdleConnection.New())];
        Array.ForEach(all, table.Add);
        Assert.All(all, connection => Assert.Same(connection, table.Find(connection.Token)));
        foreach (Connection connection in all.Where(static (_, i) => i % 2 == 0))
        {
            table.Remove(connection);
        }

        Assert.Equal(500, table.All().Count);
        Connection[] more = [.. Enumerable.Range(0, 500).Select(static _ => IdleConnection.New())];
        Array.ForEach(more, table.Add);
        Assert.All(more, connection => Assert.InRange((uint)connection.Token, 0u, 999u));
        Assert.Equal(1_000, table.All().Select(static c => (uint)c.Token).Distinct().Count());
    }

    [Theory]
    [InlineData(0UL)]
    [InlineData(ulong.MaxValue)]
    [InlineData(0x0000_0001_FFFF_FFFF)]
    public void A_token_that_was_never_given_finds_nothing(ulong token) => Assert.Null(new ConnectionTable().Find(token));
}
