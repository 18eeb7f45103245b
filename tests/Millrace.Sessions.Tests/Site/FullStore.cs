// Other visitors, so many that memory is full of their sessions.

using Millrace.Sessions.Cookies;
using Millrace.Sessions.Stores;

namespace Millrace.Sessions.Tests.Site;

internal static class FullStore
{
    private const int AtATime = 5;
    private const int Uses = 3;

    /// <summary>As many as there is just room for.</summary>
    public static async Task FillAsync(TestSite site)
    {
        while (!site.Store.IsNearlyFull)
        {
            await AddAsync(site.Store);
        }
    }

    /// <summary>So many, in use, that all have to go who have been there before. That takes ten minutes.</summary>
    public static async Task EvictAllAsync(TestSite site)
    {
        for (int i = 0; i < 600 / Uses; i++)
        {
            // They are used while they are in the policy's window: what leaves it as it came never pushes out one that was used again.
            SessionKey[] some = [.. await Task.WhenAll(Enumerable.Range(0, AtATime).Select(_ => AddAsync(site.Store)))];
            for (int use = 0; use < Uses; use++)
            {
                site.Time.Advance(TimeSpan.FromSeconds(1));
                Array.ForEach(some, key => site.Store.Load(key));
            }
        }
    }

    private static async Task<SessionKey> AddAsync(MemorySessionStore store)
    {
        SessionKey key = SessionToken.New().Key;
        await store.WriteAsync(new SessionWrite(key, new byte[500], WriteCondition.Absent, null, TimeSpan.FromMinutes(20), default), default);
        return key;
    }
}
