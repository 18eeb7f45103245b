// The repository around the tests.

namespace Millrace.Tests.Tidy;

internal static class Repository
{
    public static string Root { get; } = Find();

    public static string Read(string path) => File.ReadAllText(Path.Combine(Root, path));

    /// <summary>Source files below a folder, without what a build puts there.</summary>
    public static IEnumerable<string> Sources(string folder, string pattern = "*.cs") =>
        Directory.EnumerateFiles(Path.Combine(Root, folder), pattern, SearchOption.AllDirectories)
            .Where(static path => !path.Contains("/obj/", StringComparison.Ordinal) && !path.Contains("/bin/", StringComparison.Ordinal));

    private static string Find()
    {
        for (DirectoryInfo? folder = new(AppContext.BaseDirectory); folder is not null; folder = folder.Parent)
        {
            if (File.Exists(Path.Combine(folder.FullName, "Millrace.slnx")))
            {
                return folder.FullName;
            }
        }

        throw new DirectoryNotFoundException($"Millrace.slnx is in no folder above {AppContext.BaseDirectory}.");
    }
}
