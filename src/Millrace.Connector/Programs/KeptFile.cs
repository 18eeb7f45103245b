// What of an answer does not fit into the memory that is kept for its visitor: a temporary file without a name, which nobody else can open. One writes into it while another one reads what has been written;
// when he has read all of it, it is written anew from its beginning. Reading and writing are done by threads of the runtime's pool: no loop waits for a disk.

using System.Globalization;
using Microsoft.Win32.SafeHandles;

namespace Millrace.Connector;

/// <summary>Such files, of one mapping.</summary>
/// <param name="bytesMax">In all of them together.</param>
/// <param name="clock">Of what is said.</param>
/// <param name="say">Why something is not kept: once in a while, since visitors can cause it.</param>
internal sealed class AnswerFiles(long bytesMax, TimeProvider clock, Action<string> say)
{
    private static readonly TimeSpan s_calm = TimeSpan.FromSeconds(10);

    private readonly Lock _saying = new();
    private long? _said;

    public AnswerRoom Room { get; } = new(bytesMax);

    public Func<SafeFileHandle> Make { get; init; } = static () => TemporaryFile.MakeIn(TemporaryFile.Folder());

    public void SayFull() => Say(string.Create(CultureInfo.InvariantCulture, $"There is no room for it in {bytesMax} bytes (AnswerFilesMax)."));

    public void Say(string why)
    {
        lock (_saying)
        {
            if (_said is { } said && clock.GetElapsedTime(said) < s_calm)
            {
                return;
            }
            _said = clock.GetTimestamp();
        }
        say(why);
    }
}

/// <summary>One of them. It is made when there is something to write.</summary>
internal sealed class KeptFile(AnswerFiles files) : IDisposable
{
    private const int BlockMax = 64 * 1024;

    private readonly Lock _positions = new();
    private SafeFileHandle? _file;
    private byte[]? _block;
    private long _length;       // of the file, which it has taken of the room
    private long _written;
    private long _read;         // up to _written
    private TaskCompletionSource? _emptied;     // null: nobody waits for it

    /// <summary>It takes nothing more: the disk is full, or there is no place for files.</summary>
    public bool IsBroken { get; private set; }

    /// <summary>All that has been written has been read.</summary>
    public bool IsEmpty
    {
        get
        {
            lock (_positions)
            {
                return _read == _written;
            }
        }
    }

    public Task WhenEmpty()
    {
        lock (_positions)
        {
            return _read == _written ? Task.CompletedTask : (_emptied ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)).Task;
        }
    }

    // ---- who writes ----

    /// <summary>What it has taken of the disk and of the room is given back. All that has been written has been read.</summary>
    public async ValueTask ClearAsync()
    {
        if (_length == 0 || _file is not { } file)
        {
            return;
        }
        try
        {
            await Task.Run(() => RandomAccess.SetLength(file, 0)).ConfigureAwait(false);
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            IsBroken = true;
            files.Say(error.Message);
            return;
        }
        files.Room.Return(_length);
        _length = 0;
    }

    /// <summary>False: nothing of it is kept.</summary>
    public async ValueTask<bool> TryWriteAsync(ReadOnlyMemory<byte> content)
    {
        if (IsBroken)
        {
            return false;
        }
        long at = Begin();
        long more = Math.Max(0, at + content.Length - _length);
        if (!files.Room.TryTake(more))
        {
            files.SayFull();
            return false;
        }
        _length += more;
        try
        {
            _file ??= await Task.Run(files.Make).ConfigureAwait(false);
            await RandomAccess.WriteAsync(_file, content, at, CancellationToken.None).ConfigureAwait(false);
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException or ArgumentOutOfRangeException)     // the last of a file that would be too large for the process
        {
            IsBroken = true;
            if (_file is null)
            {
                files.Room.Return(_length);
                _length = 0;
            }
            files.Say(error.Message);
            return false;
        }
        lock (_positions)
        {
            _written += content.Length;
        }
        return true;
    }

    private long Begin()
    {
        lock (_positions)
        {
            if (_read == _written)
            {
                (_read, _written) = (0, 0);
            }
            return _written;
        }
    }

    // ---- who reads ----

    /// <summary>Some of what there is, which is his until he asks again. Not of one that is empty.</summary>
    /// <exception cref="ConnectorException">It cannot be read.</exception>
    public async ValueTask<ReadOnlyMemory<byte>> ReadAsync(CancellationToken ct)
    {
        long at;
        int count;
        lock (_positions)
        {
            (at, count) = (_read, (int)Math.Min(_written - _read, BlockMax));
        }
        _block ??= new byte[BlockMax];
        try
        {
            int got = await RandomAccess.ReadAsync(_file!, _block.AsMemory(0, count), at, ct).ConfigureAwait(false);
            return got > 0 ? _block.AsMemory(0, got) : throw new EndOfStreamException("it is shorter than what has been written into it.");
        }
        catch (IOException error)
        {
            throw new ConnectorException(ConnectorFault.BrokenResponse, $"What was kept of its response in a temporary file cannot be read: {error.Message}", error);
        }
    }

    /// <summary>So much of it is not needed any more.</summary>
    public void Advance(int count)
    {
        lock (_positions)
        {
            _read += count;
            if (_read == _written)
            {
                _emptied?.SetResult();
                _emptied = null;
            }
        }
    }

    /// <summary>Nobody writes or reads any more.</summary>
    public void Dispose()
    {
        if (_file is null)
        {
            files.Room.Return(_length);
            return;
        }
        ThreadPool.UnsafeQueueUserWorkItem(static its => its.Close(), this, preferLocal: false);        // what a large one takes on the disk is given back then
    }

    private void Close()
    {
        _file!.Dispose();
        files.Room.Return(_length);
    }
}
