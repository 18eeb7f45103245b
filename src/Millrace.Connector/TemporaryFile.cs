// A file for what does not fit into memory, where ASP.NET Core puts bodies too. Nobody else can open it, and it ends with its handle.

using Microsoft.Win32.SafeHandles;
using Millrace.Platform;

namespace Millrace.Connector;

internal static class TemporaryFile
{
    public static string Folder() => Environment.GetEnvironmentVariable("ASPNETCORE_TEMP") ?? Path.GetTempPath();

    /// <exception cref="IOException">There is none.</exception>
    public static SafeFileHandle MakeIn(string folder)
    {
        string name = "millrace-" + Path.GetRandomFileName();
        if (!OperatingSystem.IsLinux())     // elsewhere applications are written, and not visited
        {
            return File.OpenHandle(Path.Combine(folder, name), FileMode.CreateNew, FileAccess.ReadWrite, FileShare.None, FileOptions.DeleteOnClose);
        }
        return NamelessFile.Make(folder, name, out int errno) ?? throw new IOException($"No file can be made in {folder}: {ServedFile.Describe(errno)}");
    }
}
