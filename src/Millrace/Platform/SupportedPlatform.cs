// Where Millrace runs: Linux on x64 and arm64. The numbers and structures of SystemCalls are those of no other machine.

using System.Runtime.InteropServices;

namespace Millrace.Platform;

internal static class SupportedPlatform
{
    /// <summary>Refuses to go on where system calls would be given something else than they take.</summary>
    /// <exception cref="PlatformNotSupportedException">This is not Linux on x64 or arm64.</exception>
    public static void Require() => Require(RuntimeInformation.IsOSPlatform(OSPlatform.Linux), RuntimeInformation.ProcessArchitecture);

    internal static void Require(bool isLinux, Architecture process)
    {
        if (!isLinux)
        {
            throw new PlatformNotSupportedException("Millrace runs on Linux. Elsewhere use Kestrel for http://; FastCGI needs Linux.");
        }

        if (process is not (Architecture.X64 or Architecture.Arm64))
        {
            throw new PlatformNotSupportedException(
                $"Millrace runs on Linux for x64 and arm64 only, and this process is {process}; install the 64-bit .NET runtime and publish for linux-x64 or linux-arm64, or use Kestrel.");
        }
    }
}
