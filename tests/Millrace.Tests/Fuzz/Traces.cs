// What real front servers sent, as recorded in tests/traces: NAME-PROTOCOL-WHAT.bin, the bytes of one connection.

using Millrace.Tests.Tidy;

namespace Millrace.Tests.Fuzz;

internal static class Traces
{
    public static IEnumerable<byte[]> Of(string protocol)
    {
        string folder = Path.Combine(Repository.Root, "tests", "traces");
        return Directory.Exists(folder)
            ? Directory.GetFiles(folder, $"*-{protocol}-*.bin").Order(StringComparer.Ordinal).Select(File.ReadAllBytes)
            : [];
    }
}
