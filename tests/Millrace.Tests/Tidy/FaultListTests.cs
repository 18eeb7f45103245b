// The lists of faults in tests/mutants follow the source, and what survived is explained. Whether tests find the faults is for
// ./check mutants.

using System.Text.RegularExpressions;

namespace Millrace.Tests.Tidy;

public sealed class FaultListTests
{
    private sealed record Fault(string File, string Name, List<string> Find, List<string> Reason)
    {
        public string Key => $"{File}: {Name}";

        // Indentation and blank lines between the lines do not count.
        public int CountIn(string text) => Regex.Count(text, string.Join(@"\s*\n\s*", Find.Select(static line => Regex.Escape(line.Trim()))));
    }

    private static readonly string[] s_folders = ["Connections", "Exchanges", "Framing", "Loops", "AspNetCore", "Protocols"];

    private static string PathOf(string file) => file.StartsWith("Protocols/", StringComparison.Ordinal) ? $"src/Millrace.{file}" : $"src/Millrace/{file}";

    [Fact]
    public void Every_fault_can_be_put_into_the_source_in_exactly_one_place()
    {
        string[] lost = [.. Read().Where(static fault => fault.Find.Count == 0 || fault.CountIn(Repository.Read(PathOf(fault.File))) != 1).Select(static fault => fault.Key)];
        Assert.True(lost.Length == 0, "the text of these faults is not in the file exactly once; write them anew: " + string.Join("; ", lost));
    }

    [Fact]
    public void Every_folder_of_the_core_has_faults_and_there_are_a_hundred_at_least()
    {
        List<Fault> faults = Read();
        Assert.True(faults.Count >= 100, $"{faults.Count} faults");
        Assert.Equal(faults.Count, faults.Select(static fault => fault.Key).Distinct().Count());
        Assert.All(s_folders, folder => Assert.Contains(faults, fault => fault.File.StartsWith(folder + "/", StringComparison.Ordinal)));
    }

    [Fact]
    public void Every_fault_that_no_test_finds_has_a_reason_why_none_can()
    {
        Dictionary<string, Fault> faults = Read().ToDictionary(static fault => fault.Key);
        string[] silent = [.. File.ReadLines(Path.Combine(Repository.Root, "tests/mutants/results.tsv"))
            .Where(static line => !line.StartsWith('#'))
            .Select(static line => line.Split('\t'))
            .Where(result => result[1] == "survived" && faults.TryGetValue(result[0], out Fault? fault) && fault.Reason.Count == 0)
            .Select(static result => result[0])];
        Assert.True(silent.Length == 0, "write a test that finds these faults, take the code out, or say why no test can tell: " + string.Join("; ", silent));
    }

    private static List<Fault> Read()
    {
        var faults = new List<Fault>();
        string file = "";
        foreach (string line in Repository.Sources("tests/mutants", "*.faults").SelectMany(File.ReadLines))
        {
            string text = line.Length > 2 ? line[2..] : "";
            switch (line.Length > 2 ? line[..2] : "")
            {
                case "fi":
                    file = line["file ".Length..].Trim();
                    break;
                case "* ":
                    faults.Add(new Fault(file, text.Trim(), [], []));
                    break;
                case "- ":
                    faults[^1].Find.Add(text);
                    break;
                case "= ":
                    faults[^1].Reason.Add(text);
                    break;
            }
        }

        return faults;
    }
}
