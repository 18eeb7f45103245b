// Whether the code of an application is another than the one that was deployed last. Looks at names, lengths and times now and then: notices of the kernel
// get lost in file systems that others write to, and say nothing of a link that leads elsewhere.

using System.Diagnostics;
using Millrace.Command.Running;

namespace Millrace.Command.Serving;

/// <param name="look">By whom the application's files are looked at.</param>
/// <param name="say">Is told where nobody can look; null: nobody is.</param>
internal sealed class CodeWatch(PatientLook look, Action<string>? say = null)
{
    private static readonly Pace s_daemons = new(TimeSpan.FromSeconds(1), TimeSpan.FromMilliseconds(500));
    private static readonly Pace s_developers = new(TimeSpan.FromMilliseconds(200), TimeSpan.FromMilliseconds(100));
    private const int CostMax = 100;     // a look takes at most one part in so many of the time

    private readonly Lock _lock = new();
    private Pace _pace = s_daemons;
    private TimeSpan _period = s_daemons.Period;
    private string _place = "";
    private Func<string?>? _sign;
    private volatile bool _isStanding;
    private string? _deployed;

    /// <param name="Period">Between two looks, at least.</param>
    /// <param name="Quiet">For how long nobody must have written.</param>
    private sealed record Pace(TimeSpan Period, TimeSpan Quiet);

    private sealed record Watch(string Place, Func<string?>? Sign, Pace Pace, string? Deployed);

    /// <summary>Files of code, and folders, that are kept while somebody looks.</summary>
    public Func<int> EntriesMax { get; init; } = static () => CodeFiles.EntriesMax;

    /// <summary>What lies there now is deployed.</summary>
    /// <param name="target">A folder, or a file in it.</param>
    /// <param name="user">Who looks; null: this process's own.</param>
    /// <param name="ct">Gives it up.</param>
    /// <exception cref="StandstillException">Its file system does not answer.</exception>
    public Task BeginAsync(string target, OtherUser? user, CancellationToken ct) => BeginAsync(target, SignOf(target, user), s_daemons, ct);

    /// <summary>The same of sources, which somebody edits who waits for what becomes of them.</summary>
    /// <param name="sources">Folders of projects.</param>
    /// <param name="ct">Gives it up.</param>
    public Task BeginSourcesAsync(IReadOnlyList<string> sources, CancellationToken ct) => BeginAsync(sources[^1], () => SourceFiles.Sign(sources, look.GoesOn), s_developers, ct);

    /// <summary>Something has been deployed from there before. Nobody looks now.</summary>
    public void Resume(string target, OtherUser? user, string deployed)
    {
        lock (_lock)
        {
            (_place, _sign, _pace, _deployed) = (target, SignOf(target, user), s_daemons, deployed);
        }
    }

    /// <summary>Nothing is watched any more.</summary>
    public void End()
    {
        lock (_lock)
        {
            (_sign, _deployed) = (null, null);
        }
    }

    /// <summary>What is watched, and since when, for whoever puts that back; null where nothing is.</summary>
    public object? Watched
    {
        get
        {
            lock (_lock)
            {
                return _sign is null ? null : new Watch(_place, _sign, _pace, _deployed);
            }
        }
        set
        {
            lock (_lock)
            {
                (_place, _sign, _pace, _deployed) = (Watch)value!;
            }
        }
    }

    private async Task BeginAsync(string place, Func<string?> sign, Pace pace, CancellationToken ct)
    {
        string? signature = await LookAsync(place, sign, pace, ct);
        lock (_lock)
        {
            (_place, _sign, _pace, _deployed) = (place, sign, pace, signature);
        }
    }

    private Func<string?> SignOf(string target, OtherUser? user)
    {
        string? folder = null;
        return () =>
        {
            folder ??= Directory.Exists(target) ? target : Path.GetDirectoryName(target)!;
            return OtherUser.Read(user, () => CodeFiles.Sign(CodeFiles.Read(folder, look.GoesOn, EntriesMax()), look.GoesOn));
        };
    }

    /// <summary>What was deployed last; null where nothing is watched.</summary>
    public string? Deployed
    {
        get
        {
            lock (_lock)
            {
                return _sign is null ? null : _deployed;
            }
        }
    }

    /// <summary>It has become this, before it was deployed.</summary>
    public void Note(string signature)
    {
        lock (_lock)
        {
            _deployed = signature;
        }
    }

    /// <summary>Ends when the code has changed, and nobody writes to it any more.</summary>
    public async Task WaitForChangeAsync(CancellationToken ct)
    {
        while (true)
        {
            await Task.Delay(_period, ct);
            if (await ChangedAsync(ct) is not { } changed)
            {
                continue;
            }
            await Task.Delay(_pace.Quiet, ct);
            if (await ChangedAsync(ct) == changed)
            {
                return;
            }
        }
    }

    /// <summary>Whether the code is another than what is deployed.</summary>
    public async Task<bool> HasChangedAsync(CancellationToken ct) => await ChangedAsync(ct) is not null;

    // Null also where nobody can look: that is said once, and nothing is changed by it.
    private async Task<string?> ChangedAsync(CancellationToken ct)
    {
        string place;
        Func<string?>? sign;
        string? deployed;
        Pace pace;
        lock (_lock)
        {
            (place, sign, deployed, pace) = (_place, _sign, _deployed, _pace);
        }
        try
        {
            string? now = sign is null ? null : await LookAsync(place, sign, pace, ct);
            _isStanding = false;
            return now == deployed ? null : now;
        }
        catch (Exception error) when (error is StandstillException or CommandFailure)
        {
            if (!_isStanding)
            {
                say?.Invoke($"changes of its files are not seen for the time being: {error.Message}");
            }
            _isStanding = true;
            return null;
        }
    }

    private async Task<string?> LookAsync(string place, Func<string?> sign, Pace pace, CancellationToken ct)
    {
        var (signature, took) = await look.AtAsync(
            place,
            () =>
            {
                long begun = Stopwatch.GetTimestamp();
                return (sign(), Stopwatch.GetElapsedTime(begun) * CostMax);
            },
            ct);
        _period = took > pace.Period ? took : pace.Period;
        return signature;
    }
}
