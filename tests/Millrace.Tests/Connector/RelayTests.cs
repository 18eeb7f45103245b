// What a loop passes on by itself, over the simulated kernel: what goes on and what is left to the handler, who leaves, and which connections are kept. The answers
// are in RelayAnswerTests.cs.

using System.Diagnostics.Metrics;
using System.Text;
using Millrace.Connector;
using Millrace.Platform;
using Millrace.Protocols.FastCgi;
using Millrace.Tests.Behaviour.Http1;
using Millrace.Tests.Command;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Connector;

public sealed class RelayTests
{
    // ---- what is not sent again ----

    // The responder ends the connection between two sends of one request: what it has had of it may have been enough to act upon.
    [Fact]
    public void A_request_of_which_a_part_has_gone_over_a_connection_that_was_used_is_not_sent_again()
    {
        int cut = 0;
        for (int calls = 1; calls <= 12; calls++)
        {
            RelayBench.Run(bench =>
            {
                bench.Simulation.World.SendCapacityMax = 1_000;     // a send takes a part of the second request
                HttpPeer peer = bench.Connect();
                Assert.Equal(200, bench.Ask(peer, "POST", "first").Status);
                SimulatedSocket socket = bench.Responders[0].Socket;
                long before = socket.SentByServer;
                socket.ResetAfterCalls = calls;

                int status = bench.Ask(peer, "POST", new string('x', 2_000)).Status;

                bool isPart = socket.SentByServer > before;
                cut += isPart && status == 502 ? 1 : 0;
                Assert.Equal(isPart ? 1 : 2, bench.Responders.Count);
            });
        }

        Assert.True(cut > 0);
    }

    // ---- what goes on ----

    [Theory]
    [InlineData("http://127.0.0.1:9000")]
    [InlineData("http://unix:/run/front.sock")]
    public void Requests_go_on_over_one_connection_and_each_has_its_own_answer(string address) => RelayBench.Run(
        bench =>
        {
            int number = 0;
            bench.OnRequest = responder => responder.Answer($"X: 1\r\n\r\nanswer {++number}");
            HttpPeer one = bench.Connect();
            HttpPeer other = bench.Connect();
            for (int i = 1; i <= 10; i++)
            {
                Assert.Equal((200, $"answer {i}"), RelayBench.Of(bench.Ask(i % 2 == 0 ? one : other)));
            }

            Assert.Single(bench.Responders);
        },
        address: address);

    [Fact]
    public void Pipelined_requests_are_answered_in_their_order() => RelayBench.Run(bench =>
    {
        int number = 0;
        bench.OnRequest = responder => responder.Answer($"X: 1\r\n\r\nanswer {++number}");
        HttpPeer peer = bench.Connect();

        bench.Send(peer, string.Concat(Enumerable.Repeat(RelayBench.Request(), 5)));

        Assert.Equal(["answer 1", "answer 2", "answer 3", "answer 4", "answer 5"], peer.Answers.Select(static answer => answer.BodyText));
    });

    [Fact]
    public void A_body_that_is_there_goes_with_its_request() => RelayBench.Run(bench =>
    {
        HttpPeer peer = bench.Connect();

        Assert.Equal(200, bench.Ask(peer, "POST", "what is posted").Status);
        Assert.EndsWith("what is posted", bench.Responders[0].ContentText, StringComparison.Ordinal);
    });

    [Theory]
    [InlineData(FastCgiRelay<LinuxKernel>.BodyMax, 1)]
    [InlineData(FastCgiRelay<LinuxKernel>.BodyMax + 1, 0)]
    public void A_body_that_is_too_long_is_the_handlers(int length, int requests) => RelayBench.Run(
        bench =>
        {
            HttpPeer peer = bench.Connect();
            string head = $"POST /x HTTP/1.1\r\nHost: app\r\nContent-Length: {length}\r\n\r\n";
            bench.Send(peer, head + new string('x', length));

            Assert.Equal(requests, bench.Requests);
            Assert.Equal(requests == 0 ? "handler" : "body", peer.Answers[0].BodyText);
        });

    [Theory]
    [InlineData("GET /x HTTP/1.1\r\nHost: other\r\n\r\n")]
    [InlineData("GET /x HTTP/1.1\r\nHost: app\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")]
    [InlineData("POST /x HTTP/1.1\r\nHost: app\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n")]
    [InlineData("OPTIONS * HTTP/1.1\r\nHost: app\r\n\r\n")]
    public void What_is_not_simple_is_the_handlers(string request) => RelayBench.Run(bench =>
    {
        HttpPeer peer = bench.Connect();
        bench.Send(peer, request);

        Assert.Equal("handler", Assert.Single(peer.Answers).BodyText);
        Assert.Equal(0, bench.Requests);
        bench.OthersAreServed();
    });

    [Theory]
    [InlineData(KernelResult.Again)]
    [InlineData(KernelResult.Refused)]
    [InlineData(KernelResult.Exhausted)]
    public void Where_no_connection_can_be_had_at_once_the_handler_waits_for_one(int result) => RelayBench.Run(bench =>
    {
        bench.ConnectResult = result;
        Assert.Equal("handler", bench.Ask(bench.Connect()).BodyText);

        bench.ConnectResult = 0;
        bench.OthersAreServed();
    });

    [Fact]
    public void As_many_connections_as_may_be_and_then_the_handler_waits_for_one() => RelayBench.Run(
        bench =>
        {
            bench.OnRequest = static _ => { };
            HttpPeer[] waiting = [bench.Connect(), bench.Connect()];
            foreach (HttpPeer peer in waiting)
            {
                bench.Send(peer, RelayBench.Request());
                Assert.Empty(peer.Answers);
            }

            Assert.Equal("handler", bench.Ask(bench.Connect()).BodyText);
            bench.Responders.ForEach(static responder => responder.Answer("X: 1\r\n\r\nlate"));
            bench.Settle();
            Assert.All(waiting, static peer => Assert.Equal("late", Assert.Single(peer.Answers).BodyText));
            bench.OthersAreServed();
            Assert.Equal(2, bench.Responders.Count);
        },
        ConnectionLimits.Default with { ConnectionsMax = 2 });

    [Fact]
    public void Whoever_waits_for_a_place_gets_that_of_a_connection_that_nobody_uses() => RelayBench.Run(
        bench =>
        {
            Assert.Equal("body", bench.Ask(bench.Connect()).BodyText);
            Task waiting = bench.Pool.RentAsync(fresh: false, CancellationToken.None).AsTask();
            Assert.False(waiting.IsCompleted);

            bench.Settle();

            Assert.Equal(0, bench.Open);
            Assert.Equal(ConnectorFault.NoConnection, Assert.IsType<ConnectorException>(Record.Exception(() => waiting.GetAwaiter().GetResult())).Fault);
            bench.OthersAreServed();
        },
        ConnectionLimits.Default with { ConnectionsMax = 1 });

    // On another thread, while the loop puts the connection aside.
    [Fact]
    public void Whoever_begins_to_wait_as_the_only_connection_comes_back_gets_its_place() => RelayBench.Run(
        bench =>
        {
            Task? waiting = null;
            bench.Pool.WaitersAsked = () => waiting ??= bench.Pool.RentAsync(fresh: false, CancellationToken.None).AsTask();
            Assert.Equal("body", bench.Ask(bench.Connect()).BodyText);

            bench.Settle();

            Assert.Equal(0, bench.Open);
            Assert.Equal(ConnectorFault.NoConnection, Assert.IsType<ConnectorException>(Record.Exception(() => waiting!.GetAwaiter().GetResult())).Fault);
            bench.OthersAreServed();
        },
        ConnectionLimits.Default with { ConnectionsMax = 1 });

    [Fact]
    public void A_request_that_the_socket_does_not_take_at_once_goes_on_as_the_responder_reads() => RelayBench.Run(bench =>
    {
        bench.Simulation.World.SendCapacityMax = 4_000;
        HttpPeer peer = bench.Connect();
        string body = new('b', 15_000);

        Assert.Equal(200, bench.Ask(peer, "POST", body).Status);
        Assert.EndsWith(body, bench.Responders[0].ContentText, StringComparison.Ordinal);
        bench.OthersAreServed();
        Assert.Single(bench.Responders);
    });

    // ---- who leaves ----

    [Fact]
    public void Whoever_leaves_a_responder_that_is_silent_takes_its_connection_along() => RelayBench.Run(bench =>
    {
        bench.OnRequest = static _ => { };
        HttpPeer peer = bench.Connect();
        bench.Send(peer, RelayBench.Request());
        Assert.Equal(1, bench.Open);

        peer.Socket.ClientClose();
        bench.Settle();

        Assert.Equal(0, bench.Open);
        Assert.Empty(bench.Failures);
        bench.OthersAreServed();
    });

    [Fact]
    public void Whoever_leaves_in_the_middle_of_an_answer_takes_its_connection_along() => RelayBench.Run(bench =>
    {
        bench.OnRequest = static responder => responder.Send(Stdout("X: 1\r\n\r\nbo"));
        HttpPeer peer = bench.Connect();
        bench.Send(peer, RelayBench.Request());
        Assert.NotNull(peer.Begun);

        peer.Socket.ClientClose();
        bench.Settle();

        Assert.Equal(0, bench.Open);
        bench.OthersAreServed();
    });

    [Fact]
    public void A_request_whose_time_is_over_is_504() => RelayBench.Run(bench =>
    {
        bench.OnRequest = static _ => { };
        bench.Simulation.Services.Options.RequestTimeout = TimeSpan.FromSeconds(5);
        HttpPeer peer = bench.Connect();
        bench.Send(peer, RelayBench.Request());

        bench.Pass(TimeSpan.FromSeconds(4));
        Assert.Empty(peer.Answers);
        bench.Pass(TimeSpan.FromSeconds(2));

        Assert.Equal(504, Assert.Single(peer.Answers).Status);
        Assert.Equal(0, bench.Open);
    });

    // ---- kept connections ----

    [Theory]
    [InlineData("GET", "")]
    [InlineData("POST", "once")]
    public void A_kept_connection_that_its_responder_has_ended_is_not_used_also_for_what_may_not_be_sent_twice(string method, string body) => RelayBench.Run(bench =>
    {
        HttpPeer peer = bench.Connect();
        Assert.Equal(200, bench.Ask(peer).Status);
        bench.Responders[0].Close();
        while (bench.Responders[0].Socket.CanDeliver)
        {
            _ = bench.Responders[0].Socket.Deliver(int.MaxValue);      // the loop has not been told of it when the next request comes
        }

        Assert.Equal((200, "body"), RelayBench.Of(bench.Ask(peer, method, body)));
        Assert.Equal(2, bench.Requests);
    });

    [Theory]
    [InlineData("GET", "", 200, 3)]
    [InlineData("POST", "", 502, 2)]
    [InlineData("POST", "x", 502, 2)]
    public void A_request_that_dies_with_a_kept_connection_is_sent_again_where_that_does_no_harm_RFC_9110_9_2_2(string method, string body, int status, int requests) => RelayBench.Run(bench =>
    {
        HttpPeer peer = bench.Connect();
        Assert.Equal(200, bench.Ask(peer).Status);
        bench.OnRequest = responder =>
        {
            bench.OnRequest = static next => next.Answer("X: 1\r\n\r\nbody");
            responder.Close();
        };

        Assert.Equal(status, bench.Ask(peer, method, body).Status);
        Assert.Equal(requests, bench.Requests);
    });

    [Fact]
    public void A_request_that_ends_every_responder_is_sent_twice_and_no_more_however_many_connections_are_kept() => RelayBench.Run(bench =>
    {
        bench.OnRequest = static _ => { };
        HttpPeer[] peers = [bench.Connect(), bench.Connect(), bench.Connect()];
        Array.ForEach(peers, peer => bench.Send(peer, RelayBench.Request()));
        bench.Responders.ForEach(static responder => responder.Answer("X: 1\r\n\r\nbody"));
        bench.Settle();
        bench.OnRequest = static responder => responder.Close();

        Assert.Equal(502, bench.Ask(peers[0]).Status);
        Assert.Equal(3 + 2, bench.Requests);
    });

    [Theory]
    [InlineData(KernelResult.Again, 503)]
    [InlineData(KernelResult.Refused, 502)]
    public void What_died_with_a_kept_connection_and_finds_no_other_is_told_so(int result, int status) => RelayBench.Run(bench =>
    {
        HttpPeer peer = bench.Connect();
        Assert.Equal(200, bench.Ask(peer).Status);
        bench.ConnectResult = result;
        bench.OnRequest = static responder => responder.Close();

        Assert.Equal(status, bench.Ask(peer).Status);
        Assert.Contains(RelayBench.SocketPath, Assert.Single(bench.Failures), StringComparison.Ordinal);
        bench.ConnectResult = 0;
    });

    [Fact]
    public void A_connection_that_nobody_uses_is_closed_when_its_time_is_over_and_no_sooner() => RelayBench.Run(bench =>
    {
        Assert.Equal(200, bench.Ask(bench.Connect()).Status);
        bench.Pass(ConnectionLimits.Default.IdleTimeout - TimeSpan.FromSeconds(1));
        bench.Sweep();
        Assert.Equal(1, bench.Open);

        bench.Pass(TimeSpan.FromSeconds(2));
        bench.Sweep();
        Assert.Equal(0, bench.Open);
        bench.OthersAreServed();
    });

    // ---- what is measured ----

    [Fact]
    public void Every_request_is_measured_once_however_it_ends() => RelayBench.Run(bench =>
    {
        List<double> seconds = [];
        using var listener = new MeterListener();
        listener.SetMeasurementEventCallback<double>((_, value, _, _) => seconds.Add(value));
        listener.EnableMeasurementEvents(bench.Durations);

        Assert.Equal(200, bench.Ask(bench.Connect()).Status);
        Assert.Single(seconds);

        bench.OnRequest = static responder => responder.Close();
        Assert.Equal(502, bench.Ask(bench.Connect()).Status);
        Assert.Equal(2, seconds.Count);

        bench.OnRequest = static _ => { };
        HttpPeer left = bench.Connect();
        bench.Send(left, RelayBench.Request());
        Assert.Equal(2, seconds.Count);
        left.Socket.ClientClose();
        bench.Settle();

        Assert.Equal(3, seconds.Count);
        Assert.All(seconds, static value => Assert.InRange(value, 0, 60));
    });

    // It is code of whoever has put it there.
    [Fact]
    public void A_listener_that_throws_keeps_nobody_from_the_end_of_his_answer() => RelayBench.Run(bench =>
    {
        using var listener = new MeterListener();
        int called = 0;
        listener.SetMeasurementEventCallback<double>((_, _, _, _) => throw new InvalidOperationException($"listener {++called}"));
        listener.EnableMeasurementEvents(bench.Durations);

        Assert.Equal(200, bench.Ask(bench.Connect()).Status);
        bench.OnRequest = static responder => responder.Close();
        Assert.Equal(502, bench.Ask(bench.Connect()).Status);
        Assert.Equal(2, called);
    });

    private static byte[] Stdout(string text) => ScriptedResponder.Record(RecordType.Stdout, Encoding.Latin1.GetBytes(text));
}
