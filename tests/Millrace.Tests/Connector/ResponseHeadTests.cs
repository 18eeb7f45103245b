// Heads of CGI responses (RFC 3875 §6), whole, cut at every byte, and byte by byte.

using System.Text;
using Microsoft.AspNetCore.Http;
using Millrace.Connector;

namespace Millrace.Tests.Connector;

public sealed class ResponseHeadTests
{
    public static TheoryData<string, int, string> Heads => new()
    {
        { "Content-Type: text/plain\r\n\r\n", 200, "Content-Type: text/plain" },
        { "Content-Type: text/plain\n\n", 200, "Content-Type: text/plain" },
        { "Status: 404 Not Found\r\nX: 1\r\n\r\n", 404, "X: 1" },
        { "X: 1\r\nstatus:404\r\n\r\n", 404, "X: 1" },
        { "Location: /there\r\n\r\n", 302, "Location: /there" },
        { "Location: /there\r\nStatus: 201 Created\r\n\r\n", 201, "Location: /there" },
        { "Status: 201 Created\nLocation: /there\n\n", 201, "Location: /there" },
        { "Set-Cookie: a=1\r\nset-cookie: b=2\r\n\r\n", 200, "Set-Cookie: a=1|b=2" },
        { "Content-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close\r\nKeep-Alive: 1\r\nUpgrade: x\r\nProxy-Connection: x\r\nTE: x\r\n\r\n", 200, "Content-Length: 5" },
        { "X:\r\nY: \t a b \t \r\n\r\n", 200, "X: ; Y: a b" },
        { "Status: 299\r\n\r\n", 299, "" },
        { "Status: 999\r\n\r\n", 999, "" },
        { "\r\n", 200, "" },
        { "\n", 200, "" },
    };

    [Theory]
    [MemberData(nameof(Heads))]
    public void A_head_is_read_however_it_comes_6_2(string text, int status, string fields)
    {
        byte[] bytes = Encoding.Latin1.GetBytes(text + "body");
        foreach (byte[][] pieces in Cut(bytes))
        {
            HttpResponse response = new DefaultHttpContext().Response;
            var head = new ResponseHead();
            List<byte> body = [];
            foreach (byte[] piece in pieces)
            {
                int taken = head.IsRead ? 0 : head.Take(piece, new HttpResponseFields(response));
                body.AddRange(piece[taken..]);
                Assert.True(head.IsRead || taken == piece.Length);
            }

            Assert.True(head.IsRead);
            Assert.Equal("body", Encoding.Latin1.GetString([.. body]));
            Assert.Equal(status, response.StatusCode);
            Assert.Equal(fields, string.Join("; ", response.Headers.OrderBy(static field => field.Key, StringComparer.Ordinal).Select(static field => $"{field.Key}: {string.Join('|', field.Value.ToArray())}")));
        }
    }

    [Theory]
    [InlineData("X\r\n\r\n")]
    [InlineData(": x\r\n\r\n")]
    [InlineData("<html>\n\n")]
    [InlineData("HTTP/1.1 200 OK\r\n\r\n")]
    [InlineData("Status: 99 x\r\n\r\n")]
    [InlineData("Status: 100 Continue\r\n\r\n")]
    [InlineData("Status: 1000\r\n\r\n")]
    [InlineData("Status: OK\r\n\r\n")]
    [InlineData("Status: 2000\r\n\r\n")]
    [InlineData("Status:\r\n\r\n")]
    [InlineData("Content-Length: -1\r\n\r\n")]
    [InlineData("Content-Length: 1a\r\n\r\n")]
    [InlineData("Content-Length: 1\r\nContent-Length: 1\r\n\r\n")]
    [InlineData("Content-Length:\r\n\r\n")]
    public void What_is_no_head_is_refused_however_it_comes(string text)
    {
        foreach (byte[][] pieces in Cut(Encoding.Latin1.GetBytes(text)))
        {
            var head = new ResponseHead();
            HttpResponse response = new DefaultHttpContext().Response;
            Assert.Equal(ConnectorFault.BrokenResponse, Assert.Throws<ConnectorException>(() => Array.ForEach(pieces, piece => head.Take(piece, new HttpResponseFields(response)))).Fault);
        }
    }

    [Theory]
    [InlineData(ResponseHead.SizeMax, true)]
    [InlineData(ResponseHead.SizeMax + 1, false)]
    public void A_head_has_at_most_64_KiB(int size, bool isTaken)
    {
        byte[] bytes = Encoding.Latin1.GetBytes("X: ".PadRight(size - 4, 'x') + "\r\n\r\n");
        var head = new ResponseHead();
        HttpResponse response = new DefaultHttpContext().Response;
        void TakeAll() => Array.ForEach([.. bytes.Chunk(1_000)], piece => head.Take(piece, new HttpResponseFields(response)));

        if (isTaken)
        {
            TakeAll();
            Assert.True(head.IsRead);
        }
        else
        {
            Assert.Throws<ConnectorException>(TakeAll);
        }
    }

    // Whole, in two at every byte, and byte by byte.
    private static IEnumerable<byte[][]> Cut(byte[] bytes) =>
        [[bytes], .. Enumerable.Range(1, bytes.Length - 1).Select(at => (byte[][])[bytes[..at], bytes[at..]]), [.. bytes.Select(static b => (byte[])[b])]];
}
