// Files of known sizes and deterministic bytes for /file: one byte, one pipe's worth, and more than a socket's buffers hold.
namespace Millrace.Interop.Apps;

public sealed class SampleFiles
{
    private readonly string _directory;

    public SampleFiles(string directory)
    {
        _directory = directory;
        foreach (int size in Sizes)
        {
            File.WriteAllBytes(PathOf(size), DeterministicBytes.Create(size));
        }
    }

    public static IReadOnlyList<int> Sizes { get; } = [1, 65_536, 8_388_611];

    public string PathOf(int size) => Path.Combine(_directory, $"{size}.bin");
}
