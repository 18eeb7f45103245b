// How much the daemon reads of what an application answers to its questions.

using Millrace.Command.Serving;

namespace Millrace.Tests.Command;

public sealed class AnswerReadingTests
{
    private readonly CancellationToken _ct = TestContext.Current.CancellationToken;

    [Theory]
    [InlineData(AnswerReading.HealthBytesMax, "1 MiB")]
    [InlineData(AnswerReading.WarmUpBytesMax, "64 MiB")]
    public async Task An_answer_is_read_up_to_its_limit_and_no_further(int most, string said)
    {
        using var whole = new StreamContent(new Zeros(most));
        await AnswerReading.PassOverAsync(whole, "/health", most, _ct);

        var zeros = new Zeros(long.MaxValue);
        using var endless = new StreamContent(zeros);
        var failure = await Assert.ThrowsAsync<InstanceException>(() => AnswerReading.PassOverAsync(endless, "/health", most, _ct));
        Assert.Equal($"/health answers with more than {said}. Name a path whose answer is short.", failure.Message);
        Assert.InRange(zeros.Given, most + 1L, most + 128 * 1024);

        using var more = new StreamContent(new Zeros(most + 1L));
        await Assert.ThrowsAsync<InstanceException>(() => AnswerReading.PassOverAsync(more, "/health", most, _ct));
    }

    private sealed class Zeros(long length) : Stream
    {
        public long Given { get; private set; }

        public override bool CanRead => true;

        public override bool CanSeek => false;

        public override bool CanWrite => false;

        public override long Length => throw new NotSupportedException();

        public override long Position { get => throw new NotSupportedException(); set => throw new NotSupportedException(); }

        public override int Read(byte[] buffer, int offset, int count) => Read(buffer.AsSpan(offset, count));

        public override int Read(Span<byte> buffer)
        {
            int count = (int)Math.Min(buffer.Length, length - Given);
            Given += count;
            return count;
        }

        public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default) => ValueTask.FromResult(Read(buffer.Span));

        public override void Flush()
        {
        }

        public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

        public override void SetLength(long value) => throw new NotSupportedException();

        public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();
    }
}
