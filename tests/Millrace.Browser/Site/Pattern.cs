// Bytes that say where they stand: a download that is moved, doubled or cut is noticed.

namespace Millrace.Browser.Site;

internal static class Pattern
{
    /// <summary>The number of bytes after which the sequence begins anew.</summary>
    public const int Period = 1 << 24;

    /// <summary>The bytes from <paramref name="position"/> of the endless sequence on.</summary>
    public static void Fill(Span<byte> bytes, long position)
    {
        for (int i = 0; i < bytes.Length; i++)
        {
            bytes[i] = At(position + i);
        }
    }

    public static byte At(long position) => (byte)(position ^ (position >> 8) ^ (position >> 16));

    public static byte[] Take(int count)
    {
        byte[] bytes = new byte[count];
        Fill(bytes, 0);
        return bytes;
    }
}
