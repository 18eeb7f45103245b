// The stacks of a process as a person reads them.

using Millrace.Command.Stacks;

namespace Millrace.Tests.Command;

public sealed class StackTextTests
{
    private static readonly string[] s_idle = ["System.Threading.LowLevelLifoSemaphore.WaitForSignal(Int32)", "System.Threading.PortableThreadPool+WorkerThread.WorkerThreadStart()"];

    [Fact]
    public void Threads_that_do_the_same_stand_together_the_most_first() => Assert.Equal(
        [
            "2 threads (3, 4)", "    at Shop.Lock()", "    at Shop.Main()",
            "1 thread (1)", "    at Shop.Main()",
            "2 threads of the thread pool: no work",
        ],
        StackText.Lines([new(1, ["Shop.Main()"]), new(2, s_idle), new(3, ["Shop.Lock()", "Shop.Main()"]), new(4, ["Shop.Lock()", "Shop.Main()"]), new(5, s_idle), new(6, [])]));

    [Fact]
    public void A_thread_of_the_pool_that_works_is_told() =>
        Assert.Equal(["1 thread (2)", "    at Shop.Work()", "    at " + s_idle[1]], StackText.Lines([new(2, ["Shop.Work()", s_idle[1]])]));

    [Fact]
    public void Many_threads_are_counted_and_the_first_are_named() =>
        Assert.Equal("9 threads (1, 2, 3, 4, 5, 6, 7, 8, ...)", StackText.Lines([.. Enumerable.Range(1, 9).Select(static number => new ThreadStack(number, ["Shop.Lock()"]))])[0]);

    [Theory]
    [InlineData(125, 250)]      // two lines each
    [InlineData(126, 250)]
    public void More_lines_than_anybody_reads_are_counted(int threads, int lines)
    {
        var told = StackText.Lines([.. Enumerable.Range(1, threads).Select(static number => new ThreadStack(number, [$"Shop.M{number}()"]))]);
        Assert.Equal(lines, told.Count);
        Assert.Equal(threads == 125 ? "    at Shop.M125()" : "... and 3 lines more", told[^1]);
    }

    [Fact]
    public async Task What_is_no_process_of_dotnet_has_none()
    {
        using var sleeper = System.Diagnostics.Process.Start("sleep", "100");
        try
        {
            var failure = await Assert.ThrowsAsync<Millrace.Command.CommandFailure>(() => ThreadStacks.ReadAsync(sleeper.Id, TestContext.Current.CancellationToken));
            Assert.StartsWith($"The stacks of process {sleeper.Id} cannot be had: ", failure.Message, StringComparison.Ordinal);
        }
        finally
        {
            sleeper.Kill();
        }
    }
}
