// One entry of tests/vectors/http1/sequence/*.vec (the format is described in the README above them).

namespace Millrace.Tests.Protocols.Http1;

/// <param name="File">Where it stands.</param>
/// <param name="Name">What it shows.</param>
/// <param name="Clause">The clause it shows.</param>
/// <param name="Bytes">What comes.</param>
/// <param name="Marks">What the connection does behind so many of the bytes.</param>
/// <param name="Expected">The events.</param>
internal sealed record SequenceVector(string File, string Name, string Clause, byte[] Bytes, IReadOnlyList<(int At, string Turn)> Marks, IReadOnlyList<string> Expected)
{
    private const string Mark = "! ";

    public static readonly IReadOnlyList<SequenceVector> All = LoadAll();

    public override string ToString() => $"{File}: {Name} ({Clause})";

    private static List<SequenceVector> LoadAll() =>
        [.. Directory.GetFiles(Path.Combine(Http1Vector.Folder, "sequence"), "*.vec").Order(StringComparer.Ordinal).SelectMany(LoadFile)];

    private static IEnumerable<SequenceVector> LoadFile(string path)
    {
        foreach (string entry in ("\n" + System.IO.File.ReadAllText(path)).Split("\n== ").Skip(1))
        {
            string[] lines = entry.Split('\n');
            string[] title = lines[0].Split(" | ");
            int separator = Array.IndexOf(lines, "----------");
            var bytes = new List<byte>();
            var marks = new List<(int, string)>();
            foreach (string line in lines[1..separator])
            {
                if (line.StartsWith(Mark, StringComparison.Ordinal))
                {
                    marks.Add((bytes.Count, line[Mark.Length..]));
                }
                else
                {
                    bytes.AddRange(EscapedBytes.Parse(line));
                }
            }

            yield return new SequenceVector(Path.GetFileNameWithoutExtension(path), title[0], title[1], [.. bytes], marks, [.. lines[(separator + 1)..].Where(static line => line.Length > 0)]);
        }
    }
}
