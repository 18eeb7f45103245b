// Connections that no loop drives, to stand in wheels and tables.

using Millrace.Connections;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Loops;

internal static class IdleConnection
{
    public static Connection New(long deadlineMs = long.MaxValue) =>
        new FastCgiConnection<LinuxKernel>(null!, descriptor: -1, isTcp: false) { DeadlineMs = deadlineMs };
}
