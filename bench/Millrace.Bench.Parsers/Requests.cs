// The bytes both parsers read.

using System.Text;

namespace Millrace.Bench.Parsers;

/// <summary>A request and how many of them stand in one buffer.</summary>
public sealed record RequestSample(string Name, byte[] Buffer, int Depth)
{
    /// <summary>The plaintext request of the TechEmpower benchmarks, sixteen times, as a pipelining client sends it.</summary>
    public static readonly RequestSample Plaintext16 = Repeat("plaintext x16", 16, PlaintextText);

    /// <summary>What Chromium sends for a page.</summary>
    public static readonly RequestSample Browser = Repeat("browser", 1, BrowserText);

    /// <summary>Four kinds of client in turn, so that no head resembles the one before it.</summary>
    public static readonly RequestSample Mixed16 = Repeat("mixed x16", 4, PlaintextText + CurlText + BrowserText + ProxyText, 4);

    private const string PlaintextText =
        "GET /plaintext HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n" +
        "Accept: text/plain,text/html;q=0.9,application/xhtml+xml;q=0.9,application/xml;q=0.8,*/*;q=0.7\r\nConnection: keep-alive\r\n\r\n";

    private const string BrowserText =
        "GET /index.html?lang=en HTTP/1.1\r\nHost: www.example.org\r\nConnection: keep-alive\r\nCache-Control: max-age=0\r\n" +
        "sec-ch-ua: \"Chromium\";v=\"130\", \"Not?A_Brand\";v=\"99\"\r\nsec-ch-ua-mobile: ?0\r\nsec-ch-ua-platform: \"Linux\"\r\n" +
        "Upgrade-Insecure-Requests: 1\r\n" +
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36\r\n" +
        "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8\r\n" +
        "Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\nSec-Fetch-Dest: document\r\n" +
        "Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-GB,en;q=0.9\r\nCookie: session=0123456789abcdef; theme=dark\r\n\r\n";

    private const string CurlText = "GET /api/v1/items/42?fields=name HTTP/1.1\r\nHost: api.example.org\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n";

    private const string ProxyText =
        "POST /submit HTTP/1.1\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\nX-Real-IP: 192.0.2.7\r\nHost: www.example.org\r\n" +
        "Connection: close\r\nContent-Length: 0\r\nContent-Type: application/json\r\nAuthorization: Bearer 0123456789abcdef0123456789abcdef\r\n" +
        "Accept-Encoding: gzip\r\nUser-Agent: Example/1.0\r\nX-Trace: 7f3c\r\n\r\n";

    /// <inheritdoc/>
    public override string ToString() => Name;

    private static RequestSample Repeat(string name, int times, string text, int requestsInText = 1) =>
        new(name, Encoding.ASCII.GetBytes(string.Concat(Enumerable.Repeat(text, times))), times * requestsInText);
}
