// All that somebody sends who may be anybody, and so may not come to an end.

namespace Millrace.Command.Serving;

internal static class BoundedRead
{
    private const int PartMax = 64 * 1024;

    /// <summary>All of it; null where there is more.</summary>
    /// <param name="from">What is read to its end.</param>
    /// <param name="most">Bytes.</param>
    /// <param name="ct">Gives it up.</param>
    public static async Task<byte[]?> AllAsync(Stream from, int most, CancellationToken ct)
    {
        using var all = new MemoryStream();
        byte[] part = new byte[PartMax];
        for (int count; (count = await from.ReadAsync(part, ct)) > 0;)
        {
            if (all.Length + count > most)
            {
                return null;
            }
            all.Write(part, 0, count);
        }
        return all.ToArray();
    }
}
