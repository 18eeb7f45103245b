// Bytes that depend on their position only, so that a lost, doubled, moved or foreign byte shows. Not random: both
// sides of a test make the same ones without talking to each other.
using System.Buffers.Binary;
using System.Collections.Concurrent;
using System.Security.Cryptography;

namespace Millrace.Interop;

public static class DeterministicBytes
{
    private const int BlockSize = 64 * 1024;
    private static readonly ConcurrentDictionary<long, string> Hashes = new();

    /// <summary>Fills <paramref name="destination"/> with the bytes at <paramref name="offset"/> and after it.</summary>
    public static void Fill(Span<byte> destination, long offset)
    {
        Span<byte> word = stackalloc byte[8];
        while (!destination.IsEmpty)
        {
            BinaryPrimitives.WriteUInt64LittleEndian(word, Mix((ulong)offset / 8));
            ReadOnlySpan<byte> rest = word[(int)(offset % 8)..];
            rest = rest[..Math.Min(rest.Length, destination.Length)];
            rest.CopyTo(destination);
            destination = destination[rest.Length..];
            offset += rest.Length;
        }
    }

    public static byte[] Create(int length)
    {
        byte[] bytes = new byte[length];
        Fill(bytes, 0);
        return bytes;
    }

    /// <summary>SHA-256 in hexadecimal of the first <paramref name="length"/> bytes.</summary>
    public static string Hash(long length) => Hashes.GetOrAdd(length, static count =>
    {
        using var hash = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
        byte[] block = new byte[BlockSize];
        for (long offset = 0; offset < count; offset += BlockSize)
        {
            Span<byte> part = block.AsSpan(0, (int)Math.Min(BlockSize, count - offset));
            Fill(part, offset);
            hash.AppendData(part);
        }

        return Convert.ToHexStringLower(hash.GetHashAndReset());
    });

    // The finaliser of SplitMix64: every bit of the word's number reaches every bit of the word.
    private static ulong Mix(ulong value)
    {
        value += 0x9E3779B97F4A7C15;
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
        return value ^ (value >> 31);
    }
}
