// The reading ends of what applications print: each has an open file of its own.

using System.IO.Pipes;
using Millrace.Command.Serving;
using Millrace.Platform;

namespace Millrace.Tests.Command;

public sealed class PipeEndTests
{
    private const int GetFlags = 3;     // F_GETFL
    private const int SetFlags = 4;     // F_SETFL

    // fcntl(2): the flags are of the open file, whatever number it has in which process.
    [Fact]
    public void That_another_process_has_its_pipe_block_is_no_matter_of_the_daemons()
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        using var pipe = new AnonymousPipeServerStream(PipeDirection.In);
        int own = (int)pipe.SafePipeHandle.DangerousGetHandle();
        int given = PipeEnd.Another(own);
        Assert.True(given >= 0);
        try
        {
            _ = SystemCalls.Fcntl(own, SetFlags, SystemCalls.O_NONBLOCK);
            Assert.Equal(SystemCalls.O_NONBLOCK, SystemCalls.Fcntl(given, GetFlags, 0) & SystemCalls.O_NONBLOCK);
            _ = SystemCalls.Fcntl(given, SetFlags, 0);
            Assert.Equal(SystemCalls.O_NONBLOCK, SystemCalls.Fcntl(own, GetFlags, 0) & SystemCalls.O_NONBLOCK);

            Assert.True(PipeEnd.TryRenew(given));       // as the next daemon does
            Assert.Equal(SystemCalls.O_NONBLOCK, SystemCalls.Fcntl(given, GetFlags, 0) & SystemCalls.O_NONBLOCK);
        }
        finally
        {
            _ = SystemCalls.Close(given);
        }
    }

    // More than are read close the oldest at any moment, and its number is another's then.
    [Fact]
    public void Of_a_pipe_that_is_closed_nobody_is_given_another_end_whoever_has_its_number()
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        var pipe = new AnonymousPipeServerStream(PipeDirection.In);
        int number = (int)pipe.SafePipeHandle.DangerousGetHandle();
        using var pump = new OutputPump(pipe, [], static _ => default, new PipeRoom(0));
        int end = pump.Another();
        Assert.True(end >= 0);
        _ = SystemCalls.Close(end);
        pump.Dispose();
        using var others = new AnonymousPipeServerStream(PipeDirection.In);
        _ = SystemCalls.Dup3((int)others.SafePipeHandle.DangerousGetHandle(), number, SystemCalls.O_CLOEXEC);

        Assert.Equal(-1, pump.Another());
        _ = SystemCalls.Close(number);
    }

    [Fact]
    public void What_is_no_pipe_or_has_a_name_is_not_opened()
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        string folder = Directory.CreateTempSubdirectory("millrace-test-").FullName;
        try
        {
            string named = Path.Combine(folder, "fifo");
            using (var make = System.Diagnostics.Process.Start("mkfifo", named))
            {
                make.WaitForExit();
            }

            foreach (string path in (string[])[named, "/dev/null", "/proc/self/status"])
            {
                int descriptor = SystemCalls.Open(path, SystemCalls.O_NONBLOCK | SystemCalls.O_CLOEXEC);
                Assert.True(descriptor >= 0, path);
                Assert.Equal(-1, PipeEnd.Another(descriptor));
                Assert.False(PipeEnd.TryRenew(descriptor));
                _ = SystemCalls.Close(descriptor);
            }
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }
}
