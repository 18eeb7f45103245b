// What a program prints while it answers a request (STDERR): kept up to a limit, the rest counted, one message for the log. A line of it cannot pass for another message.

using System.Globalization;
using System.Text;

namespace Millrace.Connector;

internal sealed class ProgramErrors(int bytesMax)
{
    private byte[] _bytes = [];
    private int _length;
    private long _dropped;

    public bool IsEmpty => _length == 0 && _dropped == 0;

    public void Take(ReadOnlySpan<byte> bytes)
    {
        int count = Math.Min(bytes.Length, bytesMax - _length);
        if (count > 0)
        {
            if (_length + count > _bytes.Length)
            {
                Array.Resize(ref _bytes, Math.Min(bytesMax, Math.Max(_bytes.Length * 2, _length + count)));
            }
            bytes[..count].CopyTo(_bytes.AsSpan(_length));
            _length += count;
        }
        _dropped += bytes.Length - count;
    }

    public override string ToString()
    {
        var text = new StringBuilder();
        foreach (char c in Encoding.UTF8.GetString(_bytes, 0, _length).TrimEnd())
        {
            _ = c is '\n' ? text.Append(" | ") : text.Append(char.IsControl(c) ? '?' : c);
        }
        return _dropped == 0 ? text.ToString() : text.Append(CultureInfo.InvariantCulture, $" ... and {_dropped} bytes more (ErrorBytesMax)").ToString();
    }
}
