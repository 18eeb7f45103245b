// Programs of the system that the tests use, as real clients.

namespace Millrace.Browser;

internal static class Programs
{
    private static readonly string[] s_folders = ["/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin"];

    /// <summary>The program's full path, or a failure that says how to install it.</summary>
    /// <exception cref="FileNotFoundException">It is not installed.</exception>
    public static string Find(string name, string package) =>
        s_folders.Select(folder => Path.Combine(folder, name)).FirstOrDefault(File.Exists)
        ?? throw new FileNotFoundException($"These tests need a real {name}: run `apt-get install {package}`.");
}
