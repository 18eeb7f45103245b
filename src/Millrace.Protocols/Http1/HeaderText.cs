// What a response may carry in names and values, for the vectorised checks of Http1Writer.

using System.Buffers;

namespace Millrace.Protocols.Http1;

internal static class HeaderText
{
    /// <summary>tchar (RFC 9110 §5.6.2).</summary>
    internal static readonly SearchValues<char> NameChars = SearchValues.Create(Chars(HttpChars.IsToken));

    /// <summary>SP, HTAB and VCHAR (RFC 9110 §5.5).</summary>
    internal static readonly SearchValues<char> ValueChars = SearchValues.Create(Chars(IsValueByte));

    /// <summary>The same as bytes.</summary>
    internal static readonly SearchValues<byte> ValueBytes = SearchValues.Create(Array.ConvertAll(Chars(IsValueByte), c => (byte)c));

    private static bool IsValueByte(byte b) => b < 0x80 && HttpChars.IsLineText(b);

    private static char[] Chars(Func<byte, bool> isMember) => [.. Enumerable.Range(0, 256).Where(i => isMember((byte)i)).Select(i => (char)i)];
}
