// Lines of somebody who may never end one.

using Millrace.Command.Serving;

namespace Millrace.Tests.Command;

public sealed class LineReaderTests
{
    [Theory]
    [InlineData("", "")]
    [InlineData("a", "a")]
    [InlineData("a\nb\n", "a|b")]
    [InlineData("a\r\nb\rc\n\nd", "a|b|c||d")]
    [InlineData("12345\n", "12345")]
    [InlineData("123456\nb", "12345 ...|b")]
    public async Task Lines_end_as_they_do_everywhere_and_long_ones_are_cut(string text, string lines)
    {
        foreach (int part in (int[])[1, 2, 3, 1000])
        {
            Assert.Equal(lines, string.Join('|', await ReadAllAsync(new InParts(text, part), max: 5)));
        }
    }

    [Fact]
    public async Task A_line_without_an_end_takes_the_memory_of_its_beginning()
    {
        long before = GC.GetAllocatedBytesForCurrentThread();
        List<string> lines = await ReadAllAsync(new InParts(new string('x', 64_000_000), 4096), max: 5);

        Assert.Equal(["xxxxx ..."], lines);
        Assert.InRange(GC.GetAllocatedBytesForCurrentThread() - before, 0, 140_000_000);      // the text itself, and next to nothing else
    }

    private static async Task<List<string>> ReadAllAsync(TextReader text, int max)
    {
        var reader = new LineReader(text, max);
        List<string> lines = [];
        while (await reader.ReadAsync(TestContext.Current.CancellationToken) is { } line)
        {
            lines.Add(line);
        }
        return lines;
    }

    private sealed class InParts(string text, int part) : TextReader
    {
        private int _at;

        public override ValueTask<int> ReadAsync(Memory<char> buffer, CancellationToken cancellationToken = default)
        {
            int count = Math.Min(Math.Min(part, buffer.Length), text.Length - _at);
            text.AsSpan(_at, count).CopyTo(buffer.Span);
            _at += count;
            return new(count);
        }
    }
}
