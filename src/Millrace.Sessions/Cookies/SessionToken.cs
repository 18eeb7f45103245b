// The secret that a client is known by: 128 random bits, 22 characters in the cookie. Never logged, never stored: a store knows its hash (SessionKey).

using System.Buffers.Binary;
using System.Buffers.Text;
using System.Security.Cryptography;

namespace Millrace.Sessions.Cookies;

internal readonly record struct SessionToken(ulong High, ulong Low)
{
    public const int Size = 16;

    /// <summary>Characters in a cookie: base64url without padding (RFC 4648 §5).</summary>
    public const int Length = 22;

    public SessionKey Key
    {
        get
        {
            Span<byte> bytes = stackalloc byte[Size];
            Write(bytes);
            return SessionKey.OfSecret(bytes);
        }
    }

    public static SessionToken New()
    {
        Span<byte> bytes = stackalloc byte[Size];
        RandomNumberGenerator.Fill(bytes);
        return Read(bytes);
    }

    public static SessionToken Read(ReadOnlySpan<byte> bytes) => new(BinaryPrimitives.ReadUInt64BigEndian(bytes), BinaryPrimitives.ReadUInt64BigEndian(bytes[8..]));

    public void Write(Span<byte> destination)
    {
        BinaryPrimitives.WriteUInt64BigEndian(destination, High);
        BinaryPrimitives.WriteUInt64BigEndian(destination[8..], Low);
    }

    public static bool TryParse(ReadOnlySpan<char> text, out SessionToken token)
    {
        Span<byte> bytes = stackalloc byte[Size];
        if (text.Length == Length && Base64Url.IsValid(text) && Base64Url.TryDecodeFromChars(text, bytes, out int written) && written == Size)
        {
            token = Read(bytes);
            return true;
        }
        token = default;
        return false;
    }

    public override string ToString()
    {
        Span<byte> bytes = stackalloc byte[Size];
        Write(bytes);
        return Base64Url.EncodeToString(bytes);
    }
}
