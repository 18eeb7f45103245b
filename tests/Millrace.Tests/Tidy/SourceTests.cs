// What every source file keeps to.

using System.Text.RegularExpressions;

namespace Millrace.Tests.Tidy;

public sealed partial class SourceTests
{
    [Theory]
    [InlineData("src", 400)]
    [InlineData("samples", 400)]
    [InlineData("tests", 700)]
    public void No_source_file_is_too_long(string folder, int linesMax)
    {
        var long_ = Repository.Sources(folder).Select(static path => (Path: path, Lines: File.ReadLines(path).Count())).Where(file => file.Lines > linesMax);
        Assert.True(!long_.Any(), "split by concept: " + string.Join(", ", long_));
    }

    // The parts of a class are files whose names begin with its own. What does not depend on the kernel may be a class of the same name without a type parameter.
    [Theory]
    [InlineData("src/Millrace", 800)]
    [InlineData("src", 950)]
    public void No_class_is_too_long_in_all_its_parts(string folder, int linesMax)
    {
        var long_ = Repository.Sources(folder).GroupBy(static path => ClassOf(path))
            .Select(static parts => (Class: parts.Key, Lines: parts.Sum(static path => File.ReadLines(path).Count())))
            .Where(one => one.Lines > linesMax);
        Assert.True(!long_.Any(), "give what belongs together fields of its own: " + string.Join(", ", long_));
    }

    private static string ClassOf(string path)
    {
        string name = Path.GetFileName(path).Split('.')[0];
        bool isGeneric = File.ReadLines(path).Any(line => line.Contains($" class {name}<", StringComparison.Ordinal));
        return Path.Combine(Path.GetDirectoryName(path)!, isGeneric ? name + "<>" : name);
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
    [InlineData("Loops", "DriverThread.cs LoopMonitor.cs SpareThreads.cs")]      // which wait for what they are for, and say how they go on
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

    // It is the application's too: see Platform/BufferPool.cs.
    [Fact]
    public void Nothing_of_the_server_lies_in_a_pool_that_the_whole_process_shares()
    {
        IEnumerable<string> found = Repository.Sources("src/Millrace").Concat(Repository.Sources("src/Millrace.Protocols"))
            .Where(static path => File.ReadLines(path).Any(static line => SharedPool().IsMatch(line)));
        Assert.True(!found.Any(), "take BufferPool instead: " + string.Join(", ", found));
    }

    [GeneratedRegex(@"^(?!\s*//).*\b(ArrayPool|MemoryPool)<\w+>\.Shared\b")]
    private static partial Regex SharedPool();

    [GeneratedRegex(@"\block \(|\bnew Lock\(|\bLock _|\bConcurrentQueue<|\bConcurrentBag<|\bSemaphoreSlim\b|\bManualResetEventSlim\b|\bCountdownEvent\b|\bArrayPool<|\bThread\.Sleep\(|\bSpinOnce\(|\bSpinUntil\(|\bUnsafeQueueUserWorkItem\(|\bMonitor\.(Enter|Wait)\b")]
    private static partial Regex InterruptibleWait();

    [GeneratedRegex(@"\b(TODO|HACK|FIXME|XXX)\b")]
    private static partial Regex UnfinishedWork();

    [GeneratedRegex(@"\[(Fact|Theory)\([^)]*Skip\s*=")]
    private static partial Regex SkippedTest();
}
