// The bytes of simulated HTTP/1.1 requests, as browsers and proxies write them: every spelling that the standard allows
// (RFC 9112 §2, §3, §6, §7), drawn from a seed.

using System.Globalization;
using System.Text;

namespace Millrace.Tests.Simulation;

internal static class HttpScript
{
    /// <summary>Request line and fields, with the empty line.</summary>
    public static byte[] Head(SeededRandom random, Plan plan)
    {
        var text = new StringBuilder();
        if (random.Chance(5))
        {
            text.Append("\r\n");        // RFC 9112 §2.2: one empty line before a request is passed over
        }

        string method = plan.IsTunnel ? "GET" : plan.IsHead ? "HEAD" : plan.BodyLength > 0 || plan.IsChunked ? "POST" : "GET";
        text.Append(method).Append(' ').Append(random.Chance(10) ? "http://example.org" : "").Append(plan.Name).Append(plan.IsHttp10 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n");
        List<string> fields = Fields(random, plan);
        for (int i = fields.Count - 1; i > 0; i--)
        {
            int other = random.Below(i + 1);
            (fields[i], fields[other]) = (fields[other], fields[i]);
        }

        foreach (string field in fields)
        {
            text.Append(field).Append("\r\n");
        }

        return Encoding.Latin1.GetBytes(text.Append("\r\n").ToString());
    }

    private static List<string> Fields(SeededRandom random, Plan plan)
    {
        var fields = new List<string> { random.Chance(80) ? "Host: example.org" : "host:example.org\t" };
        if (plan.IsTunnel)
        {
            fields.AddRange(["Connection: Upgrade", "Upgrade: echo"]);
        }
        else if (!plan.KeepsConnection)
        {
            if (!plan.IsHttp10 || random.Chance(50))
            {
                fields.Add(random.Chance(70) ? "Connection: close" : "connection: x, CLOSE ,");
            }
        }
        else if (plan.IsHttp10 || random.Chance(20))
        {
            fields.Add("Connection: keep-alive");
        }

        if (plan.IsChunked)
        {
            fields.Add(random.Chance(80) ? "Transfer-Encoding: chunked" : "transfer-encoding: Chunked ");
        }
        else if (plan.BodyLength > 0 || (!plan.IsTunnel && random.Chance(20)))
        {
            fields.Add(string.Create(CultureInfo.InvariantCulture, $"Content-Length: {plan.BodyLength}"));
        }

        if (plan.ExpectsContinue)
        {
            fields.Add("Expect: 100-continue");
        }

        if (random.Chance(10))
        {
            fields.Add("X-Padding: " + new string('x', random.Size(20_000)));
        }

        return fields;
    }

    /// <summary>The body on the wire, in pieces.</summary>
    public static List<byte[]> Body(SeededRandom random, Plan plan)
    {
        byte[] body = Plan.Bytes(plan.RequestPattern, 0, plan.BodyLength);
        var pieces = new List<byte[]>();
        int partMax = random.Chance(60) ? 32 * 1024 : random.Between(100, 65_535);
        for (int at = 0; at < body.Length;)
        {
            int count = Math.Min(body.Length - at, random.Between(1, partMax));
            ReadOnlySpan<byte> part = body.AsSpan(at, count);
            pieces.Add(plan.IsChunked ? Chunk(random, part) : part.ToArray());
            at += count;
        }

        if (plan.IsChunked)
        {
            string trailer = plan.HasTrailer ? $"X-Trailer: {plan.Name}\r\n" : "";
            pieces.Add(Encoding.Latin1.GetBytes((random.Chance(80) ? "0\r\n" : "000;last\r\n") + trailer + "\r\n"));
        }

        return pieces;
    }

    // chunk = chunk-size [ chunk-ext ] CRLF chunk-data CRLF  (RFC 9112 §7.1)
    private static byte[] Chunk(SeededRandom random, ReadOnlySpan<byte> data)
    {
        string size = data.Length.ToString(random.Below(3) switch { 0 => "x", 1 => "X", _ => "x7" }, CultureInfo.InvariantCulture);
        string extension = random.Below(8) switch { 0 => ";a=b", 1 => ";a=\"b\\\"c\"", _ => "" };
        return [.. Encoding.Latin1.GetBytes(size + extension + "\r\n"), .. data, .. "\r\n"u8];
    }
}
