// What is said of an application: how it is, and what has happened to it.

using System.Globalization;

namespace Millrace.Command.Serving;

internal sealed partial class HostedApp
{
    private readonly AppEvents _events = new();
    private string _limitsSaid = "";
    private DateTimeOffset _stateSince = DateTimeOffset.UtcNow;

    public AppStatus Status
    {
        get
        {
            var current = _current;
            lock (_lock)
            {
                var leaving = _leaving.Now;
                return new AppStatus(
                    Settings.Name,
                    State.ToString().ToLowerInvariant(),
                    Reason,
                    [.. (_listeners?.Shown ?? Settings.Urls).Where(url => !Settings.SharedUrls.Any(own => ServeFileReader.Bare(own) == ServeFileReader.Bare(url))), .. Settings.SharedAs.Select(static place => place.ToString())],
                    current?.Number ?? 0,
                    leaving.Restarts + (current?.Restarts ?? 0),
                    leaving.Recycles + (current?.Recycles ?? 0),
                    current?.Limits is { Length: > 0 } limits ? limits : null,
                    current is null ? null : Traffic.Traffic,
                    ProcessStatus.Of(current?.Instances ?? []),
                    _events.All)
                {
                    StateSince = _stateSince,
                    Others = ProcessStatus.Of([.. current?.Others ?? [], .. _coming is { } coming && coming != current ? coming.Processes : [], .. leaving.All.SelectMany(static generation => generation.Others)]),
                };
            }
        }
    }

    private void SayLimits(Generation generation)
    {
        string limits = generation.Limits;
        if (limits.Length > 0 && limits != _limitsSaid)
        {
            Happened("limits of each process: " + limits);
        }
        _limitsSaid = limits;
    }

    private void Become(AppState state, string? reason, string? what)
    {
        lock (_lock)
        {
            _stateSince = State == state || (_attempts > 0 && state is AppState.Starting or AppState.Waiting) ? _stateSince : DateTimeOffset.UtcNow;      // each attempt is part of the wait
            State = state;
            Reason = reason is null ? null : Sentence.Of(reason);
        }
        if (what is not null)
        {
            Happened(what);
        }
    }

    private void Happened(string what)
    {
        _events.Add(new AppEvent(DateTimeOffset.UtcNow, what));
        _voice.Say(Sentence.Of(what));
    }

    /// <summary>Has it run so many processes, from now on and until the file gives another number. The answer is why not, or null.</summary>
    /// <param name="count">In [1, 64].</param>
    public Task<string?> ScaleAsync(int count) => DoAsync(async () =>
    {
        using var wanted = _turns.WhileWanted();
        try
        {
            await (_current?.ScaleAsync(count, wanted.Token) ?? Task.CompletedTask);
        }
        catch (Exception error)     // whatever it is: those that run go on
        {
            return error is OperationCanceledException ? _turns.WhyGivenUp : error.Message;
        }
        _scaled = count;
        Happened(string.Create(CultureInfo.InvariantCulture, $"{count} {(count == 1 ? "process" : "processes")}{(_current is null ? " when it is started" : "")}"));
        return null;
    });
}
