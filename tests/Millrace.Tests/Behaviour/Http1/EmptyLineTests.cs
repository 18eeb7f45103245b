// The empty line that clients of old send behind a body (RFC 9112 §2.2): it is passed over, and begins no request.

namespace Millrace.Tests.Behaviour.Http1;

public sealed class EmptyLineTests
{
    private const string Post = "POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    private const string Get = "GET /get HTTP/1.1\r\nHost: a\r\n\r\n";

    [Theory]
    [InlineData("\r\n")]
    [InlineData("\r")]
    public void A_connection_on_which_nothing_else_has_come_is_idle_and_closed_without_a_word_IdleTimeout(string behind) => HttpBench.Run(
        bench =>
        {
            foreach (bool isLate in (bool[])[false, true])
            {
                HttpPeer peer = bench.Connect();
                bench.Send(peer, isLate ? Post : Post + behind);
                if (isLate)
                {
                    bench.Pass(TimeSpan.FromSeconds(2));
                    bench.Send(peer, behind);
                }

                bench.Pass(TimeSpan.FromSeconds(isLate ? 27 : 29));
                Assert.False(peer.IsAtEnd);
                bench.Pass(TimeSpan.FromSeconds(2));
                Assert.True(peer.IsAtEnd);
                Assert.Equal(200, Assert.Single(peer.Answers).Status);
            }

            Assert.Equal(0, bench.RefusedInAll);
        },
        Limits);

    [Fact]
    public void The_next_request_is_answered_however_it_and_the_line_are_cut_and_how_long_it_takes_HeadTimeout()
    {
        byte[] bytes = System.Text.Encoding.ASCII.GetBytes(Post + "\r\n" + Get);
        for (int cut = 0; cut <= bytes.Length; cut++)
        {
            HttpBench.Run(
                bench =>
                {
                    HttpPeer peer = bench.Connect();
                    bench.Send(peer, bytes.AsSpan(0, cut));
                    bench.Pass(TimeSpan.FromSeconds(cut >= Post.Length ? 4 : 0.1));
                    bench.Send(peer, bytes.AsSpan(cut));
                    Assert.Equal(["POST /post", "GET /get"], peer.Answers.Select(static answer => answer.BodyText.Split('\n')[0]));
                    Assert.Equal(0, bench.RefusedInAll);
                },
                Limits);
        }
    }

    [Fact]
    public void The_time_for_a_head_counts_from_its_own_first_byte_HeadTimeout() => HttpBench.Run(
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            bench.Send(peer, Post + "\r\n");
            bench.Pass(TimeSpan.FromSeconds(20));
            bench.Send(peer, Get[..10]);
            bench.Pass(TimeSpan.FromSeconds(4));
            Assert.Single(peer.Answers);
            Assert.False(peer.IsAtEnd);
            bench.Pass(TimeSpan.FromSeconds(2));
            Assert.Equal(408, peer.Answers[^1].Status);
        },
        Limits);

    // Nobody lives for ever by them.
    [Theory]
    [InlineData("\r\n")]
    [InlineData("\r")]
    [InlineData("\n")]
    public void A_second_one_is_no_request_RFC9112_2_2(string second) => HttpBench.Run(
        bench =>
        {
            HttpPeer peer = bench.Connect();
            bench.Send(peer, Post + "\r\n");
            bench.Pass(TimeSpan.FromSeconds(20));
            bench.Send(peer, second);
            bench.Pass(TimeSpan.FromSeconds(6));
            Assert.Equal(400, peer.Answers[^1].Status);
            Assert.True(peer.IsAtEnd);
        },
        Limits);

    [Theory]
    [InlineData("\r\n")]
    [InlineData("\r")]
    public void A_connection_on_which_nothing_has_come_but_one_is_a_new_one_HeadTimeout(string said) => HttpBench.Run(
        bench =>
        {
            HttpPeer peer = bench.Connect();
            bench.Pass(TimeSpan.FromSeconds(3));
            bench.Send(peer, said);
            bench.Pass(TimeSpan.FromSeconds(3));
            Assert.True(peer.IsAtEnd);
            Assert.Equal(0, peer.BytesRead);
            Assert.Equal(0, bench.RefusedInAll);
        },
        Limits);

    [Fact]
    public void A_client_that_leaves_behind_one_has_left_in_the_middle_of_nothing() => HttpBench.Run(static bench =>
    {
        HttpPeer peer = bench.Connect();
        bench.Send(peer, Post + "\r\n");
        bench.Leave(peer);
        bench.Settle();
        Assert.Equal((0, 0), (bench.Connections, bench.RefusedInAll));
    });

    [Theory]
    [InlineData("\r\n")]
    [InlineData("\r")]
    public void A_drain_closes_the_connection(string behind) => HttpBench.Run(bench =>
    {
        HttpPeer peer = bench.Connect();
        bench.Send(peer, Post + behind);
        bench.Drain();
        bench.PassInDrain(TimeSpan.FromSeconds(1));
        Assert.True(peer.IsAtEnd);
        Assert.Single(peer.Answers);
        Assert.False(peer.Socket.AnswersLost);
        Assert.Equal(0, bench.RefusedInAll);
    });

    // Of a request whose handler goes on the line is kept until it has ended.
    [Fact]
    public void It_is_passed_over_also_behind_a_request_that_outlives_its_turn()
    {
        var gate = new TaskCompletionSource();
        HttpBench.Run(
            async (request, response) =>
            {
                await gate.Task;
                response.WriteText("whole");
            },
            bench =>
            {
                HttpPeer peer = bench.Connect();
                bench.Send(peer, Post + "\r\n");
                bench.Pass(TimeSpan.FromSeconds(10));
                gate.SetResult();
                bench.Settle();
                Assert.Equal("whole", Assert.Single(peer.Answers).BodyText);
                bench.Pass(TimeSpan.FromSeconds(29));
                Assert.False(peer.IsAtEnd);
                bench.Pass(TimeSpan.FromSeconds(2));
                Assert.True(peer.IsAtEnd);
                Assert.Single(peer.Answers);
            },
            Limits);
    }

    private static void Limits(MillraceOptions options)
    {
        options.HeadTimeout = TimeSpan.FromSeconds(5);
        options.IdleTimeout = TimeSpan.FromSeconds(30);
    }
}
