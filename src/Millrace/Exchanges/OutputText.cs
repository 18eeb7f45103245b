// Text of a response head, appended to what will be sent. What an application sets has been checked before (FieldText).

using System.Buffers.Text;
using System.Text;
using Microsoft.Extensions.Primitives;

namespace Millrace.Exchanges;

internal static class OutputText
{
    // field-line = field-name ":" OWS field-value OWS   (RFC 9112 §5)
    /// <param name="output">Where to.</param>
    /// <param name="name">A token.</param>
    /// <param name="values">Each becomes a field.</param>
    /// <param name="isBytes">A value may hold more than ASCII: each character is a byte.</param>
    public static void AppendField(this OutputBuffer output, string name, in StringValues values, bool isBytes = false)
    {
        for (int i = 0; i < values.Count; i++)
        {
            if (values[i] is not { } value)
            {
                continue;
            }

            Span<byte> to = output.Reserve(name.Length + value.Length + 4);
            _ = Encoding.ASCII.GetBytes(name, to);
            to[name.Length] = (byte)':';
            to[name.Length + 1] = (byte)' ';
            _ = isBytes ? Encoding.Latin1.GetBytes(value, to[(name.Length + 2)..]) : Encoding.ASCII.GetBytes(value, to[(name.Length + 2)..]);
            to[name.Length + value.Length + 2] = (byte)'\r';
            to[name.Length + value.Length + 3] = (byte)'\n';
            output.End += name.Length + value.Length + 4;
        }
    }

    public static void AppendContentLength(this OutputBuffer output, long length)
    {
        output.Append("Content-Length: "u8);
        output.AppendNumber(length);
        output.Append("\r\n"u8);
    }

    public static void AppendNumber(this OutputBuffer output, long number)
    {
        _ = Utf8Formatter.TryFormat(number, output.Reserve(24), out int written);
        output.End += written;
    }

    public static void AppendText(this OutputBuffer output, string text)
    {
        _ = Encoding.ASCII.GetBytes(text, output.Reserve(text.Length));
        output.End += text.Length;
    }
}
