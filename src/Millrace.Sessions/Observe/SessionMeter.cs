// The meter "Millrace.Sessions": the counters, read when a listener asks.

using System.Diagnostics.Metrics;
using Millrace.Sessions.Stores;

namespace Millrace.Sessions.Observe;

internal sealed class SessionMeter : IDisposable
{
    public const string Name = "Millrace.Sessions";

    private readonly Meter _meter;

    public SessionMeter(SessionCounters counters, ISessionBackingStore store)
    {
        _meter = new Meter(Name);
        _meter.CreateObservableCounter("millrace.sessions.created", () => Created(counters), "{session}", "Sessions that have begun, by where their first values went.");
        _meter.CreateObservableCounter("millrace.sessions.promoted", () => counters.PromotedTotal, "{session}", "Sessions that have come back with their cookie and are in the store since.");
        _meter.CreateObservableCounter("millrace.sessions.resealed", () => counters.ResealedTotal, "{cookie}", "Cookies that a session's values went along in since its store was nearly full.");
        _meter.CreateObservableCounter("millrace.sessions.conflicts", () => counters.ConflictsTotal, "{write}", "Writes that found the session changed by another request.");
        _meter.CreateObservableCounter("millrace.sessions.rejected", () => Rejected(counters), "{write}", "Writes that were not stored, by reason.");
        _meter.CreateObservableCounter("millrace.sessions.cookies.refused", () => Refused(counters), "{cookie}", "Cookies that opened nothing, by reason.");
        _meter.CreateObservableCounter("millrace.sessions.store.failures", () => counters.StoreFailuresTotal, "{call}", "Calls of the store that failed.");
        _meter.CreateObservableCounter("millrace.sessions.store.spared", () => counters.NotAskedTotal, "{call}", "Calls that were not made since the store did not answer a moment before.");
        _meter.CreateObservableCounter("millrace.sessions.store.unreadable", () => counters.UnreadableTotal, "{session}", "Sessions whose values in the store are none.");
        if (store is ISessionStoreFigures figures)
        {
            _meter.CreateObservableUpDownCounter("millrace.sessions.live", () => figures.Live, "{session}", "Sessions in memory.");
            _meter.CreateObservableUpDownCounter("millrace.sessions.bytes", () => figures.Bytes, "By", "Memory of all sessions, as counted against the budget.");
            _meter.CreateObservableUpDownCounter("millrace.sessions.budget", () => figures.BudgetBytes, "By", "Memory that they may take (BudgetBytes).");
            _meter.CreateObservableCounter("millrace.sessions.evicted", () => Evicted(counters), "{session}", "Sessions that went out of memory, by reason.");
            _meter.CreateObservableCounter("millrace.sessions.evicted.established", () => counters.EstablishedEvictedTotal, "{session}", "Those of them that had been used again and went since memory was full.");
            Histogram<double> age = _meter.CreateHistogram<double>("millrace.sessions.evicted.age", "s", "Age of sessions that went out of memory, by reason.");
            (counters.AgeIsWanted, counters.AgeOfEvicted) = (() => age.Enabled, (reason, seconds) => age.Record(seconds, Tag("reason", NameOf(reason))));
        }
    }

    public void Dispose() => _meter.Dispose();

    private static IEnumerable<Measurement<long>> Created(SessionCounters counters) =>
        [new(counters.SealedTotal, Tag("where", "cookie")), new(counters.StoredTotal, Tag("where", "store"))];

    private static IEnumerable<Measurement<long>> Rejected(SessionCounters counters) =>
        [new(counters.Total(WriteRejection.TooLarge), Tag("reason", "too-large")), new(counters.Total(WriteRejection.Ended), Tag("reason", "ended"))];

    private static IEnumerable<Measurement<long>> Refused(SessionCounters counters) =>
        Enum.GetValues<CookieRefusal>().Select(refusal => new Measurement<long>(counters.Total(refusal), Tag("reason", NameOf(refusal))));

    private static IEnumerable<Measurement<long>> Evicted(SessionCounters counters) =>
        Enum.GetValues<EvictionReason>().Select(reason => new Measurement<long>(counters.Total(reason), Tag("reason", NameOf(reason))));

    private static KeyValuePair<string, object?> Tag(string name, string value) => new(name, value);

    private static string NameOf(EvictionReason reason) => reason switch
    {
        EvictionReason.Expired => "expired",
        EvictionReason.Pressure => "pressure",
        EvictionReason.ClientShare => "client-share",
        _ => "ended",
    };

    private static string NameOf(CookieRefusal refusal) => refusal switch
    {
        CookieRefusal.Malformed => "malformed",
        CookieRefusal.SealUnreadable => "seal-unreadable",
        CookieRefusal.SealExpired => "seal-expired",
        CookieRefusal.SealOfAnotherSession => "seal-of-another-session",
        CookieRefusal.SealOfAnotherEpoch => "seal-of-another-process",
        _ => "spent",
    };
}
