// Another user of the same machine: commands run as nobody where the tests run as root, else as whoever runs them, who then plays both parts.

using System.Diagnostics;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Listeners;

internal static unsafe class AnotherUser
{
    private const uint Nobody = 65534;

    public static bool Exists => SystemCalls.GetEffectiveUser() == 0;

    /// <summary>Runs a line of the shell as that user; it must succeed.</summary>
    public static void Run(string line)
    {
        string number = Nobody.ToString(System.Globalization.CultureInfo.InvariantCulture);
        ProcessStartInfo start = Exists
            ? new("setpriv", ["--reuid", number, "--regid", number, "--clear-groups", "sh", "-c", line])
            : new("sh", ["-c", line]);
        Run(start, line);
    }

    /// <summary>Runs a line of the shell as whoever runs the tests; it must succeed.</summary>
    public static void RunAsThis(string line) => Run(new("sh", ["-c", line]), line);

    private static void Run(ProcessStartInfo start, string line)
    {
        start.RedirectStandardError = true;
        using Process process = Process.Start(start)!;
        string errors = process.StandardError.ReadToEnd();
        process.WaitForExit();
        Assert.True(process.ExitCode == 0, $"{line}: {errors}");
    }

    /// <summary>Makes a file that user's; nothing where there is no other user.</summary>
    public static void Give(string path)
    {
        if (!Exists)
        {
            return;
        }

        int descriptor = SocketDirectory.OpenEntry(SystemCalls.AT_FDCWD, path, out int errno);
        Assert.Equal(0, errno);
        Assert.Equal(0, SystemCalls.ChangeOwner(descriptor, Nobody, Nobody));
        _ = SystemCalls.Close(descriptor);
    }
}
