// A folder for Unix sockets that goes with its test.

namespace Millrace.Tests.Stress;

internal sealed class SocketFolder : IDisposable
{
    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("millrace-");
    private int _last;

    /// <summary>An address nobody listens on yet.</summary>
    public string NewAddress(string scheme = "fastcgi") => $"{scheme}://unix:{_folder.FullName}/{Interlocked.Increment(ref _last)}.sock";

    public string PathOf(string name) => Path.Combine(_folder.FullName, name);

    public void Dispose() => _folder.Delete(recursive: true);
}
