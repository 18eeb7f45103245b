// Passes on what a process prints, line by line. It can be stopped between two bytes: another program goes on where this one has ended.

using System.IO.Pipes;
using System.Text;
using Microsoft.Win32.SafeHandles;

namespace Millrace.Command.Serving;

/// <param name="pipe">The end that is read; disposed of here when the other end has gone.</param>
/// <param name="before">What has been read of it already, and not been passed on.</param>
/// <param name="add">Is given each line, and may take its time.</param>
/// <param name="room">What pipes may hold.</param>
internal sealed class OutputPump(PipeStream pipe, byte[] before, Func<string, ValueTask> add, PipeRoom room) : IDisposable
{
    // A process has the other end, and may have done to the pipe what it likes: a read of one that blocks cannot be given up.
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(5);

    private readonly PipeText _text = new(pipe, before);
    private readonly SafePipeHandle _handle = pipe.SafePipeHandle;
    private LineReader? _lines;
    private int _isWide = room.TryWiden(pipe) ? 1 : 0;
    private CancellationTokenSource _pause = new();
    private Task<bool> _running = Task.FromResult(false);
    private readonly TaskCompletionSource _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);

    /// <summary>Ends when nothing will come any more.</summary>
    public Task Ended => _ended.Task;

    /// <summary>The end that is read; -1 when nothing will come any more.</summary>
    public int Descriptor => _ended.Task.IsCompleted ? -1 : (int)_handle.DangerousGetHandle();

    /// <summary>Another open file of it, for whoever closes that (<see cref="PipeEnd.Another"/>); -1 where nothing will come any more. Its number is its own meanwhile, whoever closes it.</summary>
    public int Another()
    {
        bool isHeld = false;
        try
        {
            _handle.DangerousAddRef(ref isHeld);
            return PipeEnd.Another((int)_handle.DangerousGetHandle());
        }
        catch (ObjectDisposedException)
        {
            return -1;
        }
        finally
        {
            if (isHeld)
            {
                _handle.DangerousRelease();
            }
        }
    }

    public void Begin() => _running = Task.Run(RunAsync);

    /// <summary>Nothing is read any more, until it is to go on.</summary>
    /// <exception cref="TimeoutException">The pipe blocks. <see cref="GoOn"/> is to follow.</exception>
    public async Task PauseAsync()
    {
        await _pause.CancelAsync();
        try
        {
            await _running.WaitAsync(s_patience);
        }
        catch (TimeoutException)
        {
            throw new TimeoutException("a process has made the pipe of its output block, so that nobody else can go on reading where the daemon has ended");
        }
    }

    /// <summary>What has been read, and not been passed on; asked while it pauses.</summary>
    public byte[] Rest => [.. Encoding.UTF8.GetBytes(_lines?.Rest ?? ""), .. _text.Rest];

    public void GoOn()
    {
        if (!_ended.Task.IsCompleted)
        {
            var before = _running;
            _pause.Dispose();
            _pause = new CancellationTokenSource();
            _running = Task.Run(async () => await before || await RunAsync());
        }
    }

    public void Dispose()
    {
        pipe.Dispose();
        if (Interlocked.Exchange(ref _isWide, 0) != 0)
        {
            room.Leave();
        }
    }

    // False: it pauses.
    private async Task<bool> RunAsync()
    {
        _lines ??= new LineReader(_text, AppOutput.LineMax);
        try
        {
            while (await _lines.ReadAsync(_pause.Token) is { } line)
            {
                await add(line);
            }
        }
        catch (OperationCanceledException) when (_pause.IsCancellationRequested)
        {
            return false;
        }
        catch (Exception error) when (error is IOException or ObjectDisposedException or OperationCanceledException)
        {
            // It has ended, and nobody reads on.
        }
        _ended.TrySetResult();
        Dispose();
        return true;
    }
}
