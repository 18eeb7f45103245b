// The readable spelling of bytes in vectors and failure messages: \r \n \t \0 \\ \xNN, and \{text*count} for repetition.

using System.Globalization;
using System.Text;

namespace Millrace.Tests.Protocols.Http1;

internal static class EscapedBytes
{
    internal static byte[] Parse(string text)
    {
        var bytes = new List<byte>();
        Append(bytes, text);
        return [.. bytes];
    }

    internal static string Format(ReadOnlySpan<byte> bytes)
    {
        var text = new StringBuilder();
        foreach (byte b in bytes)
        {
            text.Append(b switch
            {
                (byte)'\r' => "\\r",
                (byte)'\n' => "\\n",
                (byte)'\t' => "\\t",
                (byte)'\\' => "\\\\",
                < 0x20 or > 0x7E => "\\x" + b.ToString("x2", CultureInfo.InvariantCulture),
                _ => ((char)b).ToString(),
            });
        }

        return text.ToString();
    }

    private static void Append(List<byte> bytes, string text)
    {
        for (int i = 0; i < text.Length; i++)
        {
            if (text[i] != '\\')
            {
                bytes.Add(checked((byte)text[i]));
                continue;
            }

            i++;
            switch (text[i])
            {
                case 'r':
                    bytes.Add(13);
                    break;
                case 'n':
                    bytes.Add(10);
                    break;
                case 't':
                    bytes.Add(9);
                    break;
                case '0':
                    bytes.Add(0);
                    break;
                case '\\':
                    bytes.Add((byte)'\\');
                    break;
                case 'x':
                    bytes.Add(byte.Parse(text.AsSpan(i + 1, 2), NumberStyles.HexNumber, CultureInfo.InvariantCulture));
                    i += 2;
                    break;
                case '{':
                    int close = text.IndexOf('}', i);
                    int star = text.LastIndexOf('*', close);
                    byte[] unit = Parse(text[(i + 1)..star]);
                    for (int n = int.Parse(text.AsSpan(star + 1, close - star - 1), CultureInfo.InvariantCulture); n > 0; n--)
                    {
                        bytes.AddRange(unit);
                    }

                    i = close;
                    break;
                default:
                    throw new FormatException($"Unknown escape \\{text[i]} in: {text}");
            }
        }
    }
}
