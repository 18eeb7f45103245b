// HTTP/1.1 streams spoiled where servers differ: lines repeated, lost and swapped, line ends and separators that are none,
// lengths and chunk sizes that are not so, one request in the middle of another. Made of the vectors, the traces and whole requests.

using System.Text;
using Millrace.Tests.Protocols.Http1;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Fuzz;

internal sealed class HttpSpoiler(SeededRandom random, CaseBuffer buffer)
{
    private const int SourceMax = 3_000;

    private static readonly byte[][] s_sources = [.. Http1Vector.All.Select(static vector => vector.Bytes).Concat(Traces.Of("http")).Concat(Requests())
        .Where(static bytes => bytes.Length is > 0 and <= SourceMax)];

    private static readonly byte[][] s_splinters = [.. new[]
    {
        "\r\n", "\n", "\r", "\r\r\n", "\r\n\r\n", "\n\n", " ", "  ", "\t", "\0", "\x0b", "\x7f", "\x80", "\xff", ":", ": ", " :", ";", ",", "=", "\"", "\\",
        "%00", "%2", "%zz", "%2f", "..", "?", "#", "*", "/", "@", "0", "00", "-", "+", "0x", "_", "9999999999999999999", "18446744073709551616", "ffffffff",
        "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "GET ", "HEAD ", "http://h/", "close", "chunked", "0\r\n\r\n", "5\r\nhello\r\n", ";a=\"b\\\"c\"", "X-T: 1\r\n", "\r\n0\r\n",
    }.Select(Encoding.Latin1.GetBytes)];

    private static readonly byte[][] s_lines = [.. new[]
    {
        "Host: b\r\n", "Content-Length: 3\r\n", "content-length: 0\r\n", "Content-Length: 5, 5\r\n", "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip, chunked\r\n",
        "Connection: close\r\n", "Connection: keep-alive\r\n", "Connection: upgrade\r\nUpgrade: x\r\n", "Expect: 100-continue\r\n", "Expect: other\r\n", "X:\r\n", " folded\r\n",
        "GET /in HTTP/1.1\r\nHost: a\r\n\r\n", "POST /in HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok", "GET /in HTTP/1.0\r\n\r\n",
    }.Select(Encoding.Latin1.GetBytes)];

    private static IEnumerable<byte[]> Requests()
    {
        for (int i = 0; i < 24; i++)
        {
            string target = "/" + new string((char)('a' + i), 1 + i);
            string framing = (i % 4) switch
            {
                0 => "\r\n",
                1 => $"Content-Length: {i}\r\n\r\n{new string('b', i)}",
                2 => $"Transfer-Encoding: chunked\r\n\r\n{i + 1:x}\r\n{new string('c', i + 1)}\r\n3;e=f\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
                _ => $"Expect: 100-continue\r\nContent-Length: {i}\r\n\r\n{new string('d', i)}",
            };
            string method = i % 4 != 0 ? "POST" : i % 8 == 0 ? "GET" : "HEAD";
            yield return Encoding.Latin1.GetBytes($"{method} {target} HTTP/1.{(i % 7 == 0 ? 0 : 1)}\r\nHost: a\r\n{(i % 5 == 0 ? "Connection: close\r\n" : "")}{framing}");
        }
    }

    public void Make()
    {
        for (int i = random.Chance(50) ? 1 : random.Between(1, 4); i > 0; i--)
        {
            buffer.Append(s_sources[random.Below(s_sources.Length)]);
        }

        for (int i = random.Below(6); i > 0; i--)
        {
            switch (random.Below(10))
            {
                case < 3:
                    buffer.SpoilByte();
                    break;
                case < 5:
                    buffer.Insert(random.Below(buffer.Count + 1), s_splinters[random.Below(s_splinters.Length)]);
                    break;
                default:
                    SpoilLine();
                    break;
            }
        }
    }

    private void SpoilLine()
    {
        int at = FindLine(out int size);
        switch (random.Below(8))
        {
            case 0:
                buffer.Remove(at, size);
                break;
            case 1:
                buffer.Copy(at, size, at);
                break;
            case 2:
                buffer.Copy(at, size, FindLine(out _));
                break;
            case 3:
                SpoilDigit(at, size);
                break;
            case 4:
                buffer.Insert(at, s_sources[random.Below(s_sources.Length)]);
                break;
            default:
                buffer.Insert(at, s_lines[random.Below(s_lines.Length)]);
                break;
        }
    }

    private int FindLine(out int size)
    {
        ReadOnlySpan<byte> bytes = buffer.Span;
        int from = random.Below(bytes.Length + 1);
        int at = bytes[..from].LastIndexOf((byte)'\n') + 1;
        int end = bytes[at..].IndexOf((byte)'\n');
        size = end < 0 ? bytes.Length - at : end + 1;
        return at;
    }

    private void SpoilDigit(int at, int size)
    {
        Span<byte> line = buffer.Span.Slice(at, size);
        int digit = line.IndexOfAnyInRange((byte)'0', (byte)'9');
        if (digit >= 0)
        {
            line[digit] = "0123456789abcdefABCDEF+-x "u8[random.Below(26)];
        }
    }
}
