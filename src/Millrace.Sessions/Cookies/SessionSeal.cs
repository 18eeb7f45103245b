// Values of a session on their way through the client: the first ones, so that the server need not keep what may never come back, and later ones while the server is short of room.
//
//   DataProtection( version 2 | epoch 8 | token 16 | sealed at, in seconds 8 | serial 4 | values )      in base64url
//
// The token binds the values to their session: a seal behind another token opens nothing. The epoch is the store's: one that forgets its sessions
// when the process ends accepts no seal from before, which could show what has been changed since; its seconds are of a clock that nobody sets, as those are by which SpentSeals forgets.
// Those of a store that processes share are the time of day. The serial tells the seals of one session apart: SpentSeals knows those whose values
// are no longer true.

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

/// <param name="Values">As <c>SessionValues</c> reads them.</param>
/// <param name="Serial">Of the seal.</param>
/// <param name="Age">Since it was made, in whole seconds; less than zero where a clock of another machine is ahead.</param>
internal readonly record struct UnsealedValues(ReadOnlyMemory<byte> Values, uint Serial, TimeSpan Age = default);

internal sealed class SessionSeal
{
    public const string Purpose = "Millrace.Sessions.Seal.v2";

    private const byte Version = 2;
    private const int SealedAt = 1 + 8 + SessionToken.Size;
    private const int Serial = SealedAt + 8;
    private const int HeadSize = Serial + 4;

    // A clock of another machine may be ahead.
    public const int AheadSecondsMax = 60;

    private readonly IDataProtector _protector;
    private readonly TimeProvider _time;
    private readonly bool _isOfProcess;

    /// <param name="protection">Whose keys it is made with.</param>
    /// <param name="time">The clock.</param>
    /// <param name="isOfProcess">No other process opens it.</param>
    public SessionSeal(IDataProtectionProvider protection, TimeProvider time, bool isOfProcess)
    {
        _protector = protection.CreateProtector(Purpose);
        _time = time;
        _isOfProcess = isOfProcess;
    }

    private long NowSeconds => _isOfProcess ? _time.GetTimestamp() / _time.TimestampFrequency : _time.GetUtcNow().ToUnixTimeSeconds();

    /// <summary>A serial for the next one: not 0, which is none.</summary>
    public static uint NewSerial() => (uint)Random.Shared.NextInt64(1, 1L << 32);

    public string Close(SessionToken token, ReadOnlySpan<byte> values, long epoch, uint serial)
    {
        byte[] plain = new byte[HeadSize + values.Length];
        plain[0] = Version;
        BinaryPrimitives.WriteInt64BigEndian(plain.AsSpan(1), epoch);
        token.Write(plain.AsSpan(9));
        BinaryPrimitives.WriteInt64BigEndian(plain.AsSpan(SealedAt), NowSeconds);
        BinaryPrimitives.WriteUInt32BigEndian(plain.AsSpan(Serial), serial);
        values.CopyTo(plain.AsSpan(HeadSize));
        return Base64Url.EncodeToString(_protector.Protect(plain));
    }

    /// <summary>What is in it. Never throws for what a client has sent.</summary>
    public SealState Open(SessionToken token, string seal, long epoch, TimeSpan validity, out UnsealedValues values)
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
        long age = NowSeconds - BinaryPrimitives.ReadInt64BigEndian(plain.AsSpan(SealedAt));
        if (age < -AheadSecondsMax || age > (long)validity.TotalSeconds)
        {
            return SealState.Expired;
        }
        values = new UnsealedValues(plain.AsMemory(HeadSize), BinaryPrimitives.ReadUInt32BigEndian(plain.AsSpan(Serial)), TimeSpan.FromSeconds(age));
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
