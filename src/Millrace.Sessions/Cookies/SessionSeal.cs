// A new session's first values on their way through the client, so that the server need not keep what may never come back.
//
//   DataProtection( version 1 | epoch 8 | token 16 | sealed at, seconds since 1970 8 | values )      in base64url
//
// The token binds the values to their session: a seal behind another token opens nothing. The epoch is the store's: one that forgets its sessions
// when the process ends accepts no seal from before, which could show what has been changed since.

using System.Buffers.Binary;
using System.Buffers.Text;
using Microsoft.AspNetCore.DataProtection;

namespace Millrace.Sessions.Cookies;

internal enum SealState
{
    Good,

    /// <summary>Cut, forged, of a key that is gone, or not a seal at all.</summary>
    Unreadable,

    /// <summary>It belongs to another token.</summary>
    OfAnotherSession,

    /// <summary>It is older than a seal may be.</summary>
    Expired,

    /// <summary>It is of a store that has ended.</summary>
    OfAnotherEpoch,
}

internal sealed class SessionSeal
{
    public const string Purpose = "Millrace.Sessions.Seal.v1";

    private const byte Version = 1;
    private const int HeadSize = 1 + 8 + SessionToken.Size + 8;

    // A clock of another machine may be ahead.
    private const int AheadSecondsMax = 60;

    private readonly IDataProtector _protector;
    private readonly TimeProvider _time;

    public SessionSeal(IDataProtectionProvider protection, TimeProvider time)
    {
        _protector = protection.CreateProtector(Purpose);
        _time = time;
    }

    public string Close(SessionToken token, ReadOnlySpan<byte> values, long epoch)
    {
        byte[] plain = new byte[HeadSize + values.Length];
        plain[0] = Version;
        BinaryPrimitives.WriteInt64BigEndian(plain.AsSpan(1), epoch);
        token.Write(plain.AsSpan(9));
        BinaryPrimitives.WriteInt64BigEndian(plain.AsSpan(9 + SessionToken.Size), _time.GetUtcNow().ToUnixTimeSeconds());
        values.CopyTo(plain.AsSpan(HeadSize));
        return Base64Url.EncodeToString(_protector.Protect(plain));
    }

    /// <summary>What is in it. Never throws for what a client has sent.</summary>
    public SealState Open(SessionToken token, string seal, long epoch, TimeSpan validity, out ReadOnlyMemory<byte> values)
    {
        values = default;
        if (!TryUnprotect(seal, out byte[] plain) || plain.Length < HeadSize || plain[0] != Version)
        {
            return SealState.Unreadable;
        }
        if (SessionToken.Read(plain.AsSpan(9)) != token)
        {
            return SealState.OfAnotherSession;
        }
        if (BinaryPrimitives.ReadInt64BigEndian(plain.AsSpan(1)) != epoch)
        {
            return SealState.OfAnotherEpoch;
        }
        long age = _time.GetUtcNow().ToUnixTimeSeconds() - BinaryPrimitives.ReadInt64BigEndian(plain.AsSpan(9 + SessionToken.Size));
        if (age < -AheadSecondsMax || age > (long)validity.TotalSeconds)
        {
            return SealState.Expired;
        }
        values = plain.AsMemory(HeadSize);
        return SealState.Good;
    }

    private bool TryUnprotect(string seal, out byte[] plain)
    {
        plain = [];
        if (!Base64Url.IsValid(seal))
        {
            return false;
        }
        try
        {
            plain = _protector.Unprotect(Base64Url.DecodeFromChars(seal));
            return true;
        }
        catch (Exception)
        {
            return false;       // whatever the keys' own store throws, too
        }
    }
}
