// Reads a .vec file: the input as record descriptions, a line of dashes, the expected events. The format is described in tests/vectors/fastcgi/README.md.
using System.Buffers.Binary;
using System.Globalization;
using System.Text;
using Millrace.Protocols.FastCgi;

namespace Millrace.Tests.Protocols.FastCgi;

/// <summary>How much of the meaning of the records a vector expects in its events.</summary>
public enum VectorDepth
{
    Records,
    Pairs,
    Head,
    Sequence,
}

/// <summary>What happens behind the first <paramref name="At"/> bytes of the input.</summary>
public sealed record VectorMark(int At, string[] Words);

/// <summary>One vector: bytes in, events out.</summary>
public sealed record VectorFile(VectorDepth Depth, byte[] Input, IReadOnlyList<VectorMark> Marks, IReadOnlyList<string> Expected)
{
    public static string Folder { get; } = FindFolder();

    public static VectorFile Load(string name)
    {
        string[] lines = File.ReadAllLines(Path.Combine(Folder, name));
        int rule = Array.FindIndex(lines, line => line.StartsWith("-----", StringComparison.Ordinal));
        Assert.True(rule > 0, $"{name}: no line of dashes between input and events");
        var depth = VectorDepth.Records;
        var input = new List<byte>();
        var marks = new List<VectorMark>();
        foreach (string line in lines.Take(rule).Select(line => line.Trim()).Where(line => line.Length > 0 && line[0] != '#'))
        {
            if (line.StartsWith("read ", StringComparison.Ordinal))
            {
                depth = Enum.Parse<VectorDepth>(line[5..], ignoreCase: true);
            }
            else if (line.Split(' ') is ["read" or "drop" or "response", ..] words)
            {
                marks.Add(new VectorMark(input.Count, words));
            }
            else
            {
                Append(input, line);
            }
        }

        return new VectorFile(depth, [.. input], marks, [.. lines.Skip(rule + 1).Select(line => line.TrimEnd()).Where(line => line.Length > 0)]);
    }

    private static void Append(List<byte> input, string line)
    {
        int colon = line.IndexOf(" :", StringComparison.Ordinal);
        string[] words = (colon < 0 ? line : line[..colon]).Split(' ', StringSplitOptions.RemoveEmptyEntries);
        byte[] content = colon < 0 ? [] : VectorItems.Read(line[(colon + 2)..]);
        var options = words.Skip(1).Where(word => word.Contains('=')).Select(word => word.Split('=')).ToDictionary(pair => pair[0], pair => Number(pair[1]));
        int Option(string name, int otherwise) => options.GetValueOrDefault(name, otherwise);
        switch (words[0])
        {
            case "bytes":
                input.AddRange(content);
                break;
            case "keep":
                input.RemoveRange(Number(words[1]), input.Count - Number(words[1]));
                break;
            case "times":
                byte[] all = [.. input];
                for (int i = 1; i < Number(words[1]); i++)
                {
                    input.AddRange(all);
                }

                break;
            case "begin":
                int role = Option("role", 1);
                byte[] body = [(byte)(role >> 8), (byte)role, (byte)Option("flags", 1), 0, 0, 0, 0, 0];
                AddRecord(input, (byte)RecordType.BeginRequest, [.. body, .. content], Option);
                break;
            case "record":
                AddRecord(input, TypeOf(words[1]), content, Option);
                break;
            case "stream":
                int size = Option("size", RecordHeader.ContentLengthMax);
                foreach (byte[] chunk in content.Chunk(size))
                {
                    AddRecord(input, TypeOf(words[1]), chunk, Option);
                }

                AddRecord(input, TypeOf(words[1]), [], Option);
                break;
            default:
                throw new FormatException($"not a vector line: {line}");
        }
    }

    // Written byte by byte on purpose: the vectors do not trust the writer that is tested.
    private static void AddRecord(List<byte> input, byte type, byte[] content, Func<string, int, int> option)
    {
        int id = option("id", 1);
        int length = option("length", content.Length);
        int pad = option("pad", 0);
        input.AddRange([(byte)option("version", 1), type, (byte)(id >> 8), (byte)id, (byte)(length >> 8), (byte)length, (byte)pad, (byte)option("reserved", 0)]);
        input.AddRange(content);
        input.AddRange(Enumerable.Repeat((byte)option("padbyte", 0), pad));
    }

    private static byte TypeOf(string word) => char.IsAsciiDigit(word[0]) ? (byte)Number(word) : (byte)Enum.Parse<RecordType>(word);

    private static int Number(string text) =>
        text.StartsWith("0x", StringComparison.Ordinal) ? int.Parse(text.AsSpan(2), NumberStyles.HexNumber, CultureInfo.InvariantCulture) : int.Parse(text, CultureInfo.InvariantCulture);

    private static string FindFolder()
    {
        for (DirectoryInfo? folder = new(AppContext.BaseDirectory); folder is not null; folder = folder.Parent)
        {
            string candidate = Path.Combine(folder.FullName, "tests", "vectors", "fastcgi");
            if (Directory.Exists(candidate))
            {
                return candidate;
            }
        }

        throw new DirectoryNotFoundException("tests/vectors/fastcgi is not above " + AppContext.BaseDirectory);
    }
}

/// <summary>The content part of a vector line: texts, repetitions, hexadecimal bytes and pairs.</summary>
internal static class VectorItems
{
    // items = *( text [ "*" count ] / text "=" text / text "==" text / 2HEXDIG )   ; "=" is a pair, "==" a pair with both lengths in the 4-byte form
    public static byte[] Read(string line)
    {
        var bytes = new List<byte>();
        int at = 0;
        while (SkipSpaces(line, ref at))
        {
            if (line[at] != '"')
            {
                bytes.Add(byte.Parse(line.AsSpan(at, 2), NumberStyles.HexNumber, CultureInfo.InvariantCulture));
                at += 2;
                continue;
            }

            byte[] text = ReadText(line, ref at);
            if (at == line.Length || line[at] != '=')
            {
                bytes.AddRange(text);
                continue;
            }

            bool isWide = line[++at] == '=';
            at += isWide ? 1 : 0;
            byte[] value = ReadText(line, ref at);
            AddLength(bytes, text.Length, isWide);
            AddLength(bytes, value.Length, isWide);
            bytes.AddRange(text);
            bytes.AddRange(value);
        }

        return [.. bytes];
    }

    private static bool SkipSpaces(string line, ref int at)
    {
        while (at < line.Length && line[at] == ' ')
        {
            at++;
        }

        return at < line.Length;
    }

    private static byte[] ReadText(string line, ref int at)
    {
        var text = new List<byte>();
        for (at++; line[at] != '"'; at++)
        {
            if (line[at] == '\\' && line[at + 1] == 'x')
            {
                text.Add(byte.Parse(line.AsSpan(at + 2, 2), NumberStyles.HexNumber, CultureInfo.InvariantCulture));
                at += 3;
            }
            else
            {
                text.AddRange(Encoding.UTF8.GetBytes(line, at, 1));
            }
        }

        at++;
        if (at == line.Length || line[at] != '*')
        {
            return [.. text];
        }

        int end = at + 1;
        while (end < line.Length && char.IsAsciiDigit(line[end]))
        {
            end++;
        }

        int count = int.Parse(line.AsSpan(at + 1, end - at - 1), CultureInfo.InvariantCulture);
        at = end;
        return [.. Enumerable.Repeat(text, count).SelectMany(bytes => bytes)];
    }

    private static void AddLength(List<byte> bytes, int length, bool isWide)
    {
        if (!isWide && length < 128)
        {
            bytes.Add((byte)length);
            return;
        }

        var wide = new byte[4];
        BinaryPrimitives.WriteUInt32BigEndian(wide, (uint)length | 0x80000000);
        bytes.AddRange(wide);
    }
}
