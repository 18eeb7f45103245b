// Makes requests out of vectors and of grammar, and spoils them where parsers differ: separators, line ends, lengths, names and digits.
// Everything comes from one seed, so a failure is repeated by its seed alone.

using System.Text;

namespace Millrace.Tests.Protocols.Http1;

internal sealed class Http1Mutator(int seed)
{
    // What has told two parsers apart before: separators and their look-alikes, controls, line ends, fragments of framing fields and chunk lines.
    private static readonly byte[][] Splinters =
    [
        .. new[]
        {
            "\r\n", "\n", "\r", "\r\r\n", "\r\n\r\n", "\n\n", " ", "  ", "\t", "\0", "\x0b", "\x0c", "\x7f", "\x80", "\xa0", "\xff",
            ":", ": ", " :", ";", ",", "=", "\"", "\\", "%00", "%2", "%zz", "/..", "/.", "%2e", "%5C", "?", "#", "*", "/", "@", "[", "]", "::",
            "0", "00", "-", "+", "0x", "_", "9999999999999999999", "18446744073709551616",
            "Host: b\r\n", "Content-Length: 3\r\n", "content-length: 3\r\n", "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip, chunked\r\n",
            "Connection: close\r\n", "Connection: upgrade\r\n", "Upgrade: x\r\n", "Expect: 100-continue\r\n", "X:\r\n", " folded\r\n",
            "HTTP/1.1", "HTTP/1.0", "GET ", "http://h/", "close", "chunked",
            "0\r\n\r\n", "5\r\nhello\r\n", "5;a=b\r\nhello\r\n", ";a=\"b\\\"c\"", ";a", " ;", "ffffffff", "10000000000000000", "X-T: 1\r\n", "\r\n0\r\n",
        }.Select(Encoding.Latin1.GetBytes),
    ];

    private static readonly string[] Methods = ["GET", "POST", "OPTIONS", "CONNECT", "PUT", "DELETE", "HEAD", "PATCH", "PROPFIND", "get", "Post", "X-1"];
    private static readonly string[] Targets =
        ["/", "/a/b?c=d", "*", "http://h.test:80/x?y", "https://h", "h.test:443", "/%41%2f", "/a%0", "//x", "/?", "http://u@h/", "/\\", "/a/../b", "/.a/..b", "/x/..%2Fb"];

    private static readonly string[] Names =
    [
        "Host", "host", "Content-Length", "Transfer-Encoding", "Connection", "Expect", "Upgrade", "Accept", "Cookie", "User-Agent",
        "X-Custom-Header-With-A-Long-Name-Indeed-1234567890-1234567890",
        "Sec-Fetch-Mode", "TE", "Via", "X", "content_length", "Access-Control-Request-Headers", "If-Modified-Since",
    ];

    private static readonly string[] Values =
    [
        "a", "h.test", "h.test:8080", "[::1]:80", "[1:2:3:4:5:6:7::]", "127.0.0.1:1", "5", "0", "chunked", "Chunked", "gzip, chunked",
        "close", "keep-alive", "Keep-Alive, Upgrade", "upgrade, close",
        "100-continue", "websocket", "", " padded ", "\ttabbed\t", "a,b,,c", "caf\xe9", "x=\"y\"",
        "no-cache, no-store, must-revalidate, max-age=0, private, proxy-revalidate, s-maxage=0, stale-if-error=0",
    ];

    private readonly Random _random = new(seed);

    /// <summary>One case: a vector or a made-up request, spoiled at up to four places, or left alone.</summary>
    internal byte[] Next()
    {
        List<byte> bytes = [.. _random.Next(3) == 0 ? MakeRequest() : Pick(SmallVectors)];
        for (int n = _random.Next(5); n > 0; n--)
        {
            Spoil(bytes);
        }

        return [.. bytes];
    }

    /// <summary>Where to cut: nowhere, at a few places, or after every byte of a short one.</summary>
    internal List<int> Cuts(int length)
    {
        if (length < 200 && _random.Next(8) == 0)
        {
            return [.. Enumerable.Range(0, length)];
        }

        return [.. Enumerable.Range(0, _random.Next(4)).Select(_ => _random.Next(length + 1)).Order()];
    }

    private static readonly byte[][] SmallVectors = [.. Http1Vector.All.Select(v => v.Bytes).Where(b => b.Length is > 0 and < 1500)];

    private byte[] MakeRequest()
    {
        var text = new StringBuilder();
        text.Append(Pick(Methods)).Append(' ').Append(Pick(Targets)).Append(' ').Append(_random.Next(6) == 0 ? "HTTP/1.0" : "HTTP/1.1").Append("\r\n");
        if (_random.Next(8) != 0)
        {
            text.Append("Host: ").Append(Pick(Values[1..6])).Append("\r\n");
        }

        for (int n = _random.Next(7); n > 0; n--)
        {
            text.Append(Pick(Names)).Append(_random.Next(8) == 0 ? ":" : ": ").Append(Pick(Values)).Append("\r\n");
        }

        bool chunked = _random.Next(3) == 0;
        text.Append(chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
        for (int n = chunked ? _random.Next(4) : 0; n > 0; n--)
        {
            int size = _random.Next(1, 40);
            text.Append(size.ToString(_random.Next(2) == 0 ? "x" : "X4", System.Globalization.CultureInfo.InvariantCulture));
            text.Append(Pick(["", "", ";a", ";a=b", " ; a = \"b c\" ;d"])).Append("\r\n").Append('d', size).Append("\r\n");
        }

        text.Append(chunked ? "0\r\n" + Pick(["", "X-T: 1\r\n", "Host: x\r\n", "A:\r\nB: 2\r\n", "A: 1\r\nTE: x\r\nB: 2\r\n", "Content-Type: x\r\n"]) + "\r\n" : "");
        return Encoding.Latin1.GetBytes(text.ToString());
    }

    private void Spoil(List<byte> bytes)
    {
        int at = _random.Next(bytes.Count + 1);
        int length = Math.Min(_random.Next(1, 12), bytes.Count - at);
        switch (_random.Next(9))
        {
            case 0:
                bytes.Insert(at, (byte)_random.Next(256));
                break;
            case 1 when at < bytes.Count:
                bytes[at] = (byte)_random.Next(256);
                break;
            case 2 when at < bytes.Count:
                bytes[at] ^= (byte)(1 << _random.Next(8));
                break;
            case 3:
                bytes.RemoveRange(at, length);
                break;
            case 4:
                bytes.InsertRange(_random.Next(bytes.Count + 1), bytes.GetRange(at, length));
                break;
            case 5 when _random.Next(4) == 0:
                bytes.RemoveRange(at, bytes.Count - at);
                break;
            case 6:
                bytes.InsertRange(at, Enumerable.Repeat((byte)'a', _random.Next(1, 130)));
                break;
            default:
                bytes.InsertRange(at, Pick(Splinters));
                break;
        }
    }

    private T Pick<T>(T[] choices) => choices[_random.Next(choices.Length)];
}
