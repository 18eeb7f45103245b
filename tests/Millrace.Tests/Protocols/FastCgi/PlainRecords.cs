// Records and pairs read the plainest way there is, straight from the specification (FastCGI 1.0 §3.3, §3.4): the oracle
// beside the readers that resume, share buffers and look at eight bytes at a time.

namespace Millrace.Tests.Protocols.FastCgi;

internal static class PlainRecords
{
    /// <summary>One line for each record, and one for how the bytes end.</summary>
    public static List<string> Read(byte[] bytes)
    {
        var lines = new List<string>();
        int at = 0;
        while (at < bytes.Length)
        {
            if (bytes[at] != 1)
            {
                lines.Add("version");
                return lines;
            }

            int left = bytes.Length - at;
            int content = left >= 6 ? (bytes[at + 4] * 256) + bytes[at + 5] : 0;
            if (left < 8 || left < 8 + content)
            {
                lines.Add(left <= 8 ? "cut" : Line(bytes, at, bytes.AsSpan(at + 8)) + " cut");
                return lines;
            }

            lines.Add(Line(bytes, at, bytes.AsSpan(at + 8, content)));
            at += 8 + content + bytes[at + 6];
        }

        lines.Add(at == bytes.Length ? "end" : "cut");
        return lines;
    }

    private static string Line(byte[] bytes, int at, ReadOnlySpan<byte> content) => Line(bytes[at + 1], (bytes[at + 2] * 256) + bytes[at + 3], content);

    public static string Line(int type, int id, ReadOnlySpan<byte> content) => $"{type} {id} {Convert.ToHexString(content)}";

    /// <summary>One line for each pair, and one for how the stream ends.</summary>
    public static List<string> ReadPairs(byte[] stream)
    {
        var lines = new List<string>();
        int at = 0;
        while (at < stream.Length)
        {
            if (Length(stream, ref at) is not { } name || Length(stream, ref at) is not { } value)
            {
                lines.Add("cut");
                return lines;
            }

            if (at + name + value > stream.Length)
            {
                lines.Add(at + name + value > int.MaxValue ? "too long" : "cut");
                return lines;
            }

            lines.Add(Pair(stream.AsSpan(at, (int)name), stream.AsSpan(at + (int)name, (int)value)));
            at += (int)(name + value);
        }

        lines.Add("end");
        return lines;
    }

    public static string Pair(ReadOnlySpan<byte> name, ReadOnlySpan<byte> value) => $"{Convert.ToHexString(name)}={Convert.ToHexString(value)}";

    private static long? Length(byte[] stream, ref int at)
    {
        if (at >= stream.Length)
        {
            return null;
        }

        if (stream[at] < 128)
        {
            return stream[at++];
        }

        if (at + 4 > stream.Length)
        {
            return null;
        }

        long length = ((stream[at] & 0x7FL) << 24) | ((long)stream[at + 1] << 16) | ((long)stream[at + 2] << 8) | stream[at + 3];
        at += 4;
        return length;
    }
}
