// One entry of tests/vectors/http1/*.vec (the format is described in the README beside them).

using System.Globalization;
using System.Text;
using Millrace.Protocols.Http1;

namespace Millrace.Tests.Protocols.Http1;

internal sealed record Http1Vector(string File, string Name, string Clause, int HostileClass, Http1Limits Limits, byte[] Bytes, string Verdict, List<string> Facts)
{
    internal static readonly List<Http1Vector> All = LoadAll();

    public override string ToString() => $"{File}: {Name} ({Clause})";

    /// <summary>Where the vectors are.</summary>
    internal static string Folder
    {
        get
        {
            string? folder = AppContext.BaseDirectory;
            while (folder is not null && !System.IO.File.Exists(Path.Combine(folder, "Millrace.slnx")))
            {
                folder = Path.GetDirectoryName(folder);
            }

            return Path.Combine(folder ?? throw new DirectoryNotFoundException("Millrace.slnx"), "tests", "vectors", "http1");
        }
    }

    private static List<Http1Vector> LoadAll() =>
        [.. Directory.GetFiles(Folder, "*.vec").Order(StringComparer.Ordinal).SelectMany(LoadFile)];

    private static IEnumerable<Http1Vector> LoadFile(string path)
    {
        string file = Path.GetFileNameWithoutExtension(path);
        foreach (string entry in ("\n" + System.IO.File.ReadAllText(path)).Split("\n== ").Skip(1))
        {
            List<string> lines = [.. entry.Split('\n')];
            string[] title = lines[0].Split(" | ");
            int separator = lines.IndexOf("----------");
            List<string> head = [.. lines.Skip(1).Take(separator - 1).SkipWhile(l => l.StartsWith('#'))];
            var limits = new Http1Limits();
            if (head.Count > 0 && head[0].StartsWith("limits ", StringComparison.Ordinal))
            {
                limits = ParseLimits(head[0]);
                head.RemoveAt(0);
            }

            List<string> expected = [.. lines.Skip(separator + 1).Where(l => l.Length > 0)];
            byte[] bytes = [.. head.SelectMany(EscapedBytes.Parse)];
            yield return new Http1Vector(file, title[0], title[1], ClassOf(title), limits, bytes, expected[0], [.. expected.Skip(1).Select(Normal)]);
        }
    }

    // "hostile 07", or nothing.
    private static int ClassOf(string[] title) => title.Length < 3 ? 0 : int.Parse(title[2].AsSpan("hostile ".Length), CultureInfo.InvariantCulture);

    // Facts are compared in their escaped spelling.
    private static string Normal(string fact) => EscapedBytes.Format(EscapedBytes.Parse(fact));

    private static Http1Limits ParseLimits(string line)
    {
        var limits = new Http1Limits();
        foreach (string[] pair in line.Split(' ').Skip(1).Select(p => p.Split('=')))
        {
            int value = int.Parse(pair[1], CultureInfo.InvariantCulture);
            limits = pair[0] switch
            {
                "line" => limits with { RequestLineMax = value },
                "bytes" => limits with { HeaderBytesMax = value },
                "count" => limits with { HeaderCountMax = value },
                "dots" => limits with { RefusesDotSegments = value != 0 },
                _ => throw new FormatException(line),
            };
        }

        return limits;
    }
}
