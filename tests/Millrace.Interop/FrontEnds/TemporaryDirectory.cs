// A directory that exists as long as what uses it. Its path is short: a Unix socket's path may have 107 bytes only.
namespace Millrace.Interop.FrontEnds;

public sealed class TemporaryDirectory(string purpose) : IDisposable
{
    public string Path { get; } = Directory.CreateTempSubdirectory($"millrace-{purpose}-").FullName;

    public void Dispose() => Directory.Delete(Path, recursive: true);
}
