// What users set. Cookie, IdleTimeout and IOTimeout are those of SessionOptions.

using System.Globalization;
using Microsoft.AspNetCore.Builder;

namespace Millrace.Sessions;

/// <summary>Options of <c>AddMillraceSession</c>. <see cref="SessionOptions.Cookie"/>, <see cref="SessionOptions.IdleTimeout"/> and <see cref="SessionOptions.IOTimeout"/> mean what they
/// mean with <c>AddSession</c>.</summary>
public sealed class MillraceSessionOptions : SessionOptions
{
    internal const long BudgetBytesMin = 1 << 20;
    internal const long BudgetBytesMax = 1L << 40;
    internal const int SealedBytesLimit = 2_560;
    internal const int SessionBytesMin = 1 << 10;
    internal const int SessionBytesLimit = 16 << 20;
    internal static readonly TimeSpan SealValidityMin = TimeSpan.FromMinutes(1);
    internal static readonly TimeSpan SealValidityLimit = TimeSpan.FromDays(1);
    internal const double ClientShareMin = 0.001;

    /// <summary>Memory that sessions in this process may take, in bytes, with keys and all that is needed to keep them. From 1 MiB to 1 TiB; 64 MiB.</summary>
    public long BudgetBytes { get; set; } = 64 << 20;

    /// <summary>The most that one session may have, in bytes of keys and values together. From 1 KiB to 16 MiB, and at most a sixteenth of <see cref="BudgetBytes"/>; 256 KiB.
    /// What is more is not stored, and said.</summary>
    public int SessionBytesMax { get; set; } = 256 << 10;

    /// <summary>Up to how many bytes of keys and values the first write of a new session goes into its cookie. From 0 (never) to 2,560; 1,024.</summary>
    public int SealedBytesMax { get; set; } = 1 << 10;

    /// <summary>For how long values in a cookie are good. From 1 minute to 1 day, and never longer than <see cref="SessionOptions.IdleTimeout"/>. Null: as long as that, and 1 day at most.</summary>
    public TimeSpan? SealValidity { get; set; }

    /// <summary>Two requests of one session change it at the same time. Last write wins.</summary>
    public ConcurrentWrites ConcurrentWrites { get; set; }

    /// <summary>The part of <see cref="BudgetBytes"/> that sessions of one network (/24, /48) may take while they have not been used a second time, once memory is full.
    /// From 0.001 to 1; 1/32.</summary>
    public double ClientShare { get; set; } = 1.0 / 32;

    internal TimeSpan EffectiveSealValidity
    {
        get
        {
            TimeSpan validity = SealValidity ?? SealValidityLimit;
            return validity < IdleTimeout ? validity : IdleTimeout;
        }
    }

    internal int EffectiveSessionBytesMax => (int)Math.Min(SessionBytesMax, BudgetBytes / 16);

    internal MillraceSessionOptions With(SessionOptions other)
    {
        var copy = (MillraceSessionOptions)MemberwiseClone();
        copy.Cookie = other.Cookie;
        copy.IdleTimeout = other.IdleTimeout;
        copy.IOTimeout = other.IOTimeout;
        return copy;
    }

    /// <exception cref="ArgumentOutOfRangeException">A value is out of its range.</exception>
    internal void Check()
    {
        Check(nameof(BudgetBytes), BudgetBytes, BudgetBytesMin, BudgetBytesMax);
        Check(nameof(SessionBytesMax), SessionBytesMax, SessionBytesMin, SessionBytesLimit);
        Check(nameof(SealedBytesMax), SealedBytesMax, 0, SealedBytesLimit);
        Check(nameof(SealValidity), SealValidity ?? SealValidityLimit, SealValidityMin, SealValidityLimit);
        Check(nameof(ClientShare), ClientShare, ClientShareMin, 1);
        Check(nameof(IdleTimeout), IdleTimeout, TimeSpan.FromSeconds(1), TimeSpan.FromDays(3650));
        Check(nameof(ConcurrentWrites), (int)ConcurrentWrites, 0, (int)ConcurrentWrites.MergeKeys);
    }

    private static void Check<T>(string name, T value, T min, T max)
        where T : IComparable<T>, IFormattable
    {
        if (!(value.CompareTo(min) >= 0 && value.CompareTo(max) <= 0))
        {
            throw new ArgumentOutOfRangeException(name, string.Create(CultureInfo.InvariantCulture, $"The session option {name} is {value}; it must be from {min} to {max}."));
        }
    }
}

/// <summary>What becomes of two requests that change one session at the same time.</summary>
public enum ConcurrentWrites
{
    /// <summary>The session is what the request that ends last makes of it, as with <c>AddSession</c>.</summary>
    LastWriteWins,

    /// <summary>Each key is what the request that changed it last makes of it: changes of different keys do not undo each other.</summary>
    MergeKeys,
}
