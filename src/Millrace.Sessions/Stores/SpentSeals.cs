// Seals that a client may still hold although their values are no longer true, since the session was changed; and sessions of which no seal is good any more, since they have ended. A seal
// that seems to be spent and is not is as good as a session that had to go.

using System.Diagnostics.CodeAnalysis;
using Millrace.Sessions.Cookies;

namespace Millrace.Sessions.Stores;

internal sealed class SpentSeals
{
    // A flood is as large for a small budget.
    private const long BytesMin = 2 << 20;
    private const long BytesMax = 16 << 20;
    private const int PartOfBudget = 16;
    private const int PartOfBudgetMax = 4;

    // Sessions end less often than they change. They have a filter of their own, so that the many seals do not make them seem to have ended.
    private const int PartOfEnded = 16;

    // What is known of a whole session, in that filter.
    private const uint HasEnded = 0;
    private const uint HasNoSeal = 1;

    // A seal's age is counted in whole seconds, and with a shared store by clocks of which one may be a minute ahead.
    public static readonly TimeSpan Margin = TimeSpan.FromSeconds(SessionSeal.AheadSecondsMax + 2);

    private readonly long _bytesOfOne;
    private readonly TimeProvider _time;
    private readonly Lock _lock = new();
    private ForgettingFilter _seals;
    private ForgettingFilter _ended;
    private bool _isWhole;

    /// <param name="budgetBytes">Of all sessions; each of two filters gets a 16th of it, from 2 to 16 MiB, but no more than a quarter.</param>
    /// <param name="validity">How long a client may hold values: so long each is remembered at least.</param>
    /// <param name="time">The clock.</param>
    public SpentSeals(long budgetBytes, TimeSpan validity, TimeProvider time)
    {
        Validity = validity;
        _time = time;
        _bytesOfOne = BytesOfOne(budgetBytes);
        BeginAnew();
    }

    /// <summary>For how long a seal may be good.</summary>
    public TimeSpan Validity { get; private set; }

    /// <summary>Sessions are kept elsewhere, where nobody knows their seals by number: all of a session's are spent when it changes. Before the first one.</summary>
    public void ExpectWholeSessions()
    {
        lock (_lock)
        {
            _isWhole = true;
            BeginAnew();
        }
    }

    /// <summary>A UseSession() of its own options has seals that are good for longer. What is known by now has not been kept for so long: once there is any, it is too late.</summary>
    public void ExpectValidity(TimeSpan validity)
    {
        lock (_lock)
        {
            if (validity > Validity && !_seals.MayHold && !_ended.MayHold)
            {
                Validity = validity;
                BeginAnew();
            }
        }
    }

    [MemberNotNull(nameof(_seals), nameof(_ended))]
    private void BeginAnew()
    {
        _seals = new ForgettingFilter(_bytesOfOne, Validity + Margin, _time);
        _ended = new ForgettingFilter(_isWhole ? _bytesOfOne : _bytesOfOne / PartOfEnded, Validity + Margin, _time);
    }

    /// <summary>Memory that is taken when all are in use.</summary>
    public static long BytesOf(long budgetBytes) => 2 * (BytesOfOne(budgetBytes) + (BytesOfOne(budgetBytes) / PartOfEnded));

    /// <summary>The session has ended: none of its seals is good.</summary>
    public void Add(SessionKey key)
    {
        lock (_lock)
        {
            _ended.Add(key, HasEnded);
        }
    }

    /// <summary>None of its seals is good, though it goes on.</summary>
    public void AddAllOf(SessionKey key)
    {
        lock (_lock)
        {
            _ended.Add(key, HasNoSeal);
        }
    }

    /// <summary>The session has other values than this seal.</summary>
    public void Add(SessionKey key, uint seal)
    {
        lock (_lock)
        {
            _seals.Add(key, seal);
        }
    }

    /// <summary>The session has ended.</summary>
    public bool Contains(SessionKey key)
    {
        if (!_ended.MayHold)
        {
            return false;
        }
        lock (_lock)
        {
            return _ended.Contains(key, HasEnded);
        }
    }

    /// <summary>The seal is of no use.</summary>
    public bool Contains(SessionKey key, uint seal)
    {
        if (!_ended.MayHold && !_seals.MayHold)
        {
            return false;
        }
        lock (_lock)
        {
            return _seals.Contains(key, seal) || _ended.Contains(key, HasEnded) || _ended.Contains(key, HasNoSeal);
        }
    }

    private static long BytesOfOne(long budgetBytes) => Math.Min(Math.Clamp(budgetBytes / PartOfBudget, BytesMin, BytesMax), budgetBytes / PartOfBudgetMax) / sizeof(ulong) * sizeof(ulong);
}
