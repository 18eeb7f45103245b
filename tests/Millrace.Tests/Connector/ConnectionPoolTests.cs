// Which connection a request is given, with the loops in the test's hand: one of its own loop first, another one before a new one, and no more than there may be.

using System.Net.Sockets;
using Millrace.Connector;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Connector;

public sealed class ConnectionPoolTests : IDisposable
{
    private readonly SocketFolder _folder = new();
    private readonly Socket _program = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
    private readonly HandLoop _loop = new();
    private readonly HandLoop _other = new();
    private readonly UnixDomainSocketEndPoint _endPoint;

    public ConnectionPoolTests()
    {
        _endPoint = new UnixDomainSocketEndPoint(_folder.PathOf("p.sock"));
        _program.Bind(_endPoint);
        _program.Listen(64);
    }

    public void Dispose()
    {
        _program.Dispose();
        _folder.Dispose();
    }

    private ConnectionPool Pool(int connectionsMax = 10, double idleSeconds = 30) =>
        new(_endPoint, new ConnectionLimits(connectionsMax, TimeSpan.FromSeconds(idleSeconds), TimeSpan.FromMilliseconds(50)));

    // As a request takes one.
    private static async Task<PooledConnection> RentAsync(ConnectionPool pool, HandLoop? loop, bool fresh = false)
    {
        var kind = new TransportKind(loop);
        return (fresh ? null : pool.TryRent(kind)) ?? await pool.RentAsync(fresh, kind, CancellationToken.None);
    }

    private static async Task<PooledConnection[]> RentAsync(ConnectionPool pool, HandLoop? loop, int count)
    {
        var rented = new PooledConnection[count];
        for (int i = 0; i < count; i++)
        {
            rented[i] = await RentAsync(pool, loop);
        }
        return rented;
    }

    [Fact]
    public async Task The_one_that_its_loop_has_used_last_goes_first()
    {
        using ConnectionPool pool = Pool();
        PooledConnection[] its = await RentAsync(pool, _loop, 3);
        PooledConnection[] others = await RentAsync(pool, _other, 2);
        Array.ForEach(its, pool.Return);
        Array.ForEach(others, pool.Return);
        Assert.Equal(5, pool.Idle);
        Assert.Equal([its[2], its[1], its[0]], await RentAsync(pool, _loop, 3));
        Assert.Equal([others[1], others[0]], await RentAsync(pool, _other, 2));
        Assert.Equal(0, pool.Idle);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task One_of_another_loop_goes_before_a_new_one_and_comes_back_to_that(bool isOnLoop)
    {
        using ConnectionPool pool = Pool();
        PooledConnection its = await RentAsync(pool, _loop);
        pool.Return(its);
        PooledConnection taken = await RentAsync(pool, isOnLoop ? _other : null);
        Assert.Same(its, taken);
        pool.Return(taken);
        PooledConnection again = await RentAsync(pool, _loop);
        Assert.Same(its, again);
        Assert.NotSame(its, await RentAsync(pool, isOnLoop ? _other : null));
    }

    [Fact]
    public async Task What_loops_keep_gives_way_where_there_are_as_many_as_may_be_ConnectionsMax()
    {
        using ConnectionPool pool = Pool(connectionsMax: 2);
        PooledConnection[] its = await RentAsync(pool, _loop, 2);
        await AssertBusyAsync(pool);
        Array.ForEach(its, pool.Return);
        PooledConnection fresh = await RentAsync(pool, _other, fresh: true);
        Assert.True(its[0].IsClosed);
        Assert.Equal(1, pool.Idle);
        Assert.Same(its[1], await RentAsync(pool, _other));
        await AssertBusyAsync(pool);
        pool.Drop(fresh);
        _ = await RentAsync(pool, _loop);
        await AssertBusyAsync(pool);
    }

    [Fact]
    public async Task Who_waits_gets_what_a_loop_gives_back()
    {
        using var pool = new ConnectionPool(_endPoint, ConnectionLimits.Default with { ConnectionsMax = 1 });
        PooledConnection its = await RentAsync(pool, _loop);
        Task<PooledConnection> waiting = RentAsync(pool, _other);
        Assert.False(waiting.IsCompleted);
        pool.Return(its);
        Assert.Same(its, await waiting);
        waiting = RentAsync(pool, _other);
        pool.Drop(its);
        Assert.NotSame(its, await waiting);
    }

    // Whoever begins to wait just when one is put on its shelf sees it, or is seen.
    [Fact]
    public async Task Nobody_waits_while_there_is_one()
    {
        using ConnectionPool pool = Pool(connectionsMax: 1);
        _ = await RentAsync(pool, _loop) is var first;
        pool.Return(first);
        await Task.WhenAll(Enumerable.Range(0, 2).Select(i => Task.Run(async () =>
        {
            for (int n = 0; n < 2_000; n++)
            {
                PooledConnection rented = await RentAsync(pool, i == 0 ? _loop : _other);     // or it would be refused behind 50 ms
                Assert.Same(first, rented);
                pool.Return(rented);
            }
        })));
    }

    [Fact]
    public async Task What_has_ended_is_left_out_and_its_place_is_free()
    {
        using ConnectionPool pool = Pool(connectionsMax: 1);
        PooledConnection its = await RentAsync(pool, _loop);
        pool.Return(its);
        its.Dispose();
        PooledConnection other = await RentAsync(pool, _loop);
        Assert.NotSame(its, other);
        await AssertBusyAsync(pool);
    }

    [Fact]
    public async Task What_nobody_uses_is_closed_IdleTimeout()
    {
        using ConnectionPool pool = Pool(connectionsMax: 2, idleSeconds: 0.2);
        PooledConnection[] its = await RentAsync(pool, _loop, 2);
        Array.ForEach(its, pool.Return);
        while (pool.Idle > 0)
        {
            await Task.Delay(10);
        }
        Assert.All(its, static connection => Assert.True(connection.IsClosed));
        _ = await RentAsync(pool, _other, 2);
    }

    [Fact]
    public async Task The_end_of_the_pool_closes_what_loops_keep_and_what_comes_back_later()
    {
        ConnectionPool pool = Pool();
        PooledConnection[] its = await RentAsync(pool, _loop, 2);
        PooledConnection ofOther = await RentAsync(pool, _other);
        pool.Return(its[0]);
        pool.Dispose();
        pool.Return(its[1]);
        pool.Return(ofOther);
        Assert.All([.. its, ofOther], static connection => Assert.True(connection.IsClosed));
        Assert.Equal(0, pool.Idle);
    }

    private static async Task AssertBusyAsync(ConnectionPool pool) =>
        Assert.Equal(ConnectorFault.Busy, (await Assert.ThrowsAsync<ConnectorException>(async () => _ = await RentAsync(pool, null))).Fault);

    [Fact]
    public async Task No_request_has_the_id_of_the_one_before_it_FastCGI_3_3()
    {
        using ConnectionPool pool = Pool();
        PooledConnection its = await RentAsync(pool, _loop);
        int before = 0;
        for (int i = 0; i < 70_000; i++)
        {
            int id = its.BeginNextRequest();
            Assert.Equal((before % 65_535) + 1, id);
            before = id;
        }
    }
}
