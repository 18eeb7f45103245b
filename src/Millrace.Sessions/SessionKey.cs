// What a store knows a session by. The client's token cannot be found out from it: whoever reads a store, a log or a table cannot take a session over.

using System.Buffers.Binary;
using System.Globalization;
using System.Security.Cryptography;

namespace Millrace.Sessions;

/// <summary>The first 128 bits of the SHA-256 of a session's token: what a store knows the session by.</summary>
/// <param name="High">The first 64 bits.</param>
/// <param name="Low">The second 64 bits.</param>
public readonly record struct SessionKey(ulong High, ulong Low)
{
    /// <summary>Its length in bytes.</summary>
    public const int Size = 16;

    /// <summary>Writes the bytes of the key.</summary>
    /// <param name="destination">At least <see cref="Size"/> bytes.</param>
    /// <exception cref="ArgumentOutOfRangeException">There are fewer.</exception>
    public void Write(Span<byte> destination)
    {
        BinaryPrimitives.WriteUInt64BigEndian(destination, High);
        BinaryPrimitives.WriteUInt64BigEndian(destination[8..], Low);
    }

    /// <summary>32 hexadecimal digits.</summary>
    /// <returns>The digits, in lower case.</returns>
    public override string ToString() => string.Create(CultureInfo.InvariantCulture, $"{High:x16}{Low:x16}");

    /// <summary>As <c>ISession.Id</c> shows it: 36 characters.</summary>
    internal string ToId() => new Guid(Bytes(), bigEndian: true).ToString();

    internal static SessionKey OfSecret(ReadOnlySpan<byte> secret)
    {
        Span<byte> hash = stackalloc byte[SHA256.HashSizeInBytes];
        SHA256.HashData(secret, hash);
        return new SessionKey(BinaryPrimitives.ReadUInt64BigEndian(hash), BinaryPrimitives.ReadUInt64BigEndian(hash[8..]));
    }

    private byte[] Bytes()
    {
        byte[] bytes = new byte[Size];
        Write(bytes);
        return bytes;
    }
}
