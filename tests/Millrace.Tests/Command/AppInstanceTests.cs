// What is said when a process of an application cannot be started.

using Millrace.Command.Serving;
using Millrace.Platform;

namespace Millrace.Tests.Command;

public sealed class AppInstanceTests
{
    [Theory]
    [InlineData(SystemCalls.EMFILE, null, "LimitNOFILE=")]
    [InlineData(SystemCalls.ENFILE, "shop", "LimitNOFILE=")]
    [InlineData(SystemCalls.EAGAIN, null, "TasksMax=")]
    [InlineData(SystemCalls.ENOMEM, null, "TasksMax=")]
    [InlineData(SystemCalls.E2BIG, "shop", "\"environment\" are longer than")]
    [InlineData(2, null, "Publish the application again.")]
    [InlineData(1, "shop", "The user must exist")]
    public void The_cure_is_for_what_was_lacking(int errno, string? user, string cure) =>
        Assert.Contains(cure, AppInstance.Cure(errno, user), StringComparison.Ordinal);
}
