// What a child prints, line by line into the log, and no more of it than a log can bear.

using System.Diagnostics;
using System.Net.Sockets;
using System.Text;

namespace Millrace.Workers.Processes;

internal sealed class ChildOutput : IDisposable
{
    /// <summary>Bytes of a line; what comes behind them is left out.</summary>
    public const int LineMax = 4096;

    /// <summary>Lines in a second; the others are counted.</summary>
    public const int LinesPerSecondMax = 100;

    private readonly Socket _socket;
    private readonly Action<string> _line;
    private readonly byte[] _buffer = new byte[8192];
    private readonly byte[] _current = new byte[LineMax];
    private int _length;
    private long _second = Stopwatch.GetTimestamp();
    private int _lines;
    private long _leftOut;

    /// <param name="descriptor">A connected socket; is closed with this.</param>
    /// <param name="line">Is given each line, without control characters.</param>
    public ChildOutput(int descriptor, Action<string> line)
    {
        _socket = new Socket(new SafeSocketHandle(descriptor, ownsHandle: true));
        _line = line;
        _ = ReadAsync();
    }

    /// <summary>The last line.</summary>
    public string Last { get; private set; } = "";

    /// <summary>Ends when nobody has the other end any more.</summary>
    public Task Ended => _ended.Task;

    private readonly TaskCompletionSource _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);

    public void Dispose() => _socket.Dispose();

    private async Task ReadAsync()
    {
        try
        {
            while (await _socket.ReceiveAsync(_buffer.AsMemory(), SocketFlags.None).ConfigureAwait(false) is > 0 and var count)
            {
                Take(_buffer.AsSpan(0, count));
            }
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException)
        {
            // It has ended.
        }
        EndLine();
        SayLeftOut();
        _ended.SetResult();
    }

    private void Take(ReadOnlySpan<byte> bytes)
    {
        while (bytes.IndexOf((byte)'\n') is >= 0 and var end)
        {
            Add(bytes[..end]);
            EndLine();
            bytes = bytes[(end + 1)..];
        }
        Add(bytes);
    }

    private void Add(ReadOnlySpan<byte> bytes)
    {
        bytes = bytes[..Math.Min(bytes.Length, LineMax - _length)];
        bytes.CopyTo(_current.AsSpan(_length));
        _length += bytes.Length;
    }

    private void EndLine()
    {
        ReadOnlySpan<byte> line = _current.AsSpan(0, _length).TrimEnd((byte)'\r');
        _length = 0;
        if (line.IsEmpty)
        {
            return;
        }
        if (Stopwatch.GetElapsedTime(_second) >= TimeSpan.FromSeconds(1))
        {
            SayLeftOut();
            _second = Stopwatch.GetTimestamp();
            _lines = 0;
        }
        if (++_lines > LinesPerSecondMax)
        {
            _leftOut++;
            return;
        }
        Last = string.Create(Encoding.UTF8.GetCharCount(line), line, static (text, bytes) =>
        {
            _ = Encoding.UTF8.GetChars(bytes, text);
            foreach (ref char character in text)
            {
                character = char.IsControl(character) ? '?' : character;
            }
        });
        _line(Last);
    }

    private void SayLeftOut()
    {
        if (_leftOut > 0)
        {
            _line(FormattableString.Invariant($"({_leftOut} more lines)"));
            _leftOut = 0;
        }
    }
}
