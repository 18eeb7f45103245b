// The table of docs/front-ends.md, read off the classes that run the end-to-end list: a row for each item, a column for
// each front end and protocol. A cell is true because the test it stands for runs: the item itself, or the override that
// asserts the deviation. Not here: the text around the table.
using System.Reflection;
using System.Text;
using System.Text.RegularExpressions;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Table;

internal sealed partial class FrontEndTable
{
    private static readonly string[] s_sections = ["Requests", "Bodies", "Streaming", "Faults", "Load"];

    private readonly List<Column> _columns;
    private readonly List<Note> _notes = [];

    private FrontEndTable(IEnumerable<Type> classes)
    {
        _columns =
        [
            .. classes.Select(static type => (Type: type, Rig: RigOf(type)))
                .GroupBy(static run => $"{run.Rig.Program.Title}, {ProtocolName(run.Rig.Declared.Protocol)}")
                .Select(static group => new Column(group.Key, [.. group.Select(static run => new Run(run.Type, run.Rig.Declared))]))
                .OrderBy(static column => column.Title, StringComparer.OrdinalIgnoreCase),
        ];
    }

    /// <summary>The table of every class of this assembly that runs the end-to-end list, in Markdown.</summary>
    public static string Render()
    {
        IEnumerable<Type> classes = typeof(EndToEndList).Assembly.GetTypes()
            .Where(static type => type is { IsAbstract: false } && type.IsSubclassOf(typeof(EndToEndList)))
            .OrderBy(static type => type.Name, StringComparer.Ordinal);
        return new FrontEndTable(classes).RenderAll();
    }

    /// <summary>The name of a test as a sentence.</summary>
    internal static string Sentence(string test)
    {
        string text = Clause().Replace(test, static match => match.Groups["rfc"].Success
            ? $" (RFC {match.Groups["rfc"].Value}, {match.Groups["number"].Value.Trim('_').Replace('_', '.')})"
            : $" (CVE-{match.Groups["cve"].Value.Replace('_', '-')})");
        return text.Replace('_', ' ').Replace("FastCgi", "FastCGI", StringComparison.Ordinal);
    }

    private string RenderAll()
    {
        var text = new StringBuilder();
        text.Append("| behind | sockets | connections to the application |\n|---|---|---|\n");
        foreach (Column column in _columns)
        {
            text.Append("| ").Append(column.Title)
                .Append(" | ").AppendJoin(", ", column.Runs.Select(static run => TransportName(run.Combination)).Distinct())
                .Append(" | ").AppendJoin(", ", column.Runs.Select(static run => ConnectionsName(run.Combination)).Distinct())
                .Append(" |\n");
        }

        foreach (string section in s_sections)
        {
            text.Append("\n### ").Append(section).Append("\n| |");
            foreach (Column column in _columns)
            {
                text.Append(' ').Append(column.Title).Append(" |");
            }

            text.Append("\n|---|").Insert(text.Length, "---|", _columns.Count).Append('\n');
            foreach (MethodInfo item in ItemsOf(section))
            {
                text.Append("| ").Append(Sentence(item.Name)).Append(" |");
                foreach (Column column in _columns)
                {
                    text.Append(' ').Append(Cell(column, item.Name)).Append(" |");
                }

                text.Append('\n');
            }
        }

        text.Append("\n### Notes\n");
        for (int i = 0; i < _notes.Count; i++)
        {
            text.Append($"{i + 1}. {_notes[i].Title}: {_notes[i].Reason}\n");
        }

        return text.ToString();
    }

    // "yes" where every run passes the item itself; else the numbers of the notes.
    private string Cell(Column column, string item)
    {
        var deviations = column.Runs
            .Select(run => (Run: run, Reason: run.Type.GetMethod(item)!.GetCustomAttribute<DeviationAttribute>()?.Reason))
            .Where(static run => run.Reason is not null)
            .GroupBy(static run => run.Reason!)
            .ToList();
        return deviations.Count == 0
            ? "yes"
            : string.Join(", ", deviations.Select(group => NoteNumber(column, [.. group.Select(static run => run.Run)], group.Key)));
    }

    private int NoteNumber(Column column, IReadOnlyList<Run> runs, string reason)
    {
        string where = runs.Count == column.Runs.Count
            ? ""
            : $" ({string.Join("; ", runs.Select(static run => $"{TransportName(run.Combination)}, {ConnectionsName(run.Combination)}"))})";
        var note = new Note(column.Title + where, reason);
        int index = _notes.IndexOf(note);
        if (index < 0)
        {
            index = _notes.Count;
            _notes.Add(note);
        }

        return index + 1;
    }

    // In the order of the source: the attribute knows the place it was written at.
    private static IEnumerable<MethodInfo> ItemsOf(string section) =>
        typeof(EndToEndList).GetMethods(BindingFlags.Public | BindingFlags.Instance | BindingFlags.DeclaredOnly)
            .Select(static method => (Method: method, Fact: method.GetCustomAttribute<FactAttribute>()))
            .Where(item => item.Fact?.SourceFilePath?.EndsWith($"EndToEndList.{section}.cs", StringComparison.Ordinal) is true)
            .OrderBy(static item => item.Fact!.SourceLineNumber)
            .Select(static item => item.Method);

    private static EndToEndRig RigOf(Type type)
    {
        Type fixture = type.GetInterfaces().Single(static i => i.IsGenericType && i.GetGenericTypeDefinition() == typeof(IClassFixture<>));
        return (EndToEndRig)Activator.CreateInstance(fixture.GenericTypeArguments[0])!;
    }

    private static string ProtocolName(AppProtocol protocol) => protocol == AppProtocol.FastCgi ? "FastCGI" : "HTTP";

    private static string TransportName(Combination combination) => combination.Transport == Transport.Tcp ? "TCP" : "Unix";

    private static string ConnectionsName(Combination combination) =>
        combination.Connections == UpstreamConnections.KeptAlive ? "kept" : "one per request";

    private sealed record Run(Type Type, Combination Combination);

    private sealed record Column(string Title, IReadOnlyList<Run> Runs);

    private sealed record Note(string Title, string Reason);

    [GeneratedRegex("_(RFC(?<rfc>[0-9]+)(?<number>(_[0-9]+)+)|CVE_(?<cve>[0-9]+_[0-9]+))$")]
    private static partial Regex Clause();
}
