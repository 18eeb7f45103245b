// What comes through a pipe, as text in UTF-8. A character of which a part has come is kept until the rest is there, so that reading can end between any two bytes
// and another process can go on.

using System.Text;

namespace Millrace.Command.Serving;

/// <param name="pipe">Not disposed of here.</param>
/// <param name="before">What has been read from it already, and not been given out.</param>
internal sealed class PipeText(Stream pipe, byte[] before) : TextReader
{
    private const int BytesMax = 4096;
    private const int CharacterMax = 4;

    private readonly byte[] _bytes = new byte[BytesMax + CharacterMax];
    private byte[] _before = before;
    private int _kept;      // at the begin of _bytes: the begin of a character

    /// <summary>What has been read, and is not yet a character.</summary>
    public ReadOnlySpan<byte> Rest => _bytes.AsSpan(0, _kept);

    public override async ValueTask<int> ReadAsync(Memory<char> buffer, CancellationToken cancellationToken = default)
    {
        while (true)
        {
            int room = Math.Min(_bytes.Length - _kept, buffer.Length - _kept);
            int count = _before.Length > 0 ? TakeBefore(room) : await pipe.ReadAsync(_bytes.AsMemory(_kept, room), cancellationToken);
            int length = _kept + count;
            int whole = count == 0 ? length : WholeOf(_bytes.AsSpan(0, length));
            int characters = Encoding.UTF8.GetChars(_bytes.AsSpan(0, whole), buffer.Span);
            _bytes.AsSpan(whole, length - whole).CopyTo(_bytes);
            _kept = length - whole;
            if (characters > 0 || count == 0)
            {
                return characters;
            }
        }
    }

    private int TakeBefore(int room)
    {
        int count = Math.Min(room, _before.Length);
        _before.AsSpan(0, count).CopyTo(_bytes.AsSpan(_kept));
        _before = _before[count..];
        return count;
    }

    // Up to a character that has begun, and may still become one.
    internal static int WholeOf(ReadOnlySpan<byte> bytes)
    {
        for (int back = 1; back < CharacterMax && back <= bytes.Length; back++)
        {
            byte first = bytes[^back];
            if (first < 0x80)
            {
                break;
            }
            if (first >= 0xC0)
            {
                int size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
                return size > back ? bytes.Length - back : bytes.Length;
            }
        }
        return bytes.Length;
    }
}
