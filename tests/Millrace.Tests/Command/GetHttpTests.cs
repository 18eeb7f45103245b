// `millrace get` over HTTP, to a server that answers with bytes written down in the test.

using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Millrace.Tests.Command;

public sealed class GetHttpTests
{
    [Fact]
    public async Task Target_and_headers_go_out_as_written_and_the_answer_is_printed()
    {
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        var request = AnswerAsync(listener, "HTTP/1.1 404 Not Here\r\nX-A: 1\r\nContent-Length: 2\r\n\r\nno");

        var result = await CommandLine.RunAsync("get", $"http://{listener.LocalEndpoint}", "/a%2Fb/../c?x=%41", "-X", "DELETE", "-H", "Host: shop.example", "-H", "X-B: 2");

        Assert.Equal(new CommandLine(22, "404 Not Here\nX-A: 1\nContent-Length: 2\n\nno", ""), result);
        string sent = await request;
        Assert.StartsWith("DELETE /a%2Fb/../c?x=%41 HTTP/1.1\r\n", sent, StringComparison.Ordinal);
        Assert.Contains("\r\nHost: shop.example\r\n", sent, StringComparison.Ordinal);
        Assert.Contains("\r\nX-B: 2\r\n", sent, StringComparison.Ordinal);
    }

    [Fact]
    public async Task The_host_is_the_one_of_the_address_where_no_field_names_another_RFC9110_7_2()
    {
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        var request = AnswerAsync(listener, "HTTP/1.1 204 No Content\r\n\r\n");

        _ = await CommandLine.RunAsync("get", $"http://{listener.LocalEndpoint}", "/");

        Assert.Contains($"\r\nHost: {listener.LocalEndpoint}\r\n", await request, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("\u00C3\u00A4.pdf", "\u00E4.pdf")]
    [InlineData("\u00E4.pdf", "\u00E4.pdf")]       // Latin-1
    public async Task Fields_beyond_ASCII_are_printed_as_what_they_are_most_likely_RFC9110_5_5(string bytes, string printed)
    {
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        var request = AnswerAsync(listener, $"HTTP/1.1 200 OK\r\nX-A: {bytes}\r\nContent-Length: 2\r\n\r\nno");

        var result = await CommandLine.RunAsync("get", $"http://{listener.LocalEndpoint}", "/");

        _ = await request;
        Assert.Equal(new CommandLine(0, $"200 OK\nX-A: {printed}\nContent-Length: 2\n\nno", ""), result);
    }

    [Fact]
    public async Task Nothing_in_the_head_of_an_answer_commands_the_terminal()
    {
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        var request = AnswerAsync(listener, "HTTP/1.1 200 \u001b[31mred\r\nX-A: \u001b]0;title\u0007\r\nContent-Length: 0\r\n\r\n");

        var result = await CommandLine.RunAsync("get", $"http://{listener.LocalEndpoint}", "/", "-v");

        _ = await request;
        Assert.DoesNotContain('\u001b', result.Output + result.Error);
        Assert.Contains("]0;title", result.Output, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("\u001b]0;title\u0007HTTP/1.1 200 OK\r\n\r\n")]
    [InlineData("HTTP/1.1 2\u001b[31m OK\r\n\r\n")]
    [InlineData("HTTP/1.1 000 \u001b[31mOK\r\nContent-Length: 0\r\n\r\n")]
    [InlineData("HTTP/1.1 200 OK\r\nX\u001b[31m: 1\r\n\r\n")]
    [InlineData("HTTP/1.1 200 OK\r\n\u001b]0;title\u0007 no colon\r\n\r\n")]
    [InlineData("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\u001b[31m\r\n\r\n")]
    public async Task Nothing_that_the_sentence_of_a_broken_answer_quotes_commands_the_terminal(string answer)
    {
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        var request = AnswerAsync(listener, answer);

        var result = await CommandLine.RunAsync("get", $"http://{listener.LocalEndpoint}", "/");

        _ = await request;
        Assert.Equal(56, result.ExitCode);
        Assert.Contains("Does the server speak HTTP?\n", result.Error, StringComparison.Ordinal);
        Assert.DoesNotContain(result.Output + result.Error, static c => char.IsControl(c) && c != '\n');
    }

    [Fact]
    public async Task Header_that_is_not_ASCII_goes_out_in_UTF_8()
    {
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        var request = AnswerAsync(listener, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");

        var result = await CommandLine.RunAsync("get", $"http://{listener.LocalEndpoint}", "/", "-H", "X-A: gr\u00fcn");

        Assert.Equal(0, result.ExitCode);
        Assert.Contains("X-A: gr\u00c3\u00bcn\r\n", await request, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Answer_that_is_not_HTTP_is_exit_code_56()
    {
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        var request = AnswerAsync(listener, "\u0001\u0003 not HTTP");

        var result = await CommandLine.RunAsync("get", $"http://{listener.LocalEndpoint}", "/");

        Assert.Equal(56, result.ExitCode);
        Assert.Contains("Does the server speak HTTP?", result.Error, StringComparison.Ordinal);
        Assert.StartsWith("GET / HTTP/1.1\r\n", await request, StringComparison.Ordinal);
    }

    private static async Task<string> AnswerAsync(TcpListener listener, string answer)
    {
        using var socket = await listener.AcceptSocketAsync();
        var head = new byte[8192];
        int length = 0;
        while (head.AsSpan(0, length).IndexOf("\r\n\r\n"u8) < 0)
        {
            int received = await socket.ReceiveAsync(head.AsMemory(length));
            Assert.NotEqual(0, received);
            length += received;
        }
        await socket.SendAsync(Encoding.Latin1.GetBytes(answer));
        return Encoding.Latin1.GetString(head, 0, length);
    }
}
