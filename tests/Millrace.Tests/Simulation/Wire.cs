// FastCGI bytes as a front server writes them, right or wrong. Written from the specification, apart from the server's own code.

using System.Buffers.Binary;
using System.Text;

namespace Millrace.Tests.Simulation;

internal static class Wire
{
    public const int HeaderSize = 8;

    public const byte Begin = 1;
    public const byte Abort = 2;
    public const byte End = 3;
    public const byte Params = 4;
    public const byte Stdin = 5;
    public const byte Stdout = 6;
    public const byte Stderr = 7;
    public const byte Data = 8;
    public const byte GetValues = 9;
    public const byte GetValuesResult = 10;
    public const byte UnknownType = 11;

    public static byte[] Record(byte type, int id, ReadOnlySpan<byte> content, int padding = 0, byte version = 1, byte reserved = 0, byte paddingByte = 0)
    {
        byte[] record = new byte[8 + content.Length + padding];
        record[0] = version;
        record[1] = type;
        BinaryPrimitives.WriteUInt16BigEndian(record.AsSpan(2), (ushort)id);
        BinaryPrimitives.WriteUInt16BigEndian(record.AsSpan(4), (ushort)content.Length);
        record[6] = (byte)padding;
        record[7] = reserved;
        content.CopyTo(record.AsSpan(8));
        record.AsSpan(8 + content.Length).Fill(paddingByte);
        return record;
    }

    public static byte[] BeginRequest(int id = 1, bool keep = true, int role = 1, byte extraFlags = 0) =>
        Record(Begin, id, [(byte)(role >> 8), (byte)role, (byte)((keep ? 1 : 0) | extraFlags), 0, 0, 0, 0, 0]);

    public static byte[] Pair(string name, string value) => Pair(Encoding.Latin1.GetBytes(name), Encoding.Latin1.GetBytes(value));

    public static byte[] Pair(byte[] name, byte[] value) => [.. Length(name.Length), .. Length(value.Length), .. name, .. value];

    private static byte[] Length(int length) => length < 128 ? [(byte)length] : LongLength(length);

    public static byte[] LongLength(int length)
    {
        byte[] bytes = new byte[4];
        BinaryPrimitives.WriteUInt32BigEndian(bytes, (uint)length | 0x8000_0000);
        return bytes;
    }

    public static byte[] Pairs(params (string Name, string Value)[] pairs) => [.. pairs.SelectMany(static pair => Pair(pair.Name, pair.Value))];

    /// <summary>A stream as records of at most <paramref name="recordMax"/> bytes, and its end.</summary>
    public static byte[] Stream(byte type, int id, byte[] content, int recordMax = 65_535, bool ends = true)
    {
        var bytes = new List<byte>(content.Length + 64);
        for (int at = 0; at < content.Length; at += recordMax)
        {
            bytes.AddRange(Record(type, id, content.AsSpan(at, Math.Min(recordMax, content.Length - at)), padding: at % 8));
        }

        if (ends)
        {
            bytes.AddRange(Record(type, id, []));
        }

        return [.. bytes];
    }

    /// <summary>The parameters every front server sends.</summary>
    public static (string Name, string Value)[] Get(string target, string method = "GET", params (string Name, string Value)[] more) =>
    [
        ("REQUEST_METHOD", method), ("REQUEST_URI", target), ("QUERY_STRING", target.Contains('?', StringComparison.Ordinal) ? target[(target.IndexOf('?', StringComparison.Ordinal) + 1)..] : ""),
        ("SERVER_PROTOCOL", "HTTP/1.1"), ("HTTP_HOST", "example.org"), ("REMOTE_ADDR", "192.0.2.7"), ("REMOTE_PORT", "4711"), .. more,
    ];

    /// <summary>A whole request; <paramref name="body"/> null means none.</summary>
    public static byte[] Request(string target, string method = "GET", byte[]? body = null, int id = 1, bool keep = true, bool withLength = true,
        params (string Name, string Value)[] more)
    {
        (string, string)[] length = body is not null && withLength
            ? [("CONTENT_LENGTH", body.Length.ToString(System.Globalization.CultureInfo.InvariantCulture))]
            : [];
        return [.. BeginRequest(id, keep), .. Stream(Params, id, Pairs([.. Get(target, method), .. length, .. more])), .. Stream(Stdin, id, body ?? [])];
    }
}
