// What is kept of an answer for a visitor who is slower than its program: in memory first, then in a file. He has every byte in its order, whatever is full, and nothing is left behind.

using System.Collections.Concurrent;
using System.Runtime.Versioning;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Win32.SafeHandles;
using Millrace.Connector;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Connector;

public sealed class AnswerAheadTests : IDisposable
{
    private const int Piece = 1_000;
    private const int InMemory = 4 * Piece;

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(20);
    private static readonly TimeSpan s_moment = TimeSpan.FromMilliseconds(100);

    private readonly SocketFolder _folder = new();
    private readonly ConcurrentQueue<string> _said = new();

    public void Dispose() => _folder.Dispose();

    private AnswerFiles Files(long bytesMax, Func<SafeFileHandle>? make = null) => new(bytesMax, TimeProvider.System, _said.Enqueue) { Make = make ?? (() => TemporaryFile.MakeIn(_folder.PathOf(""))) };

    [Fact]
    [SupportedOSPlatform("linux")]
    public async Task What_does_not_fit_into_memory_goes_on_into_a_file_that_is_nobody_elses_and_arrives_whole()
    {
        using var answer = new Answer(InMemory, Files(1 << 30));
        for (int i = 0; i < 500; i++)
        {
            await answer.WriteAsync().WaitAsync(s_patience);
        }
        string file = Assert.Single(OpenFiles());
        Assert.Equal(UnixFileMode.UserRead | UnixFileMode.UserWrite, File.GetUnixFileMode(file));
        Assert.Empty(Directory.GetFiles(_folder.PathOf("")));
        answer.WriteLast();
        Assert.False(answer.Ahead.Sent.IsCompleted);

        await answer.EndAsync();
        answer.Dispose();
        await NothingIsOpenAsync();
        Assert.Empty(_said);
    }

    // Four pieces in memory, ten in the file, and the last one from where it lies.
    [Theory]
    [InlineData(10 * Piece, false)]
    [InlineData((10 * Piece) - 1, true)]
    [InlineData(1, true)]
    [InlineData(0, true)]
    public async Task Where_the_files_are_full_the_visitor_is_waited_for_AnswerFilesMax(long bytesMax, bool waits)
    {
        AnswerFiles files = Files(bytesMax);
        using (var answer = new Answer(InMemory, files))
        {
            await AllWaitOrGoOnAsync(answer, waits);
            await answer.EndAsync();
        }
        await NothingIsOpenAsync();
        Assert.True(files.Room.TryTake(bytesMax));
        Assert.Equal(waits ? $"There is no room for it in {bytesMax} bytes (AnswerFilesMax)." : null, _said.SingleOrDefault());
    }

    [Fact]
    public async Task Without_files_the_visitor_is_waited_for()
    {
        using var answer = new Answer(InMemory, files: null);
        await AllWaitOrGoOnAsync(answer, waits: true);
        await answer.EndAsync();
    }

    [Fact]
    public async Task Where_no_file_can_be_made_the_visitor_is_waited_for()
    {
        using var answer = new Answer(InMemory, Files(1 << 30, () => TemporaryFile.MakeIn(_folder.PathOf("none"))));
        await AllWaitOrGoOnAsync(answer, waits: true);
        await answer.EndAsync();
        Assert.Equal($"No file can be made in {_folder.PathOf("none")}: ENOENT (no such file or directory).", Assert.Single(_said));
    }

    [Theory]
    [InlineData(0)]
    [InlineData(Piece)]
    [InlineData((5 * Piece) + 1)]
    [InlineData((10 * Piece) - 1)]
    public async Task Where_the_disk_is_full_the_visitor_is_waited_for(int disk)
    {
        using var answer = new Answer(InMemory, Files(1 << 30, () => SmallDisk.Make(disk)));
        await AllWaitOrGoOnAsync(answer, waits: true);
        await answer.EndAsync();
        _ = Assert.Single(_said);
    }

    [Fact]
    public async Task When_the_visitor_has_all_of_it_the_file_is_written_anew()
    {
        using var answer = new Answer(InMemory, Files(60 * Piece));
        for (int i = 0; i < 20; i++)
        {
            for (int j = 0; j < 14; j++)
            {
                await answer.WriteAsync().WaitAsync(s_patience);
            }
            answer.Visitor.GoOn();
            await answer.HasAllAsync();
            await Task.Delay(10);       // it is known to be empty a moment later
            answer.Visitor.Stop();
        }
        await answer.EndAsync();
        Assert.Empty(_said);
    }

    [Fact]
    public async Task Who_has_caught_up_keeps_no_room_from_others_AnswerFilesMax()
    {
        AnswerFiles files = Files(60 * Piece);
        using var answer = new Answer(InMemory, files);
        for (int j = 0; j < 14; j++)
        {
            await answer.WriteAsync().WaitAsync(s_patience);
        }
        Assert.False(files.Room.TryTake(60 * Piece));
        answer.Visitor.GoOn();
        for (var patience = DateTime.UtcNow + s_patience; !files.Room.TryTake(60 * Piece); await Task.Delay(1))
        {
            Assert.True(DateTime.UtcNow < patience);
            await answer.HasAllAsync();
            await answer.WriteAsync().WaitAsync(s_patience);
        }
        files.Room.Return(60 * Piece);
        await answer.EndAsync();
        Assert.True(files.Room.TryTake(60 * Piece));
    }

    // A program that says something now and then, to a visitor who waits for it.
    [Fact]
    public async Task What_has_come_is_sent_before_there_is_more()
    {
        using var answer = new Answer(InMemory, Files(1 << 30));
        for (int j = 0; j < 10; j++)
        {
            await answer.WriteAsync().WaitAsync(s_patience);
        }
        answer.Visitor.GoOn();
        for (int i = 0; i < 20; i++)
        {
            await answer.HasAllAsync();
            await answer.WriteAsync().WaitAsync(s_patience);
        }
        await answer.EndAsync();
    }

    [Fact]
    public async Task What_has_broken_off_is_not_sent_to_its_end()
    {
        using var answer = new Answer(InMemory, Files(1 << 30));
        for (int i = 0; i < 100; i++)
        {
            await answer.WriteAsync().WaitAsync(s_patience);
        }
        await answer.Ahead.StopAsync();
        Assert.True(answer.Ahead.Sent.IsCanceled);
        Assert.InRange(answer.Visitor.Taken, 0, (100 * Piece) - 1);
        answer.Dispose();
        await NothingIsOpenAsync();
    }

    [Fact]
    public async Task Who_has_left_is_not_written_for_any_more()
    {
        using var answer = new Answer(InMemory, Files(1 << 30));
        for (int i = 0; i < 100; i++)
        {
            await answer.WriteAsync().WaitAsync(s_patience);
        }
        answer.Visitor.Leave();
        await Assert.ThrowsAsync<IOException>(async () =>
        {
            for (var patience = DateTime.UtcNow + s_patience; DateTime.UtcNow < patience; await Task.Delay(1))
            {
                await answer.WriteAsync().WaitAsync(s_patience);
            }
        });
        answer.Dispose();
        await NothingIsOpenAsync();
    }

    [Fact]
    public async Task Who_leaves_while_he_is_waited_for_is_not_waited_for_any_more()
    {
        using var answer = new Answer(InMemory, Files(5 * Piece));
        Task writing = WriteAllAsync(answer);
        await Task.Delay(s_moment);
        Assert.False(writing.IsCompleted);
        answer.Visitor.Leave();
        await Assert.ThrowsAsync<IOException>(() => writing.WaitAsync(s_patience));
    }

    [Fact]
    public async Task A_call_that_is_given_up_waits_no_more()
    {
        using var giveUp = new CancellationTokenSource();
        using var answer = new Answer(InMemory, Files(5 * Piece)) { GivenUp = giveUp.Token };
        Task writing = WriteAllAsync(answer);
        await Task.Delay(s_moment);
        Assert.False(writing.IsCompleted);
        await giveUp.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => writing.WaitAsync(s_patience));
        await answer.Ahead.StopAsync();
    }

    [Fact]
    public async Task Nothing_is_left_of_thousands()
    {
        AnswerFiles files = Files(1 << 30);
        await Parallel.ForAsync(0, 2_000, async (i, _) =>
        {
            using var answer = new Answer(InMemory, files);
            for (int j = 0; j < 8; j++)
            {
                await answer.WriteAsync();
            }
            if (i % 3 == 0)
            {
                await answer.Ahead.StopAsync();
                return;
            }
            if (i % 3 == 1)
            {
                answer.Visitor.Leave();
                await answer.Ahead.StopAsync();
                return;
            }
            await answer.EndAsync();
        });
        await NothingIsOpenAsync();
        Assert.True(files.Room.TryTake(1 << 30));
        Assert.Empty(Directory.GetFiles(_folder.PathOf("")));
    }

    [Fact]
    public async Task Whatever_the_order_every_byte_arrives_once()
    {
        await Parallel.ForAsync(0, 150, async (seed, ct) =>
        {
            var random = new Random(seed);
            int disk = random.Next(200_000);
            AnswerFiles? files = random.Next(4) switch
            {
                0 => Files(random.Next(20_000)),
                1 => Files(1 << 30, () => SmallDisk.Make(disk)),
                2 => null,
                _ => Files(1 << 30),
            };
            using var answer = new Answer(random.Next(1, 10_000), files);
            answer.Visitor.GoOn(new Random(seed));
            for (int i = random.Next(300); i > 0; i--)
            {
                await answer.WriteAsync(random.Next(random.Next(5) == 0 ? 90_000 : 2_000)).WaitAsync(s_patience, ct);
                if (random.Next(20) == 0)
                {
                    await Task.Delay(random.Next(3), ct);
                }
            }
            await answer.EndAsync();
        });
        await NothingIsOpenAsync();
    }

    private static async Task WriteAllAsync(Answer answer)
    {
        for (int i = 0; i < 14; i++)
        {
            await answer.WriteAsync();
        }
        answer.WriteLast();
    }

    private static async Task AllWaitOrGoOnAsync(Answer answer, bool waits)
    {
        Task writing = WriteAllAsync(answer);
        if (waits)
        {
            await Task.Delay(s_moment);
            Assert.False(writing.IsCompleted);
            answer.Visitor.GoOn();
        }
        await writing.WaitAsync(s_patience);
    }

    // As the kernel names them: without one.
    private List<string> OpenFiles() => [.. Directory.GetFiles("/proc/self/fd").Where(descriptor => new FileInfo(descriptor).LinkTarget?.StartsWith(_folder.PathOf("millrace-"), StringComparison.Ordinal) == true)];

    private async Task NothingIsOpenAsync()
    {
        for (var patience = DateTime.UtcNow + s_patience; OpenFiles() is { Count: > 0 } open; await Task.Delay(10))
        {
            Assert.True(DateTime.UtcNow < patience, string.Join(' ', open));
        }
    }

    /// <summary>Bytes of which each is known by its place.</summary>
    private sealed class Answer : IDisposable
    {
        private readonly CancellationTokenSource _stop = new();
        private int _written;
        private bool _isOver;
        private bool _isDisposed;

        public Answer(int inMemory, AnswerFiles? files)
        {
            var context = new DefaultHttpContext();
            context.Features.Set<IHttpResponseBodyFeature>(new StreamResponseBodyFeature(Visitor));
            Ahead = new AnswerAhead(context, inMemory, files, Visitor.HasBegun.WaitAsync(_stop.Token), _stop);
        }

        public Visitor Visitor { get; } = new();

        public AnswerAhead Ahead { get; }

        public CancellationToken GivenUp { get; init; }

        public async Task WriteAsync(int count = Piece)
        {
            Write(count);
            await Ahead.WaitForRoomAsync(GivenUp);
        }

        /// <summary>And that is the end.</summary>
        public void WriteLast()
        {
            Write(Piece);
            Ahead.Complete();
            _isOver = true;
        }

        /// <summary>The visitor takes all of it, and has it.</summary>
        public async Task EndAsync()
        {
            if (!_isOver)
            {
                WriteLast();
            }
            Visitor.GoOn();
            await Ahead.Sent.WaitAsync(s_patience);
            Assert.Equal(_written, Visitor.Taken);
        }

        public async Task HasAllAsync()
        {
            for (var patience = DateTime.UtcNow + s_patience; Visitor.Taken < _written; await Task.Delay(1))
            {
                Assert.True(DateTime.UtcNow < patience);
            }
        }

        public void Dispose()
        {
            if (!_isDisposed)
            {
                _isDisposed = true;
                Ahead.Dispose();
                _stop.Dispose();
            }
        }

        private void Write(int count)
        {
            byte[] bytes = new byte[count];
            for (int i = 0; i < count; i++)
            {
                bytes[i] = Visitor.At(_written + i);
            }
            Ahead.Write(bytes);
            _written += count;
        }
    }

    /// <summary>Takes nothing before he goes on, and knows what has to come.</summary>
    private sealed class Visitor : Stream
    {
        private readonly TaskCompletionSource _begins = new(TaskCreationOptions.RunContinuationsAsynchronously);
        private TaskCompletionSource _goesOn = new(TaskCreationOptions.RunContinuationsAsynchronously);
        private Random? _pace;
        private int _taken;
        private volatile bool _hasLeft;

        public Task HasBegun => _begins.Task;

        public int Taken => Volatile.Read(ref _taken);

        public static byte At(int place) => (byte)((place * 31) + (place >> 8) + (place >> 16));

        public void GoOn(Random? pace = null)
        {
            _pace ??= pace;
            _ = _goesOn.TrySetResult();
            _ = _begins.TrySetResult();
        }

        public void Stop() => _goesOn = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);

        public void Leave()
        {
            _hasLeft = true;
            GoOn();
        }

        public override async ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
        {
            await _goesOn.Task.WaitAsync(cancellationToken);
            if (_hasLeft)
            {
                throw new IOException("He has left.");
            }
            switch (_pace?.Next(20))
            {
                case 0:
                    await Task.Delay(_pace.Next(3), cancellationToken);
                    break;
                case 1:
                    await Task.Yield();
                    break;
            }
            for (int i = 0; i < buffer.Length; i++)
            {
                if (buffer.Span[i] != At(_taken + i))
                {
                    throw new InvalidDataException($"Byte {_taken + i} is another one.");
                }
            }
            Volatile.Write(ref _taken, _taken + buffer.Length);
        }

        public override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) => WriteAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();

        public override Task FlushAsync(CancellationToken cancellationToken) => Task.CompletedTask;

        public override bool CanRead => false;

        public override bool CanSeek => false;

        public override bool CanWrite => true;

        public override long Length => throw new NotSupportedException();

        public override long Position { get => throw new NotSupportedException(); set => throw new NotSupportedException(); }

        public override void Flush()
        {
        }

        public override int Read(byte[] buffer, int offset, int count) => throw new NotSupportedException();

        public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

        public override void SetLength(long value) => throw new NotSupportedException();

        public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();
    }
}
