// The queue before the limit on concurrent requests: who waits, who is refused, and what becomes of the place of one that closes.

using Microsoft.Extensions.Logging.Abstractions;
using Millrace.Connections;
using Millrace.Handlers;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Platform;

namespace Millrace.Tests.Loops;

public sealed class RequestGateTests : IDisposable
{
    private readonly LoopServices _services = new(new MillraceOptions(), new DelegateHandler(static (_, _) => { }), new Log(NullLogger.Instance));
    private readonly List<EventLoop<LinuxKernel>> _loops = [];

    public void Dispose()
    {
        _loops.ForEach(static loop => loop.Release());
        _services.Dispose();
    }

    [Fact]
    public void Who_waits_is_admitted_in_the_order_of_coming()
    {
        var gate = new RequestGate(limit: 1, queueLimit: 2);
        Caller[] callers = [.. Enumerable.Range(0, 4).Select(_ => Connect())];
        Assert.Equal("Enter Wait Wait Full", string.Join(' ', callers.Select(caller => gate.Enter(caller.Connection))));

        gate.Leave();
        Assert.Equal((true, false), (callers[1].IsAdmitted, callers[2].IsAdmitted));
        gate.Leave();
        Assert.Equal((true, true), (callers[1].IsAdmitted, callers[2].IsAdmitted));
        gate.Leave();
        Assert.Equal(GateAnswer.Enter, gate.Enter(callers[3].Connection));
    }

    [Fact]
    public void Who_closes_while_it_waits_leaves_its_place_to_others()
    {
        var gate = new RequestGate(limit: 1, queueLimit: 2);
        Caller closing = Connect();
        Caller patient = Connect();
        Caller late = Connect();
        Assert.Equal(GateAnswer.Enter, gate.Enter(Connect().Connection));
        Assert.Equal(GateAnswer.Wait, gate.Enter(closing.Connection));
        Assert.Equal(GateAnswer.Wait, gate.Enter(patient.Connection));
        Assert.Equal(GateAnswer.Full, gate.Enter(late.Connection));

        gate.Forget(closing.Connection);

        Assert.Equal(GateAnswer.Wait, gate.Enter(late.Connection));
        Assert.Equal(GateAnswer.Full, gate.Enter(Connect().Connection));
        gate.Leave();
        Assert.Equal((false, true, false), (closing.IsAdmitted, patient.IsAdmitted, late.IsAdmitted));
        gate.Leave();
        Assert.Equal((false, true), (closing.IsAdmitted, late.IsAdmitted));
    }

    [Fact]
    public void Who_closes_when_it_has_just_been_admitted_gives_its_turn_back_once()
    {
        var gate = new RequestGate(limit: 1, queueLimit: 1);
        Caller closing = Connect();
        Caller patient = Connect();
        Assert.Equal(GateAnswer.Enter, gate.Enter(Connect().Connection));
        Assert.Equal(GateAnswer.Wait, gate.Enter(closing.Connection));
        gate.Leave();
        Assert.True(closing.IsAdmitted);

        gate.Forget(closing.Connection);

        Assert.Equal(GateAnswer.Wait, gate.Enter(patient.Connection));
        gate.Leave();       // as its loop does when it finds it admitted and closed
        Assert.True(patient.IsAdmitted);
        gate.Leave();
        Assert.Equal(GateAnswer.Enter, gate.Enter(Connect().Connection));
        Assert.Equal(GateAnswer.Wait, gate.Enter(Connect().Connection));
    }

    [Fact]
    public void However_many_threads_come_at_once_no_more_enter_than_may_MaxConcurrentRequests()
    {
        const int Limit = 1;
        var gate = new RequestGate(Limit, queueLimit: 0);
        Connection connection = Connect().Connection;
        int inside = 0;
        int most = 0;
        using var start = new Barrier(2);
        Thread[] threads = [.. Enumerable.Range(0, 2).Select(_ => new Thread(() =>
        {
            start.SignalAndWait();
            for (int i = 0; i < 1_000_000; i++)
            {
                if (gate.Enter(connection) == GateAnswer.Enter)
                {
                    most = Math.Max(most, Interlocked.Increment(ref inside));
                    Interlocked.Decrement(ref inside);
                    gate.Leave();
                }
            }
        }))];
        Array.ForEach(threads, static thread => thread.Start());
        Array.ForEach(threads, static thread => thread.Join());
        Assert.InRange(most, 1, Limit);
        Assert.Equal([GateAnswer.Enter, GateAnswer.Full], Enumerable.Range(0, 2).Select(_ => gate.Enter(connection)));
    }

    // On a loop of its own, whose post tells that it was admitted.
    private Caller Connect()
    {
        var loop = new EventLoop<LinuxKernel>(_loops.Count, _services, default, ConnectionFactory.Create);
        _loops.Add(loop);
        return new Caller(loop, new FastCgiConnection<LinuxKernel>(loop, descriptor: -1, isTcp: false));
    }

    private sealed record Caller(EventLoop Loop, Connection Connection)
    {
        public bool IsAdmitted => Loop.HasPosted;
    }
}
