// A folder of the trees of control groups. There are no links in them, and whoever may change them may do so anyway: paths lead where they say.

using System.Globalization;
using System.Text;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal static unsafe class ControlFolder
{
    private const uint Mode = 0x1ED;                // 0755
    private const int RemoveDirectory = 0x200;      // AT_REMOVEDIR
    private const int ReadMax = 1024 * 1024;

    /// <summary>Makes it, unless it is there. The answer is why it cannot be made, or null.</summary>
    public static string? TryMake(string path)
    {
        fixed (byte* at = FileFacts.Encode(path))
        {
            return SystemCalls.MakeDirectoryAt(SystemCalls.AT_FDCWD, at, Mode) == 0 || SystemCalls.Errno == SystemCalls.EEXIST ? null : Failure(path);
        }
    }

    /// <summary>False: something is still in it, or it is not ours to remove. One that is not there is removed.</summary>
    public static bool TryRemove(string path)
    {
        fixed (byte* at = FileFacts.Encode(path))
        {
            return SystemCalls.UnlinkAt(SystemCalls.AT_FDCWD, at, RemoveDirectory) == 0 || SystemCalls.Errno == SystemCalls.ENOENT;
        }
    }

    /// <summary>Writes a value into one of its files. The answer is why it cannot be written, or null.</summary>
    public static string? TryWrite(string folder, string file, string value)
    {
        string path = Path.Combine(folder, file);
        int descriptor;
        fixed (byte* at = FileFacts.Encode(path))
        {
            descriptor = SystemCalls.OpenAt(SystemCalls.AT_FDCWD, at, SystemCalls.O_WRONLY | SystemCalls.O_CLOEXEC | SystemCalls.ArchitectureNumbers.Here.O_NOFOLLOW);
        }
        if (descriptor < 0)
        {
            return Failure(path);
        }
        byte[] bytes = Encoding.ASCII.GetBytes(value);
        fixed (byte* at = bytes)
        {
            string? failure = SystemCalls.Write(descriptor, at, bytes.Length) == bytes.Length ? null : Failure(string.Create(CultureInfo.InvariantCulture, $"{path} ({value})"));
            _ = SystemCalls.Close(descriptor);
            return failure;
        }
    }

    /// <summary>What a file of it says; empty where it cannot be read.</summary>
    public static string Read(string folder, string file)
    {
        try
        {
            using var reader = new StreamReader(Path.Combine(folder, file));
            char[] text = new char[ReadMax];
            return new string(text, 0, reader.ReadBlock(text));
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            return "";
        }
    }

    private static string Failure(string what) => $"{what}: {SystemCalls.Describe(SystemCalls.Errno)}";
}
