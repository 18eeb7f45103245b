// What a daemon prints, for a reader who may stand still.

using System.Text;
using Millrace.Command.Terminals;

namespace Millrace.Tests.Command;

public sealed class SteadyOutputTests
{
    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(30);

    [Fact]
    public async Task Nobody_waits_for_a_reader_who_stands_still_and_what_is_lost_is_said()
    {
        using var output = new PausedStream();
        using var error = new MemoryStream();
        var steady = new SteadyOutput(output, error);

        for (int i = 0; i < 3_000; i++)
        {
            await steady.PrintAsync("line").AsTask().WaitAsync(Patience, TestContext.Current.CancellationToken);
        }
        steady.Print("shop: generation 2 serves");
        steady.Say("stopping");
        await steady.FlushAsync(TimeSpan.FromMilliseconds(50));
        Assert.Equal(0, output.Length);

        output.Resume();
        await steady.FlushAsync(Patience);
        string[] lines = Encoding.UTF8.GetString(output.ToArray()).Split('\n', StringSplitOptions.RemoveEmptyEntries);
        Assert.Equal("shop: generation 2 serves", lines[1]);
        Assert.InRange(lines.Length, 1_000, 1_010);
        Assert.Equal(3_001 - lines.Length, int.Parse(Encoding.UTF8.GetString(error.ToArray()).Split('\n')[1].Split(' ')[1], System.Globalization.CultureInfo.InvariantCulture));
    }

    [Fact]
    public async Task A_reader_who_reads_gets_every_line()
    {
        using var output = new MemoryStream();
        var steady = new SteadyOutput(output, Stream.Null);
        await Task.WhenAll(Enumerable.Range(0, 4).Select(async client =>
        {
            for (int i = 0; i < 2_000; i++)
            {
                await steady.PrintAsync("line");
            }
        }));
        await steady.FlushAsync(Patience);

        Assert.Equal(8_000, Encoding.UTF8.GetString(output.ToArray()).Count(static c => c == '\n'));
    }

    private sealed class PausedStream : MemoryStream
    {
        private readonly ManualResetEventSlim _resumed = new();

        public void Resume() => _resumed.Set();

        public override void Write(byte[] buffer, int offset, int count)
        {
            _resumed.Wait();
            base.Write(buffer, offset, count);
        }

        public override void Write(ReadOnlySpan<byte> buffer) => Write(buffer.ToArray(), 0, buffer.Length);

        protected override void Dispose(bool disposing)
        {
            _resumed.Dispose();
            base.Dispose(disposing);
        }
    }
}
