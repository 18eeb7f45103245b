// What every source file keeps to.

using System.Text.RegularExpressions;

namespace Millrace.Tests.Tidy;

public sealed partial class SourceTests
{
    private const int LinesMax = 700;

    private static readonly string[] s_folders = ["src", "tests", "samples"];

    [Fact]
    public void No_source_file_is_longer_than_700_lines()
    {
        var long_ = s_folders.SelectMany(static folder => Repository.Sources(folder)).Select(static path => (Path: path, Lines: File.ReadLines(path).Count()))
            .Where(static file => file.Lines > LinesMax);
        Assert.True(!long_.Any(), "split by concept: " + string.Join(", ", long_));
    }

    [Fact]
    public void No_source_file_holds_a_note_about_unfinished_work()
    {
        IEnumerable<string> found = Repository.Sources("src").Where(static path => UnfinishedWork().IsMatch(File.ReadAllText(path)));
        Assert.True(!found.Any(), string.Join(", ", found));
    }

    [Fact]
    public void No_test_is_skipped()
    {
        IEnumerable<string> found = Repository.Sources("tests").Where(static path => SkippedTest().IsMatch(File.ReadAllText(path)));
        Assert.True(!found.Any(), string.Join(", ", found));
    }

    [Fact]
    public void A_source_file_opens_by_saying_what_it_is()
    {
        IEnumerable<string> silent = Repository.Sources("src").Where(static path =>
        {
            string text = File.ReadAllText(path);
            return File.ReadLines(path).Count() > 40 && !text.StartsWith("//", StringComparison.Ordinal);
        });
        Assert.True(!silent.Any(), string.Join(", ", silent));
    }

    // Threads that handlers run on may be interrupted (Thread.Interrupt) at any wait. Files named Steady hold what withstands that.
    [Theory]
    [InlineData("Loops", "DriverPool.cs LoopMonitor.cs SpareThreads.cs")]      // which wait for what they are for, and say how they go on
    [InlineData("Connections", "")]
    [InlineData("Exchanges", "")]
    [InlineData("Observe", "")]
    [InlineData("Platform", "")]
    public void Threads_of_the_server_wait_for_nothing_that_an_interruption_could_break_off(string folder, string exceptions)
    {
        IEnumerable<string> found = Repository.Sources($"src/Millrace/{folder}")
            .Where(path => !Path.GetFileName(path).StartsWith("Steady", StringComparison.Ordinal) && !exceptions.Split(' ').Contains(Path.GetFileName(path)))
            .SelectMany(static path => File.ReadLines(path).Where(static line => InterruptibleWait().IsMatch(line)).Select(line => $"{Path.GetFileName(path)}: {line.Trim()}"));
        Assert.True(!found.Any(), "take SteadyLock, SteadyQueue, Steady or SteadyPipe instead: " + string.Join("; ", found));
    }

    [GeneratedRegex(@"\block \(|\bnew Lock\(|\bLock _|\bConcurrentQueue<|\bConcurrentBag<|\bSemaphoreSlim\b|\bManualResetEventSlim\b|\bCountdownEvent\b|\bArrayPool<|\bThread\.Sleep\(|SpinOnce\(\)|\bSpinUntil\(|\bUnsafeQueueUserWorkItem\(|\bMonitor\.(Enter|Wait)\b")]
    private static partial Regex InterruptibleWait();

    [GeneratedRegex(@"\b(TODO|HACK|FIXME|XXX)\b")]
    private static partial Regex UnfinishedWork();

    [GeneratedRegex(@"\[(Fact|Theory)\([^)]*Skip\s*=")]
    private static partial Regex SkippedTest();
}
