// What only FastCGI has to say about responses: the line of STDERR, the field Status, END_REQUEST. FastCGI 1.0 §5.3, §5.5, RFC 3875 §6.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

public sealed class EndRequestTests
{
    private static void Answers(Action<Request, Response> handler, Action<FastCgiBench, FrontEnd> check, string method = "GET") => FastCgiBench.Run(
        (request, response) =>
        {
            handler(request, response);
            return default;
        },
        bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, Wire.Request("/", method));
            check(bench, front);
        });

    [Fact]
    public void Hostile_65_An_exception_is_one_line_of_STDERR_without_its_message() => Answers(
        static (request, response) => throw new InvalidOperationException("a secret of the application"),
        static (_, front) =>
        {
            ReceivedResponse response = Assert.Single(front.Ended);
            Assert.Contains("System.InvalidOperationException", response.ErrorText, StringComparison.Ordinal);
            Assert.DoesNotContain("secret", response.ErrorText, StringComparison.Ordinal);
        });

    [Fact]
    public void Hostile_66_Hop_by_hop_fields_and_Status_never_go_out_RFC9110_7_6_1() => Answers(
        static (request, response) =>
        {
            foreach (string name in (string[])["Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "Trailer", "Proxy-Connection", "Status"])
            {
                response.AddHeader(name, "999 evil");
            }

            response.WriteText("x");
        },
        static (bench, front) => Assert.DoesNotContain("evil", Assert.Single(front.Ended).Head, StringComparison.Ordinal));

    [Fact]
    public void Hostile_70_STDERR_is_one_line_without_controls()
    {
        FastCgiBench? current = null;
        FastCgiBench.Run(
            (request, response) =>
            {
                current!.Simulation.Handler.Current!.TraceIdentifier = "a\r\n[error] forged\u001b[31m\0";
                throw new InvalidOperationException();
            },
            bench =>
            {
                current = bench;
                string line = bench.Ask(Wire.Request("/")).ErrorText;
                Assert.Contains("forged", line, StringComparison.Ordinal);
                Assert.DoesNotContain(line, static c => c is < ' ' or > '~');
            });
    }

    [Fact]
    public void Hostile_71_END_REQUEST_is_eight_bytes_and_leaks_nothing_FastCGI_5_5() => Answers(
        static (request, response) => response.WriteText("x"),
        static (bench, front) =>
        {
            // FrontEnd faults on any END_REQUEST that is not 8 bytes with three zeros, and on padding that is not zero.
            Assert.Null(front.Fault);
            Assert.Equal((0u, 0), (Assert.Single(front.Ended).AppStatus, front.Ended[0].ProtocolStatus));
            Assert.False(front.EndsInsideRecord);
        });
}
