// What processes print, as text, where the one who reads may be another one between any two bytes.

using System.IO.Pipes;
using System.Text;
using Millrace.Command.Serving;

namespace Millrace.Tests.Command;

public sealed class PipeTextTests
{
    private const string Text = "a ä € 𝄞 z\nµ\n";

    [Fact]
    public async Task Reading_goes_on_wherever_it_has_ended()
    {
        byte[] bytes = Encoding.UTF8.GetBytes(Text);
        for (int cut = 0; cut < bytes.Length; cut++)
        {
            var first = new PipeText(new Unfinished(bytes[..cut]), []);
            var lines = new LineReader(first, 100);
            List<string> read = [];
            await Assert.ThrowsAsync<OperationCanceledException>(async () =>
            {
                while (await lines.ReadAsync(TestContext.Current.CancellationToken) is { } line)
                {
                    read.Add(line);
                }
            });
            byte[] rest = [.. Encoding.UTF8.GetBytes(lines.Rest), .. first.Rest];
            lines = new LineReader(new PipeText(new MemoryStream(bytes[cut..]), rest), 100);
            while (await lines.ReadAsync(TestContext.Current.CancellationToken) is { } line)
            {
                read.Add(line);
            }
            Assert.Equal(["a ä € 𝄞 z", "µ"], read);
        }
    }

    [Theory]
    [InlineData(new byte[] { 0x61, 0xC3 }, 1)]
    [InlineData(new byte[] { 0x61, 0xC3, 0xA4 }, 3)]
    [InlineData(new byte[] { 0xE2, 0x82 }, 0)]
    [InlineData(new byte[] { 0xF0, 0x9D, 0x84 }, 0)]
    [InlineData(new byte[] { 0x80, 0x80, 0x80, 0x80 }, 4)]      // never a character
    [InlineData(new byte[] { }, 0)]
    public void What_has_begun_and_may_still_become_a_character_waits(byte[] bytes, int whole) => Assert.Equal(whole, PipeText.WholeOf(bytes));

    // Whoever writes down what there is asks at any time, also when the last line has just been read.
    [Fact]
    public async Task The_number_of_a_pipe_can_be_asked_for_while_it_ends()
    {
        await using var pipe = new AnonymousPipeServerStream(PipeDirection.Out);
        using var pump = new OutputPump(new AnonymousPipeClientStream(PipeDirection.In, pipe.ClientSafePipeHandle), [], static _ => ValueTask.CompletedTask, new PipeRoom(0));
        Assert.NotEqual(-1, pump.Descriptor);
        pump.Dispose();
        _ = pump.Descriptor;
        pump.Begin();
        await pump.Ended.WaitAsync(TestContext.Current.CancellationToken);
        Assert.Equal(-1, pump.Descriptor);
    }

    // Where there is nothing yet somebody gives up waiting.
    private sealed class Unfinished(byte[] bytes) : MemoryStream(bytes)
    {
        public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default) =>
            Position < Length ? base.ReadAsync(buffer, cancellationToken) : throw new OperationCanceledException();
    }
}
