// Responses that fail after their first byte over FastCGI: every byte that was sent arrives, and nothing of what follows can be
// taken for the end of the response. FastCGI 1.0 §3.3, §5.5. What web servers make of it is in Millrace.Interop.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

public sealed class BrokenResponseTests
{
    private const string Tcp = "fastcgi://127.0.0.1:9000";
    private const string Unix = "fastcgi://unix:/run/simulated.sock";

    private static void Run(int size, Action<FastCgiBench, FrontEnd> test, string address, MillraceOptions? options = null) => FastCgiBench.Run(
        async (request, response) =>
        {
            await response.WriteAsync(Plan.Bytes("part", 0, size));
            await response.FlushAsync();
            throw new InvalidOperationException();
        },
        bench => test(bench, bench.Connect()),
        options,
        address);

    private static void AssertBroken(FrontEnd front, int size, string address)
    {
        Assert.Empty(front.Ended);
        Assert.True(front.IsAtEnd);
        Assert.Equal((address == Tcp, address == Unix), (front.Socket.WasReset, front.IsBrokenOff));
        ReceivedResponse open = Assert.Single(front.Open).Value;
        Assert.Equal(Plan.Bytes("part", 0, size), open.Body.ToArray());
        Assert.False(open.StdoutEnded);
        Assert.Contains("unhandled", open.ErrorText, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(0, Tcp)]
    [InlineData(1_000, Tcp)]
    [InlineData(100_000, Tcp)]
    [InlineData(0, Unix)]
    [InlineData(1_000, Unix)]
    [InlineData(100_000, Unix)]
    public void A_response_that_fails_has_no_end_and_is_broken_off_when_the_front_server_has_the_rest_FastCGI_5_5(int size, string address) => Run(
        size,
        (bench, front) =>
        {
            bench.Send(front, Wire.Request("/"));
            Assert.False(front.IsAtEnd || front.IsBrokenOff);
            bench.Pass(TimeSpan.FromMilliseconds(200));
            AssertBroken(front, size, address);
        },
        address);

    [Theory]
    [InlineData(Tcp)]
    [InlineData(Unix)]
    public void A_front_server_that_reads_slowly_gets_all_of_what_was_sent_before_the_break_FastCGI_5_5(string address) => Run(
        1_000_000,
        (bench, front) =>
        {
            bench.Reads = false;
            bench.Send(front, Wire.Request("/"));
            for (int i = 0; i < 100 && !front.IsAtEnd; i++)
            {
                _ = front.Read(20_000);
                bench.Pass(TimeSpan.FromSeconds(5));
            }

            AssertBroken(front, 1_000_000, address);
            bench.Reads = true;
        },
        address,
        Bench.Options(static options => options.SendTimeout = TimeSpan.FromSeconds(40)));

    // To nginx the mere end of the connection is the end of a response without a length.
    [Theory]
    [InlineData(Tcp)]
    [InlineData(Unix)]
    public void A_response_that_the_end_of_the_drain_cuts_ends_within_a_record_DrainTimeout(string address) => FastCgiBench.Run(
        static async (request, response) =>
        {
            response.WriteText("part");
            await response.FlushAsync();
            await Bench.Cancelled(request.Aborted);
        },
        static bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, Wire.Request("/"));
            bench.Drain();
            bench.Cut();
            Assert.True(front.IsAtEnd && front.IsBrokenOff);
            Assert.Equal("part", Assert.Single(front.Open).Value.BodyText);
        },
        address: address);
}
