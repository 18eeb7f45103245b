// Every message about sessions: one catalogue. A message says what happened, and what to do. No token and no value is ever in one.

using Microsoft.Extensions.Logging;
using Millrace.Observe;
using Millrace.Sessions.Stores;

namespace Millrace.Sessions.Observe;

internal sealed partial class SessionLog(ILogger logger, TimeProvider time)
{
    public const string Category = "Millrace.Sessions";

    private const int BusiestMax = 3;
    private static readonly TimeSpan s_between = TimeSpan.FromMinutes(1);

    private readonly ILogger _logger = new HarmlessLogger(logger);
    private long _lastEvicted;
    private long _lastTooLarge;
    private long _lastCommit;
    private int _hasSaidStock;

    /// <summary>At most once a minute: who has the most sessions, for <see cref="EstablishedEvicted"/>; null where it is not to be said. Says nothing itself, and may be asked under a lock.</summary>
    public string? BusiestToSay(ClientAccounts clients)
    {
        if (!MaySay(ref _lastEvicted))
        {
            return null;
        }
        string busiest = string.Join(", ", clients.Busiest(BusiestMax).Select(static one => $"{one.Client} ({one.Sessions:N0})"));
        return busiest.Length == 0 ? "none is known" : busiest;
    }

    public void EstablishedEvicted(long budget, string busiest) => Evicted(budget >> 20, busiest);

    /// <summary>At most once a minute.</summary>
    public void TooLarge(int bytes, int limit)
    {
        if (MaySay(ref _lastTooLarge))
        {
            Large(bytes, limit);
        }
    }

    /// <summary>At most once a minute.</summary>
    public void CommitFailed(Exception error)
    {
        if (error is not SessionStoreLostException && MaySay(ref _lastCommit))
        {
            Commit(error);
        }
    }

    /// <summary>At most once a minute.</summary>
    public void CommitTimedOut(TimeSpan limit)
    {
        if (MaySay(ref _lastCommit))
        {
            CommitTime(limit);
        }
    }

    /// <summary>Once.</summary>
    public void StockMiddleware()
    {
        if (Interlocked.Exchange(ref _hasSaidStock, 1) == 0)
        {
            Stock();
        }
    }

    /// <summary>StoreLost has said why.</summary>
    public void LoadFailed(Exception error) => Load(error.Message);

    [LoggerMessage(1, LogLevel.Warning, "Sessions in use had to go: the budget of {Budget} MiB is full of others in use. Most sessions that were used once only are from {Busiest}. Raise BudgetBytes if these are visitors.")]
    private partial void Evicted(long budget, string busiest);

    [LoggerMessage(2, LogLevel.Error, "A session of {Bytes} bytes is not stored: it may have {Limit} (SessionBytesMax, and a sixteenth of BudgetBytes). It stays as it was.")]
    private partial void Large(int bytes, int limit);

    [LoggerMessage(3, LogLevel.Error, "A session could not be stored.")]
    private partial void Commit(Exception error);

    [LoggerMessage(4, LogLevel.Error, "A session could not be stored within {Limit} (IOTimeout).")]
    private partial void CommitTime(TimeSpan limit);

    [LoggerMessage(5, LogLevel.Warning, "UseSession() of ASP.NET Core itself runs, from code that was compiled without Millrace.Sessions: it protects a cookie for every request without one, and its first writes are not sealed. Call UseMillraceSession() there.")]
    private partial void Stock();

    [LoggerMessage(6, LogLevel.Error, "The store of sessions does not answer. New sessions go on in their cookies; others are not available until it is back.")]
    public partial void StoreLost(Exception error);

    [LoggerMessage(7, LogLevel.Information, "The store of sessions answers again.")]
    public partial void StoreIsBack();

    [LoggerMessage(8, LogLevel.Debug, "A session could not be loaded: {Why}")]
    private partial void Load(string why);

    private bool MaySay(ref long last)
    {
        long now = time.GetTimestamp();
        long before = Volatile.Read(ref last);
        return (before == 0 || time.GetElapsedTime(before, now) >= s_between) && Interlocked.CompareExchange(ref last, now, before) == before;
    }
}
