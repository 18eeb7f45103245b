// Who may do what, and until when: the small types by which an exchange knows whether a ticket, a reader, a writer, a wait or an abort still counts.
// What they decide between two instructions of two threads is asked of each by itself.

using System.Runtime.CompilerServices;
using Microsoft.Extensions.Logging.Abstractions;
using Millrace.Exchanges;
using Millrace.Handlers;
using Millrace.Loops;
using Millrace.Observe;

namespace Millrace.Tests.Exchanges;

public sealed class ExchangeGuardsTests
{
    private const long Ticket = 1 << 16;
    private const int Rounds = 20;
    private const int LooksMs = 20;     // in which one that does not wait has long ended

    private static LoopServices Services() => new(new MillraceOptions(), new DelegateHandler(static (_, _) => { }), new Log(NullLogger.Instance));

    // What another thread does must wait until this one has done its part.
    internal static void MustWait(Action waits, Action ends)
    {
        using var begins = new ManualResetEventSlim();
        var other = new Thread(() =>
        {
            begins.Set();
            waits();
        });
        other.Start();
        begins.Wait();
        Assert.False(other.Join(LooksMs));
        ends();
        other.Join();
    }

    [Fact]
    public void The_end_of_a_request_waits_for_uses_in_progress_and_lets_in_the_next_request_alone()
    {
        var uses = default(UseWord);
        for (long ticket = 0, round = 0; round < Rounds; round++)
        {
            long next = 0;
            Assert.True(uses.TryBegin(ticket));
            long ended = ticket;
            MustWait(() => next = uses.EndAll(ended), () => uses.End());
            Assert.False(uses.Any);
            Assert.False(uses.TryBegin(ticket));
            Assert.True(uses.TryBegin(next));
            uses.End();
            ticket = next;
        }
    }

    // Threads in tight loops over what they have kept.
    [Fact]
    public void No_use_begins_while_the_end_of_a_request_waits_for_those_in_progress()
    {
        var uses = default(UseWord);
        Assert.True(uses.TryBegin(0));
        long next = 0;
        MustWait(
            () => next = uses.EndAll(0),
            () =>
            {
                bool began = uses.TryBegin(0);
                uses.End();
                if (began)
                {
                    uses.End();
                }

                Assert.False(began);
            });
        Assert.True(uses.TryBegin(next));
        uses.End();
    }

    [Fact]
    public void The_end_of_a_request_waits_for_its_reader_and_there_is_no_other()
    {
        for (int round = 0; round < Rounds; round++)
        {
            var guard = default(ExpiryGuard);
            Assert.True(guard.TryEnter());
            MustWait(() => guard.Expire(), () => guard.Exit());
            Assert.False(guard.TryEnter());
        }
    }

    [Fact]
    public void A_response_that_was_completed_is_entered_by_nobody_and_counts_as_complete()
    {
        var gate = new ResponseGate(new SendLock());
        gate.Renew(Ticket);
        gate.Open();
        gate.Enter(Ticket);
        gate.Exit(Ticket);
        gate.CheckOpen(Ticket);
        Assert.False(gate.IsComplete(Ticket));
        gate.Enter(Ticket);
        gate.ExitForGood(Ticket);
        Assert.True(gate.IsComplete(Ticket));
        Assert.False(gate.TryEnterAgain(Ticket));
        Assert.False(gate.TryEnterAtOnce(Ticket));
        Assert.False(gate.EnterUnlessComplete(Ticket));
        Assert.Throws<ObjectDisposedException>(() => gate.EnterUnlessComplete(2 * Ticket));
        Assert.Equal("Writing is not allowed after the response was completed.", Assert.Throws<InvalidOperationException>(() => gate.CheckOpen(Ticket)).Message);
        Assert.Throws<InvalidOperationException>(() => gate.Enter(Ticket));
    }

    [Fact]
    public void A_wait_ends_once_however_many_say_so_and_another_may_begin_before_the_first_is_told()
    {
        var wait = default(FlushWait);
        Assert.False(wait.TryEnd());
        Task first = wait.Begin();
        Assert.True(wait.TryEnd());
        Assert.False(wait.TryEnd());
        Assert.True(wait.TryFinish(out TaskCompletionSource? flushed));
        Task second = wait.Begin();
        flushed.SetResult();
        Assert.Equal((true, false, FlushState.Blocked), (first.IsCompleted, second.IsCompleted, wait.State));
    }

    [Fact]
    public void A_handler_is_told_once_and_for_one_cause_that_nobody_may_be_waiting()
    {
        using LoopServices services = Services();
        var life = new RequestLife(services);
        life.Begin();
        Assert.True(life.Cancel());
        Assert.False(life.Cancel(CancelCause.TimeLimit));
        Assert.Equal((true, false), (life.IsCancelled, life.HasTimedOut));
        life.Reset();
        life.Begin();
        Assert.True(life.Cancel(CancelCause.TimeLimit));
        Assert.False(life.Cancel());
        Assert.True(life.HasTimedOut);
    }

    [Fact]
    public void A_request_begins_wanted_and_not_cancelled_whatever_became_of_the_one_before()
    {
        using LoopServices services = Services();
        var life = new RequestLife(services);
        life.Begin();
        life.GiveUp();
        Assert.True(life.Token.IsCancellationRequested);
        life.Seal();
        life.Reset();
        life.Begin();
        Assert.Equal((false, false, false, false), (life.IsCancelled, life.IsUnwanted, life.IsGivenUp, life.Token.IsCancellationRequested));
        Assert.True(life.Cancel());
    }

    // The next request may be on the connection already.
    [Fact]
    public void A_connection_is_not_the_applications_to_abort_once_the_request_is_sealed()
    {
        using LoopServices services = Services();
        var life = new RequestLife(services);
        life.Begin();
        life.Seal();
        using (life.Hold())
        {
            Assert.False(life.TryDrop());
        }

        Assert.False(life.IsUnwanted);
    }

    [Fact]
    public void A_handler_that_comes_back_without_an_end_leaves_no_response_that_goes_on()
    {
        using LoopServices services = Services();
        var exchange = new Exchange(services);
        exchange.EnsureEnded();
        Assert.Equal((true, true), (exchange.IsBroken, exchange.Answer.IsWritten));
    }

    // A request that has waited for its turn has an output of its own, which is somebody else's once it has been taken.
    [Fact]
    public void The_output_of_a_request_that_ends_in_its_turn_is_not_taken_while_an_abort_looks_at_it()
    {
        using LoopServices services = Services();
        var exchange = new Exchange(services);
        Output(exchange) = services.RentOutput();
        OwnsOutput(exchange) = true;
        var ends = new Thread(() => exchange.TakeUnsent());
        using (exchange.Sending.Hold())
        {
            ends.Start();
            Assert.False(ends.Join(LooksMs));
            Assert.True(OwnsOutput(exchange));
        }

        ends.Join();
        Assert.False(OwnsOutput(exchange));
    }

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_output")]
    private static extern ref OutputBuffer? Output(Exchange exchange);

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_ownsOutput")]
    private static extern ref bool OwnsOutput(Exchange exchange);

    // Of two that were told that there is room only one finds it.
    [Fact]
    public void A_switch_of_protocols_that_finds_no_room_takes_none_MaxUpgradedConnections()
    {
        using var services = new LoopServices(new MillraceOptions { MaxUpgradedConnections = 1 }, new DelegateHandler(static (_, _) => { }), new Log(NullLogger.Instance));
        services.CheckUpgraded();
        services.AddUpgraded();
        Assert.Throws<InvalidOperationException>(services.AddUpgraded);
        Assert.Throws<InvalidOperationException>(services.CheckUpgraded);
        services.RemoveUpgraded();
        services.CheckUpgraded();
        services.AddUpgraded();
    }

    [Fact]
    public void Code_of_the_application_that_throws_where_nobody_sees_it_ends_nothing()
    {
        var queued = new List<Action>();
        using var services = new LoopServices(new MillraceOptions(), new DelegateHandler(static (_, _) => { }), new Log(NullLogger.Instance)) { QueueUserCode = (action, state) => queued.Add(() => action(state)) };
        services.RunUserCode(static _ => throw new InvalidTimeZoneException("thrown on purpose"), null);
        Assert.Single(queued)();
    }

    // The exchange is used again, and what it has is no more than its next request needs.
    [Fact]
    public void Writes_that_have_all_had_their_turn_leave_no_long_queue_behind()
    {
        var order = new WriteOrder();
        for (int i = 0; i < 1_000; i++)
        {
            Assert.True(order.TryAdd(new Follower([], isUnseen: true), isOwed: false));
        }

        while (order.TryNext(out _))
        {
        }

        Assert.False(order.HasFollowers);
        Assert.Null(Followers(ref order));
        Assert.True(order.TryAdd(new Follower(null, isUnseen: false), isOwed: false));
        Assert.False(order.TryNext(out Follower? next));
        Assert.NotNull(next);
        Assert.Null(Followers(ref order));
    }

    [System.Runtime.CompilerServices.UnsafeAccessor(System.Runtime.CompilerServices.UnsafeAccessorKind.Field, Name = "_followers")]
    private static extern ref Queue<Follower>? Followers(ref WriteOrder order);
}
