// FastCGI streams spoiled where responders differ: records repeated, lost, swapped, retyped, renumbered and cut differently,
// lengths and paddings that are not so, records put between others. Made of the vectors, the traces and whole requests.

using System.Buffers.Binary;
using Millrace.Tests.Protocols.FastCgi;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Fuzz;

internal sealed class FastCgiSpoiler(SeededRandom random, CaseBuffer buffer)
{
    private const int SourceMax = 6_000;

    private static readonly byte[][] s_sources = [.. Directory.GetFiles(VectorFile.Folder, "*.vec").Order(StringComparer.Ordinal)
        .Select(static path => VectorFile.Load(Path.GetFileName(path)).Input).Concat(Traces.Of("fastcgi")).Concat(Requests())
        .Where(static bytes => bytes.Length is > 0 and <= SourceMax)];

    private static readonly byte[][] s_records =
    [
        Wire.Record(Wire.Abort, 1, []), Wire.Record(Wire.Stdin, 1, []), Wire.Record(Wire.Params, 1, []), Wire.Record(Wire.Stdin, 1, "abc"u8),
        Wire.BeginRequest(), Wire.BeginRequest(2), Wire.BeginRequest(1, keep: false), Wire.BeginRequest(1, role: 2), Wire.Record(Wire.Begin, 1, []),
        Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MPXS_CONNS", ""))), Wire.Record(Wire.GetValues, 0, [0x80]), Wire.Record(77, 0, [1, 2, 3]),
        Wire.Record(Wire.Data, 1, "x"u8), Wire.Record(Wire.Stdout, 1, "x"u8), Wire.Record(Wire.End, 1, new byte[8]),
        Wire.Record(Wire.Params, 1, Wire.Pairs(("CONTENT_LENGTH", "7"))), Wire.Record(Wire.Params, 1, Wire.Pairs(("REQUEST_URI", "/other"))),
        Wire.Record(Wire.Params, 1, [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]), Wire.Record(Wire.Stdin, 65_535, "z"u8, padding: 255),
    ];

    private static IEnumerable<byte[]> Requests()
    {
        for (int i = 0; i < 24; i++)
        {
            string target = "/" + new string((char)('a' + i), 1 + i);
            byte[]? body = i % 3 == 0 ? null : Plan.Bytes("f", 0, i * i);
            yield return Wire.Request(target, body is null ? i % 2 == 0 ? "GET" : "HEAD" : "POST", body, id: 1 + (i % 3), keep: i % 5 != 0, withLength: i % 4 != 0);
        }
    }

    public void Make()
    {
        for (int i = random.Chance(60) ? 1 : random.Between(1, 3); i > 0; i--)
        {
            buffer.Append(s_sources[random.Below(s_sources.Length)]);
        }

        for (int i = random.Below(6); i > 0; i--)
        {
            if (random.Chance(35))
            {
                buffer.SpoilByte();
            }
            else
            {
                SpoilRecord();
            }
        }
    }

    private void SpoilRecord()
    {
        int at = FindRecord(out int size);
        if (at < 0)
        {
            buffer.Append(s_records[random.Below(s_records.Length)]);
            return;
        }

        Span<byte> head = buffer.Span[at..];
        switch (random.Below(12))
        {
            case 0:
                head[1] = (byte)(random.Chance(80) ? random.Below(13) : random.Below(256));
                break;
            case 1:
                BinaryPrimitives.WriteUInt16BigEndian(head[2..], (ushort)(random.Chance(80) ? random.Below(4) : random.Below(65_536)));
                break;
            case 2:
                BinaryPrimitives.WriteUInt16BigEndian(head[4..], (ushort)(random.Chance(60) ? random.Below(24) : random.Below(65_536)));
                break;
            case 3:
                head[6] = (byte)random.Below(256);
                break;
            case 4 when random.Chance(30):
                head[0] = (byte)random.Below(4);
                break;
            case 5:
                buffer.Remove(at, size);
                break;
            case 6:
                buffer.Copy(at, size, at);
                break;
            case 7:
                buffer.Copy(at, size, 0);
                buffer.Remove(at + size, size);
                break;
            case 8 when size > 9:
                Split(at);
                break;
            case 9:
                SpoilPair(at, size);
                break;
            default:
                buffer.Insert(at, s_records[random.Below(s_records.Length)]);
                break;
        }
    }

    // A record at random, as the heads tell where each one ends.
    private int FindRecord(out int size)
    {
        size = 0;
        int found = -1;
        ReadOnlySpan<byte> bytes = buffer.Span;
        for (int at = 0, seen = 1; bytes.Length - at >= 8 && seen < 40; seen++)
        {
            int length = 8 + BinaryPrimitives.ReadUInt16BigEndian(bytes[(at + 4)..]) + bytes[at + 6];
            if (random.Below(seen) == 0)
            {
                found = at;
                size = Math.Min(length, bytes.Length - at);
            }

            at += length;
        }

        return found;
    }

    // One record becomes two of the same stream.
    private void Split(int at)
    {
        Span<byte> head = buffer.Span[at..];
        int length = BinaryPrimitives.ReadUInt16BigEndian(head[4..]);
        if (length < 2 || head.Length < 8 + length)
        {
            return;
        }

        int first = random.Between(1, length - 1);
        Span<byte> second = stackalloc byte[8];
        head[..8].CopyTo(second);
        BinaryPrimitives.WriteUInt16BigEndian(head[4..], (ushort)first);
        head[6] = 0;
        BinaryPrimitives.WriteUInt16BigEndian(second[4..], (ushort)(length - first));
        buffer.Insert(at + 8 + first, second);
    }

    // The lengths of a name-value pair.
    private void SpoilPair(int at, int size)
    {
        if (size > 10)
        {
            Span<byte> content = buffer.Span.Slice(at + 8, size - 8);
            content[random.Below(Math.Min(content.Length, 40))] = (byte)(random.Chance(50) ? random.Below(30) : 0x80 | random.Below(128));
        }
    }
}
